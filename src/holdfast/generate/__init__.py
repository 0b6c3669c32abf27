"""Seeded data with rules that hold and breaks at known batches, for the demo, tests and benchmarks."""

from holdfast.generate.orders import orders
from holdfast.generate.stream import Break, GeneratedBatch, GeneratedStream
from holdfast.generate.tax import tax

__all__ = ["Break", "GeneratedBatch", "GeneratedStream", "orders", "tax"]
