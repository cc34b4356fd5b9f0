"""calibrate: Bounded → PrivatePlan. Strategies, sensitivities, noise and the charge."""
