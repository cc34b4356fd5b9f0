"""What a plan enforces that nothing proves, and that it cannot be of use."""
