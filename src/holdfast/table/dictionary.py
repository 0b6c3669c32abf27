"""The append-only text dictionary of a rulebook: each distinct string has one code, for equality only."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.arrays import Arrays, numpy_of
from holdfast.errors import HoldfastError
from holdfast.kernels.text_dictionary import encode_strings, move_slots, rebuild_slots

NULL = np.iinfo(np.int64).min
_MAX_STRINGS = 2**32 - 2

_NO_BYTES, _NO_OFFSETS, _NO_MASK = np.frombuffer(b"", np.uint8), np.zeros(1, np.int64), np.zeros(0, np.bool_)

Codes = npt.NDArray[np.int64]


class TextDictionary:
    """Maps strings to codes 0, 1, 2, ... and back. Encoding costs O(bytes), expected.

    >>> dictionary = TextDictionary()
    >>> dictionary.encode(pa.array(["x", "y", None, "x"])).tolist()[:2], len(dictionary)
    ([0, 1], 2)
    >>> dictionary.decode(np.array([1, 0])).to_pylist()
    ['y', 'x']
    """

    def __init__(self) -> None:
        self._stored: npt.NDArray[np.uint8] = np.zeros(1 << 12, dtype=np.uint8)
        self._offsets: npt.NDArray[np.int64] = np.zeros(1 + (1 << 8), dtype=np.int64)
        self._slots = np.zeros(1 << 9, dtype=np.uint64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def _ends(self) -> npt.NDArray[np.int64]:
        return self._offsets[1:]

    @property
    def _bytes_used(self) -> int:
        return int(self._offsets[self._size])

    def encode(self, strings: pa.Array) -> Codes:
        """The codes of the strings, null for nulls. New strings get the next codes."""
        data, offsets, valid = _buffers(strings) if len(strings) else (_NO_BYTES, _NO_OFFSETS, _NO_MASK)
        return self._encode(data, offsets, valid, len(strings))

    def encode_texts(self, texts: list[str]) -> Codes | None:
        """The codes of a few Python strings, without Arrow; None if one of them has no UTF-8 encoding."""
        try:
            encoded = [text.encode() for text in texts]
        except UnicodeEncodeError:
            return None
        offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int64, len(texts) + 1)
        data = np.frombuffer(b"".join(encoded), np.uint8)
        return self._encode(data, offsets, _NO_MASK, len(texts))

    def _encode(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.generic],
        valid: npt.NDArray[np.bool_],
        count: int,
    ) -> Codes:
        out, done = np.empty(count, dtype=np.int64), 0
        while done < len(out):
            step, self._size = encode_strings(
                data,
                offsets[done:],
                valid[done:],
                NULL,
                self._slots,
                self._stored,
                self._ends,
                self._size,
                out[done:],
            )
            done += step
            if done < len(out):
                self._grow(int(offsets[done + 1] - offsets[done]))
        return out

    def find(self, text: str) -> int | None:
        """The code of one string, or None; it is not added."""
        encoded = text.encode()
        data, offsets = np.frombuffer(encoded, np.uint8), np.array([0, len(encoded)])
        out = np.empty(1, dtype=np.int64)
        full = self._ends[: self._size]  # leaves no room, so an unknown string is not appended
        done, _ = encode_strings(data, offsets, _NO_MASK, NULL, self._slots, self._stored, full, self._size, out)
        return int(out[0]) if done else None

    def decode(self, codes: Codes) -> pa.Array:
        """The strings of the codes, as an Arrow array of large strings."""
        null = codes == NULL
        return self._view().take(pa.array(np.where(null, 0, codes), mask=null))

    def strings(self) -> pa.Array:
        """A copy of all strings in code order."""
        return self.decode(np.arange(self._size))

    def _view(self) -> pa.Array:
        """All strings, without a copy. Valid only until the next string is added."""
        offsets, data = self._offsets[: self._size + 1], self._stored[: self._bytes_used]
        return pa.LargeStringArray.from_buffers(self._size, pa.py_buffer(offsets), pa.py_buffer(data))

    def truncate(self, size: int) -> None:
        """Removes the strings with codes from `size` on, to undo a refused change. O(bytes kept)."""
        if size < self._size:
            self._size = size
            self._reindex(len(self._slots))

    def to_arrays(self, start: int = 0, stop: int | None = None) -> dict[str, npt.NDArray[np.generic]]:
        """The strings with codes from `start` to `stop`. All strings are the state; the newest ones are a delta."""
        stop = self._size if stop is None else stop
        begin, end = int(self._offsets[start]), int(self._offsets[stop])
        return {"bytes": self._stored[begin:end].copy(), "ends": self._ends[start:stop] - begin}

    def merge(self, delta: Arrays) -> None:
        """Appends the strings that `to_arrays(len(self))` of a dictionary with the same first strings returned."""
        ends = np.asarray(delta["ends"], dtype=np.int64) + self._bytes_used
        data = np.asarray(delta["bytes"], dtype=np.uint8)
        begin, size = self._bytes_used, self._size + len(ends)
        self._stored = _with_room(self._stored, begin + len(data))
        self._offsets = _with_room(self._offsets, size + 1)
        self._stored[begin : begin + len(data)] = data
        self._ends[self._size : size] = ends
        self._size = size
        self._reindex(max(len(self._slots), 1 << int(2 * size + 1).bit_length()))

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> TextDictionary:
        dictionary = cls()
        dictionary.merge(arrays)
        return dictionary

    def _grow(self, next_length: int) -> None:
        """Makes room for at least one more string of `next_length` bytes."""
        if self._size >= _MAX_STRINGS:
            raise HoldfastError(f"the text dictionary is full: it holds {_MAX_STRINGS} distinct strings")
        if self._bytes_used + next_length > len(self._stored):
            self._stored = _with_room(self._stored, self._bytes_used + next_length)
        if self._size >= len(self._ends):
            self._offsets = _with_room(self._offsets, self._size + 2)
        if self._size >= len(self._slots) // 2:
            larger = np.zeros(4 * len(self._slots), dtype=np.uint64)
            move_slots(self._slots, larger)
            self._slots = larger

    def _reindex(self, slots: int) -> None:
        """Rebuilds the hash table with this number of slots."""
        self._slots = np.zeros(slots, dtype=np.uint64)
        rebuild_slots(self._slots, self._stored, self._ends, self._size)

    def _check(self) -> None:
        """Asserts the invariants, for tests: codes are dense, and each string is found under its code."""
        texts = self.strings().to_pylist()
        assert len(set(texts)) == len(texts) == self._size
        assert self.encode(pa.array(texts, pa.large_string())).tolist() == list(range(len(texts)))


def _with_room(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array, copied to a larger one if it has fewer than `size` elements."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 4 * len(array)), dtype=array.dtype)  # untouched memory costs nothing
    grown[: len(array)] = array
    return grown


def _buffers(
    strings: pa.Array,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.generic], npt.NDArray[np.bool_]]:
    """(bytes, offsets, valid) of an Arrow string array; `valid` is empty if nothing is null."""
    wide = pa.types.is_large_string(strings.type)
    if not wide and not pa.types.is_string(strings.type):
        strings, wide = strings.cast(pa.large_string()), True
    _, offset_buffer, data_buffer = strings.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64 if wide else np.int32)
    offsets = offsets[strings.offset : strings.offset + len(strings) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    data.flags.writeable = False  # one compiled signature, whether or not the buffers are writable
    valid = numpy_of(strings.is_valid()) if strings.null_count else _NO_MASK
    return data, offsets, valid
