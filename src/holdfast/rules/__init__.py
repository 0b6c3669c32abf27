"""Rules are values: they are compared, hashed, printed and parsed, and never see data."""
