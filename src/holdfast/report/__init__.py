"""Reports about a rulebook: facts, charts, a graph of tables, and one self-contained HTML page."""
