"""calibrate: Bounded → PrivatePlan. It chooses strategies, sensitivities, noise and the charge."""
