"""Named NumPy arrays as one Arrow IPC file with a single row and a list column for each array.

Any Arrow reader can open the file. `map_file` memory-maps it, and the arrays are views of the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[np.generic]
Arrays = Mapping[str, Array]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]


def to_buffer(arrays: Arrays) -> pa.Buffer:
    """The content of the Arrow IPC file.

    >>> from_buffer(to_buffer({"x": np.array([[1, 2], [3, 4]])}))["x"].tolist()
    [[1, 2], [3, 4]]
    """
    fields, columns = [], []
    for name, array in arrays.items():
        flat = np.ascontiguousarray(array).reshape(-1)
        values = pa.array(flat.view(np.uint8) if flat.dtype == bool else flat)
        columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), values))
        metadata = {"shape": ",".join(map(str, array.shape)), "dtype": array.dtype.str}
        fields.append(pa.field(name, columns[-1].type, metadata=metadata))
    sink = pa.BufferOutputStream()
    schema = pa.schema(fields)
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return sink.getvalue()


def from_buffer(buffer: pa.Buffer) -> dict[str, Array]:
    """The arrays in the content of a file, as views without a copy."""
    batch = pa.ipc.open_file(buffer).get_batch(0)
    return {field.name: _array(field, batch.column(i)) for i, field in enumerate(batch.schema)}


def _array(field: pa.Field, column: pa.LargeListArray) -> Array:
    flat = numpy_of(column.flatten())
    shape = tuple(int(n) for n in field.metadata[b"shape"].decode().split(",") if n)
    array: Array = flat.view(np.dtype(field.metadata[b"dtype"].decode())).reshape(shape)
    return array


def numpy_of(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """An Arrow array of numbers or booleans as a NumPy array. Arrow's own conversion imports pandas, if it is there,
    which takes longer than a small job; here that is needed only for nulls and other types.

    >>> numpy_of(pa.array([1, 2, 3]).slice(1)).tolist(), numpy_of(pa.array([True, False])).tolist()
    ([2, 3], [True, False])
    >>> numpy_of(pa.chunked_array([], pa.int64())).tolist()
    []
    """
    if isinstance(values, pa.ChunkedArray) and values.num_chunks:
        chunks = [numpy_of(chunk) for chunk in values.chunks]
        return np.concatenate(chunks) if len(chunks) > 1 else chunks[0]
    if not len(values):
        return np.empty(0, values.type.to_pandas_dtype())
    buffer, begin, end = values.buffers()[-1], values.offset, values.offset + len(values)
    if values.null_count or not _is_number(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(values.type):
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")
        return bits[begin:].view(np.bool_)
    return np.frombuffer(buffer, values.type.to_pandas_dtype())[begin:end]


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_))


def map_file(path: Path) -> pa.Buffer:
    """The memory-mapped content of a file."""
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def table_to_buffer(table: pa.Table) -> pa.Buffer:
    """An Arrow table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_from_buffer(buffer: pa.Buffer | bytes) -> pa.Table:
    """The inverse of `table_to_buffer`."""
    return pa.ipc.open_stream(buffer).read_all()


def joined(states: Mapping[str, Arrays]) -> dict[str, Array]:
    """The arrays of several states in one mapping, named `state/array`."""
    return {f"{state}/{name}": array for state, arrays in states.items() for name, array in arrays.items()}


def split(arrays: Arrays) -> dict[str, dict[str, Array]]:
    """The inverse of `joined`."""
    states: dict[str, dict[str, Array]] = {}
    for path, array in arrays.items():
        state, _, name = path.rpartition("/")
        states.setdefault(state, {})[name] = array
    return states
