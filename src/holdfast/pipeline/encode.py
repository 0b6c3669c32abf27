"""Encoding on Spark: the words that the dictionary lacks are found by distinct and anti-join, then tasks encode.

Only new words come to the driver. Tasks read the dictionary from shared storage.
"""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.arrays import from_buffer, map_file, to_buffer
from holdfast.errors import ValueRefused
from holdfast.executors.spark import numbered, quoted
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORD = "word"


def add_words(frame: DataFrame, schema: Schema, words: TextDictionary, directory: str | Path) -> int:
    """Adds the texts of a frame that the dictionary does not have yet, in their order; how many there were."""
    texts = [column.name for column in schema.columns if column.kind is Kind.TEXT]
    if not texts:
        return 0
    columns = [frame.select(frame[quoted(name)].alias(_WORD)) for name in texts]
    found = functools.reduce(lambda left, right: left.union(right), columns).dropna().distinct()
    if len(words):
        known = Path(directory) / f"words-{secrets.token_hex(6)}.parquet"
        pq.write_table(pa.table({_WORD: words.strings()}), known)
        found = found.join(frame.sparkSession.read.parquet(str(known)), _WORD, "left_anti")
    new = found.orderBy(_WORD).toArrow().column(_WORD)
    before = len(words)
    for chunk in new.chunks:
        words.encode(chunk)
    return len(words) - before


def encode_frame(frame: DataFrame, schema: Schema, words: TextDictionary, directory: str | Path) -> DataFrame:
    """The codes of a frame, column by column, as `encode_table` has them: a frame of int64 columns c0, c1, ...

    The dictionary gets the words that it lacks. The directory is one that the driver and all workers share.
    """
    add_words(frame, schema, words, directory)
    file = Path(directory) / f"dictionary-{secrets.token_hex(6)}.arrow"
    file.write_bytes(to_buffer(words.to_arrays()))
    task = functools.partial(_encode_task, str(file), pickle.dumps(schema))
    return numbered(frame, schema.names).mapInArrow(task, ", ".join(f"c{i} long" for i in range(len(schema))))


def _encode_task(file: str, pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema: Schema = pickle.loads(pickled)
    words = TextDictionary.from_arrays(from_buffer(map_file(Path(file))))
    for batch in batches:
        table = pa.Table.from_batches([batch]).rename_columns(list(schema.names))
        encoded = encode_table(schema, table, words)
        if encoded.problems:
            raise ValueRefused(str(encoded.problems[0]))
        yield pa.record_batch({f"c{i}": pa.array(column) for i, column in enumerate(encoded.codes)})
