"""Structures of the papers in plain Python: oracles for the product's own, and the papers' worked examples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.indexes.box import BoxIndex
from holdfast.indexes.index import MakeIndex
from holdfast.violations import detect
from tests.peers.chain import ChainIndex
from tests.peers.less_than import LessThanIndex

INDEXES: dict[str, MakeIndex] = {"box": BoxIndex, "chain": ChainIndex, "less_than": LessThanIndex}


@contextmanager
def searching_with(name: str) -> Iterator[None]:
    """Lets checked rules search this index instead of the product's."""
    before = detect.BoxIndex
    detect.BoxIndex = INDEXES[name]
    try:
        yield
    finally:
        detect.BoxIndex = before
