"""Reads Parquet files and directories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from holdfast.table.schema import is_string

_MAX_REPEATED_TEXT_BYTES = 2  # per value: Parquet text this small repeats few values


def read_parquet(path: Path, only: Collection[str] | None = None) -> pa.Table:
    """A Parquet file or directory, or its columns `only`. Text columns that repeat few values stay dictionary-encoded.

    `pre_buffer` serves object stores; for local files, filling the buffer would cost as much as decoding.
    """
    from pyarrow import parquet

    if path.is_dir():
        return parquet.read_table(path, columns=None if only is None else list(only))
    metadata = parquet.read_metadata(path)
    sizes: Counter[str] = Counter()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            sizes[chunk.path_in_schema] += chunk.total_uncompressed_size
    texts = [f.name for f in metadata.schema.to_arrow_schema() if is_string(f.type)]
    repeated = [name for name in texts if sizes[name] <= _MAX_REPEATED_TEXT_BYTES * metadata.num_rows]
    columns = None if only is None else [name for name in metadata.schema.to_arrow_schema().names if name in only]
    return parquet.read_table(path, columns=columns, pre_buffer=False, read_dictionary=repeated)
