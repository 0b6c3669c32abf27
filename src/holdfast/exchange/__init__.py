"""Exports rules to other tools, and imports denial constraints from other programs."""
