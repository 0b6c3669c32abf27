"""Witness search: which conjunctions of comparisons do pairs of rows satisfy, and which pair does."""
