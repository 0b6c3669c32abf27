"""What people decide about rules, what is known already, whom to tell, and how it came about."""
