"""Finding rules, and keeping them true as rows change."""
