"""Indexes that find the partners of a row, and the plan that assigns rules to indexes."""
