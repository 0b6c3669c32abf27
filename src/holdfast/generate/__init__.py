"""Generated data for the demo, tests and benchmarks: rules hold, and are broken at known batches."""

from holdfast.generate.orders import orders
from holdfast.generate.stream import Break, GeneratedBatch, GeneratedStream
from holdfast.generate.tax import tax

__all__ = ["Break", "GeneratedBatch", "GeneratedStream", "orders", "tax"]
