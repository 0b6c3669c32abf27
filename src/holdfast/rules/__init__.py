"""Rules are values: compared, hashed, printed and parsed; they never see data."""
