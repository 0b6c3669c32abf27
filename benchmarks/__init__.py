"""Benchmarks: each prints CPU times and ratios against a baseline measured in the same run."""
