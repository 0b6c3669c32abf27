"""An append-only list of JSON records, as a state."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from holdfast.arrays import Array, Arrays

Record = dict[str, Any]


class Log:
    """Records in order of arrival. Its delta holds the added records.

    >>> log = Log()
    >>> log.merge(Log.delta([{"batch": 1}]))
    >>> log.records
    [{'batch': 1}]
    """

    def __init__(self) -> None:
        self.records: list[Record] = []

    def __len__(self) -> int:
        return len(self.records)

    @staticmethod
    def delta(records: list[Record]) -> dict[str, Array]:
        lines = [json.dumps(record, default=str).encode() for record in records]
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
        return {"bytes": np.frombuffer(b"".join(lines), dtype=np.uint8), "ends": ends}

    def append(self, record: Record) -> None:
        """Adds one record, which must consist of JSON types."""
        self.records.append(record)

    def merge(self, delta: Arrays) -> None:
        data, start = np.asarray(delta["bytes"]).tobytes(), 0
        for end in np.asarray(delta["ends"]).tolist():
            self.records.append(json.loads(data[start:end]))
            start = end

    def to_arrays(self, start: int = 0) -> dict[str, Array]:
        """The records from `start` on."""
        return self.delta(self.records[start:])
