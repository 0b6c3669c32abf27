"""What a rulebook knows, for people: facts, charts, a graph of tables, one page that needs nothing else."""
