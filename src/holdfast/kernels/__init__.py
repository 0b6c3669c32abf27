"""Numba kernels: arrays in, arrays out, serial, no classes. They know nothing of tables or rules."""
