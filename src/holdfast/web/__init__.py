"""`holdfast serve`: pages and a JSON API for a rulebook."""
