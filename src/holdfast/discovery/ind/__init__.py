"""Inclusion dependencies."""
