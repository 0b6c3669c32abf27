"""Compiles every kernel once, into the cache: `python -m holdfast.kernels.warm`."""

from __future__ import annotations

import numpy as np

from holdfast.kernels import hashing, key_map, text_dictionary


def warm() -> None:
    """Calls each kernel on tiny arrays of the types that the program uses."""
    _warm_text()
    _warm_keys()


def _warm_text() -> None:
    data = np.frombuffer(b"ab", dtype=np.uint8)
    slots, stored, ends = np.zeros(8, np.uint64), np.zeros(8, np.uint8), np.zeros(4, np.int64)
    for kind in (np.int32, np.int64):
        offsets = np.frombuffer(np.array([0, 1], kind).tobytes(), dtype=kind)  # read-only, as Arrow's are
        text_dictionary.encode_strings(
            data, offsets, np.zeros(0, np.bool_), 0, slots, stored, ends, 0, np.zeros(1, np.int64)
        )
    text_dictionary.rebuild_slots(np.zeros(8, np.uint64), stored, ends, 1)


def _warm_keys() -> None:
    codes, columns = np.zeros((1, 2), dtype=np.int64), np.zeros(1, np.int64)
    table, older, slots = np.zeros(8, np.int32), np.zeros(2, np.int32), np.zeros(1, np.int64)
    out = np.zeros(2, np.int64)
    hashing.hash_rows(codes, columns, np.zeros(2, np.uint64))
    key_map.add_rows(table, older, codes, columns, slots)
    key_map.find_rows(table, codes, codes, columns, out)
    key_map.group_rows(codes, columns, np.zeros(8, np.int32), out)
    key_map.take_youngest(table, older, codes, codes, columns, out.copy(), np.zeros(2, np.int32), out)
    key_map.remove_rows(table, older, codes, columns, slots)


if __name__ == "__main__":
    warm()
