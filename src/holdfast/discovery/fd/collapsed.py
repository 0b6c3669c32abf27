"""FDs and keys over classes of columns that can stand for each other.

Only the first column of a class occurs in a collapsed rule; it stands for one rule with each column of its class in
its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from holdfast.rules.masks import Masks, Numbers, has, mask_of, none, numbered, unpack
from holdfast.rules.rule_block import NO_CONCLUSION, RuleBlock
from holdfast.rules.ruleset import RuleSet


@dataclass(frozen=True)
class Collapsed:
    """lefts[i] -> rights[i]; a right side that is no column, being as many as there are, makes a key.

    `classes[column]` is the first column of its class; a rule `a -> a` says that the columns of the class determine
    each other.
    """

    classes: Numbers
    lefts: Masks
    rights: Numbers

    @classmethod
    def nothing(cls, columns: int) -> Collapsed:
        return cls(np.arange(columns), none(columns), np.zeros(0, np.int64))

    @property
    def columns(self) -> int:
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.lefts)

    def pairs(self) -> Iterator[tuple[list[int], int | None]]:
        """(left columns, right column or None for a key) of each rule."""
        for left, right in zip(unpack(self.lefts, self.columns), self.rights.tolist(), strict=True):
            yield np.flatnonzero(left).tolist(), None if right == self.columns else right

    def refined(self, classes: Numbers) -> Collapsed:
        """The same rules over classes that are parts of these."""
        made, members = self, np.bincount(classes, minlength=self.columns)
        for old in np.unique(self.classes).tolist():
            parts = np.unique(classes[self.classes == old]).tolist()
            if len(parts) > 1:
                made = made._split(old, parts, [part for part in parts if members[part] > 1])
        return replace(made, classes=classes)

    def _split(self, old: int, parts: Sequence[int], several: Sequence[int]) -> Collapsed:
        """One class in parts, the first of which keeps its name; several columns are in some parts."""
        left, right = self.lefts, self.rights
        inner = (left == mask_of([old], self.columns)).all(axis=1) & (right == old)
        each = inner.any()
        left, right = left[~inner], right[~inner]
        there, mine = has(left, old), right == old
        lefts, rights = [left], [right]
        for part in parts[1:]:
            lefts += [left[there] ^ mask_of([old, part], self.columns), left[mine]]
            rights += [right[there], np.full(int(mine.sum()), part)]
        if each:
            ends = [(a, b) for a in parts for b in parts if a != b or a in several]
            lefts += [mask_of([a], self.columns) for a, _ in ends]
            rights.append(np.array([b for _, b in ends], np.int64))
        return replace(self, lefts=np.concatenate(lefts), rights=np.concatenate(rights))

    def minus(self, other: Collapsed) -> Collapsed:
        """The rules, over common parts of both sides' classes, that the other side does not have."""
        parts = common_parts(self.classes, other.classes)
        mine, theirs = self.refined(parts), other.refined(parts)
        rows = np.concatenate([theirs._rows(), mine._rows()])
        _, numbers = numbered(rows)
        known = numbers[: len(theirs)].max(initial=-1)
        fresh = numbers[len(theirs) :] > known
        return replace(mine, lefts=mine.lefts[fresh], rights=mine.rights[fresh])

    def _rows(self) -> Masks:
        return np.concatenate([self.lefts, self.rights[:, None].astype(np.uint64)], axis=1)

    def expanded(self) -> Collapsed:
        """Every rule by itself."""
        return self.refined(np.arange(self.columns))

    def ruleset(
        self, names: Sequence[str], table: str | None, errors: npt.NDArray[np.float64] | None = None
    ) -> RuleSet:
        """All rules, over columns with these names; `errors` are those of rules that are not collapsed."""
        whole = self.expanded()
        keys = whole.rights == self.columns
        blocks = []
        for chosen in (keys, ~keys):
            ends = np.where(keys, NO_CONCLUSION, whole.rights)[chosen].astype(np.int32)
            made = RuleBlock("key" if chosen is keys else "fd", table, tuple(names), whole.lefts[chosen], ends)
            made = replace(made, conclusions=() if chosen is keys else tuple(names), names=tuple(names))
            blocks.append(made if errors is None else replace(made, errors=errors[chosen]))
        return RuleSet(tuple(block for block in blocks if len(block)))


def common_parts(classes: Numbers, others: Numbers) -> Numbers:
    """The classes of columns that are together in both.

    >>> common_parts(np.array([0, 0, 0, 3]), np.array([0, 0, 2, 2])).tolist()
    [0, 0, 2, 3]
    """
    both = np.stack([classes, others])
    _, first, inverse = np.unique(both, axis=1, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.reshape(-1)], np.int64)
