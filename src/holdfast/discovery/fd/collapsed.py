"""FDs and keys over classes of equivalent columns.

Columns are equivalent if each determines the other. Only the first column of a class occurs in a collapsed rule, which
stands for the rules with any column of the class in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from holdfast.rules.masks import Masks, Numbers, has, mask_of, none, numbered, unpack
from holdfast.rules.rule_block import NO_CONCLUSION, RuleBlock
from holdfast.rules.ruleset import RuleSet

_AT_ONCE = 1 << 14  # rules


@dataclass(frozen=True)
class CollapsedRules:
    """The rules lefts[i] -> rights[i]. The right side `columns`, which is no column, marks a key.

    `classes[column]` is the first column of its class. The rule `a -> a` says that the columns of the class of `a`
    determine each other.
    """

    classes: Numbers
    lefts: Masks
    rights: Numbers

    @classmethod
    def nothing(cls, columns: int) -> CollapsedRules:
        return cls(np.arange(columns), none(columns), np.zeros(0, np.int64))

    @property
    def columns(self) -> int:
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.lefts)

    def pairs(self) -> Iterator[tuple[list[int], int | None]]:
        """(left columns, right column) of each rule; None: a key."""
        for left, right in zip(unpack(self.lefts, self.columns), self.rights.tolist(), strict=True):
            yield np.flatnonzero(left).tolist(), None if right == self.columns else right

    def refined(self, classes: Numbers) -> CollapsedRules:
        """The same rules over smaller classes, each of which is a part of one of these."""
        rules, members = self, np.bincount(classes, minlength=self.columns)
        for old in np.unique(self.classes).tolist():
            parts = np.unique(classes[self.classes == old]).tolist()
            if len(parts) > 1:
                rules = rules._split(old, parts, [part for part in parts if members[part] > 1])
        return replace(rules, classes=classes)

    def _split(self, old: int, parts: Sequence[int], several: Sequence[int]) -> CollapsedRules:
        """Splits one class into parts; the first part keeps its name. `several`: the parts of several columns."""
        left, right = self.lefts, self.rights
        inner = (left == mask_of([old], self.columns)).all(axis=1) & (right == old)
        left, right = left[~inner], right[~inner]
        on_left, on_right = has(left, old), right == old
        lefts, rights = [left], [right]
        for part in parts[1:]:
            lefts += [left[on_left] ^ mask_of([old, part], self.columns), left[on_right]]
            rights += [right[on_left], np.full(int(on_right.sum()), part)]
        if inner.any():
            ends = [(a, b) for a in parts for b in parts if a != b or a in several]
            lefts += [mask_of([a], self.columns) for a, _ in ends]
            rights.append(np.array([b for _, b in ends], np.int64))
        return replace(self, lefts=np.concatenate(lefts), rights=np.concatenate(rights))

    def count_expanded(self) -> float:
        """About how many rules these are over single columns. O(rules x columns)."""
        members = np.bincount(self.classes, minlength=self.columns)
        weights = np.append(np.log(np.maximum(members, 1)), 0.0)  # of the columns, and of a key
        parts = (slice(start, start + _AT_ONCE) for start in range(0, len(self), _AT_ONCE))
        left_weights = ((unpack(self.lefts[part], self.columns) @ weights[:-1], part) for part in parts)
        return float(sum(np.exp(left + weights[self.rights[part]]).sum() for left, part in left_weights))

    def minus(self, other: CollapsedRules) -> CollapsedRules:
        """The rules that `other` does not have, over the common parts of both sides' classes."""
        parts = common_parts(self.classes, other.classes)
        rules, others = self.refined(parts), other.refined(parts)
        _, numbers = numbered(np.concatenate([others._rows(), rules._rows()]))
        last = numbers[: len(others)].max(initial=-1)
        is_new = numbers[len(others) :] > last
        return replace(rules, lefts=rules.lefts[is_new], rights=rules.rights[is_new])

    def joined(self, other: CollapsedRules) -> CollapsedRules:
        """The rules of both, each once."""
        parts = common_parts(self.classes, other.classes)
        one, two = self.refined(parts), other.refined(parts)
        both = CollapsedRules(parts, np.concatenate([one.lefts, two.lefts]), np.concatenate([one.rights, two.rights]))
        rows, _ = numbered(both._rows())
        return replace(both, lefts=rows[:, :-1], rights=rows[:, -1].astype(np.int64))

    def _rows(self) -> Masks:
        return np.concatenate([self.lefts, self.rights[:, None].astype(np.uint64)], axis=1)

    def expanded(self) -> CollapsedRules:
        """The rules over single columns."""
        return self.refined(np.arange(self.columns))

    def ruleset(
        self, names: Sequence[str], table: str | None, errors: npt.NDArray[np.float64] | None = None
    ) -> RuleSet:
        """All rules over single columns, with these names. `errors`: one for each rule, if no rule is collapsed."""
        rules = self.expanded()
        keys = rules.rights == self.columns
        blocks = []
        for chosen in (keys, ~keys):
            ends = np.where(keys, NO_CONCLUSION, rules.rights)[chosen].astype(np.int32)
            block = RuleBlock("key" if chosen is keys else "fd", table, tuple(names), rules.lefts[chosen], ends)
            block = replace(block, conclusions=() if chosen is keys else tuple(names), names=tuple(names))
            blocks.append(block if errors is None else replace(block, errors=errors[chosen]))
        return RuleSet(tuple(block for block in blocks if len(block)))


def common_parts(classes: Numbers, others: Numbers) -> Numbers:
    """The common refinement: columns share a class if they do in both.

    >>> common_parts(np.array([0, 0, 0, 3]), np.array([0, 0, 2, 2])).tolist()
    [0, 0, 2, 3]
    """
    both = np.stack([classes, others])
    _, first, inverse = np.unique(both, axis=1, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.reshape(-1)], np.int64)
