"""Ranks rules by how much they tell a reader."""
