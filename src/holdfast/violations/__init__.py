"""Violating rows and pairs, the moment they arrive."""
