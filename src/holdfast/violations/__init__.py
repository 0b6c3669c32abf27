"""Detects violations of rules, lists what a batch added and removed, and explains them."""
