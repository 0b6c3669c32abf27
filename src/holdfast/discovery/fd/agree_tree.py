"""The AStree of DynASt (section 6): how many pairs violate an FD or a key, from the agree-sets.

The paper says that a set specialises another "if every bit that is set in as1 is also set in as2", and then looks for
sets with more bits: the wrong way round. Here a specialisation of X has all columns of X. The tree has no counts, as
in the paper: it finds entries, and their counts are looked up, so a set that no pair has any more may stay in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.kernels.agree_tree import build_tree, count_among, count_specialisations
from holdfast.rules.masks import Masks, Numbers, sizes

_WORTH_A_NEW_TREE = 4  # times fewer entries in the tail than in the tree are left there


class AgreeTree:
    """An index of the entries of a multiset. New entries wait in a tail until they are many enough for a new tree."""

    def __init__(self, agreeing: AgreeSets) -> None:
        self._of = agreeing
        self._entries = -1
        self._generation = -1
        self._agree = self._differ = np.zeros((0, 1), np.uint64)

    def violations(self, left: Sequence[int], right: int | None) -> int:
        """Ordered pairs that violate `left -> right`, or the key `left`: one pass over the tree, and the tail."""
        self._refresh()
        wanted = np.array(sorted(left), np.int64)
        end = -1 if right is None else right
        found = count_specialisations(*self._tree, self._order, self._of.all_counts, self._differ, wanted, end)
        rest = count_among(self._agree, self._differ, self._of.all_counts, self._entries, wanted, end)
        return 2 * int(found + rest)

    def _refresh(self) -> None:
        """Brings the tree to the entries that there are."""
        entries = self._of.all_sets
        anew = self._generation != self._of.generation
        if anew or len(entries) != len(self._agree):
            self._agree, self._differ = (np.ascontiguousarray(half) for half in self._of.split(entries))
        if anew or (len(entries) - self._entries) * _WORTH_A_NEW_TREE > self._entries:
            self._build()

    def _build(self) -> None:
        self._generation, self._entries = self._of.generation, len(self._agree)
        self._order = _by_path(self._agree)
        nodes = int(sizes(self._agree).sum()) + 2
        self._tree: tuple[Numbers, Numbers, Numbers] = tuple(np.empty(nodes, np.int64) for _ in range(3))  # type: ignore[assignment]
        build_tree(np.ascontiguousarray(self._agree[self._order]), *self._tree)

    def paths(self) -> list[list[int]]:
        """The columns on the way to each node, for tests."""
        self._refresh()
        column, skip, _ = self._tree
        made: list[list[int]] = []
        ends: list[int] = []
        for node in range(1, int(skip[0])):
            while ends and node >= ends[-1]:
                ends.pop()
            made.append([*(made[-1][: len(ends)] if made else []), int(column[node])])
            ends.append(int(skip[node]))
        return made


def _by_path(sets: Masks) -> Numbers:
    """An order in which sets with the same lowest columns stand together, the shorter one first."""
    flipped = np.unpackbits(np.ascontiguousarray(sets).view(np.uint8), axis=1, bitorder="little")
    words = np.packbits(flipped, axis=1, bitorder="big").view(">u8")
    return np.lexsort(words.T[::-1])
