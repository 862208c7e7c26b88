"""What quantizing passes share: scales, rounding, tables, calibration."""
