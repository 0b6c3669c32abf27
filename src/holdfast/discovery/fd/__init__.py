"""Keys and functional dependencies."""
