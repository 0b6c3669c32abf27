"""Indexes that find the partners of a row, and the plan that says which ones some rules need."""
