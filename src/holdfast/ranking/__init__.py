"""Which rules are worth reading."""
