"""Integer mechanisms and their calibration."""
