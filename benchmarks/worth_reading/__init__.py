"""Whether what is shown first is worth reading, judged by labels of real tables."""
