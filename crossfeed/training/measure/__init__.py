"""What is measured on windows that never train: losses, forecast errors, floors, health, calibration."""
