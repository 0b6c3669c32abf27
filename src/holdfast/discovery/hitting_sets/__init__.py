"""Minimal hitting sets, exact and approximate."""
