"""A rulebook in the browser."""
