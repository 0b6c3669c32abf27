"""The AStree of DynASt (section 6): how many pairs violate an FD or a key, from the agree-sets.

The paper says that a set specialises another "if every bit that is set in as1 is also set in as2", and then searches
for sets with more bits, which contradicts its definition. Here a specialisation of X has all columns of X. As in the
paper, the tree has no counts: it finds entries, whose counts are then looked up. So entries that no pair has may stay
in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.kernels.agree_tree import build_tree, count_among, count_specialisations
from holdfast.rules.masks import Masks, Numbers, sizes

_REBUILD = 4  # the tree is built anew once the tail has a quarter as many entries


class AgreeTree:
    """An index of the entries of a multiset. New entries wait in a tail, which is scanned, until the tree is built
    anew."""

    def __init__(self, agreeing: AgreeSets) -> None:
        self._of = agreeing
        self._entries = -1
        self._generation = -1
        self._agree = self._differ = np.zeros((0, 1), np.uint64)

    def violations(self, left: Sequence[int], right: int | None) -> int:
        """How many ordered pairs violate `left -> right`, or the key `left`. One pass over the tree and the tail."""
        self._refresh()
        wanted = np.array(sorted(left), np.int64)
        end = -1 if right is None else right
        in_tree = count_specialisations(*self._tree, self._order, self._of.all_counts, self._differ, wanted, end)
        in_tail = count_among(self._agree, self._differ, self._of.all_counts, self._entries, wanted, end)
        return 2 * int(in_tree + in_tail)

    def _refresh(self) -> None:
        """Builds the tree if there is none for these entries, or the tail has become long."""
        entries = self._of.all_sets
        renumbered = self._generation != self._of.generation
        if renumbered or len(entries) != len(self._agree):
            self._agree, self._differ = (np.ascontiguousarray(half) for half in self._of.split(entries))
        if renumbered or (len(entries) - self._entries) * _REBUILD > self._entries:
            self._build()

    def _build(self) -> None:
        self._generation, self._entries = self._of.generation, len(self._agree)
        self._order = _by_path(self._agree)
        nodes = int(sizes(self._agree).sum()) + 2
        self._tree: tuple[Numbers, Numbers, Numbers] = tuple(np.empty(nodes, np.int64) for _ in range(3))  # type: ignore[assignment]
        build_tree(np.ascontiguousarray(self._agree[self._order]), *self._tree)

    def paths(self) -> list[list[int]]:
        """The columns on the path to each node, for tests."""
        self._refresh()
        column, skip, _ = self._tree
        paths: list[list[int]] = []
        ends: list[int] = []
        for node in range(1, int(skip[0])):
            while ends and node >= ends[-1]:
                ends.pop()
            paths.append([*(paths[-1][: len(ends)] if paths else []), int(column[node])])
            ends.append(int(skip[node]))
        return paths


def _by_path(sets: Masks) -> Numbers:
    """An order in which sets with the same lowest columns are adjacent, the shorter one first."""
    flipped = np.unpackbits(np.ascontiguousarray(sets).view(np.uint8), axis=1, bitorder="little")
    words = np.packbits(flipped, axis=1, bitorder="big").view(">u8")
    return np.lexsort(words.T[::-1])
