"""Denial constraints and order dependencies."""
