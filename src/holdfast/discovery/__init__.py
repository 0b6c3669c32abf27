"""Finding the rules that hold."""
