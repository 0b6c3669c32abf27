"""Rules to other tools, and from other programs."""
