"""Which of the rules that the agree-sets do not refute are proven, and which are still open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import CollapsedRules, common_parts
from holdfast.discovery.fd.exact import FdRules
from holdfast.rules.masks import Masks, Numbers, among, mask_of, none


class Claims(NamedTuple):
    """The claims lefts[i] -> rights[i]; the right side `columns`, which is no column, marks a key."""

    lefts: Masks
    rights: Numbers

    def where(self, chosen: npt.NDArray[np.bool_]) -> Claims:
        return Claims(self.lefts[chosen], self.rights[chosen])

    def joined(self, other: Claims) -> Claims:
        return Claims(np.concatenate([self.lefts, other.lefts]), np.concatenate([self.rights, other.rights]))

    def values(self) -> list[tuple[bytes, int]]:
        """Each claim as a value that sets can hold."""
        return [(left.tobytes(), right) for left, right in zip(self.lefts, self.rights.tolist(), strict=True)]


@dataclass
class Proof:
    """What is proven: rules that were validated, and rules that follow from the complete rules `before` the change;
    with `complete`, everything."""

    before: CollapsedRules | None = None
    complete: bool = False
    _valid: set[tuple[bytes, int]] = field(default_factory=set)

    def add(self, left: Masks, right: int) -> None:
        """Notes that a rule was validated."""
        self._valid.add((left.tobytes(), right))

    def open_claims(self, rules: FdRules) -> Claims:
        """The rules that have to be validated, and the FDs that make the columns of each class equivalent."""
        lefts, rights = [none(rules.columns)], [np.zeros(0, np.int64)]
        if not self.complete:
            old = self._before(rules)
            for right, left_sides in rules.left_sides.items():
                unproven = left_sides[~self._proven(old, left_sides, right)]
                lefts.append(unproven)
                rights.append(np.full(len(unproven), right))
            for a, b in self._equivalences(rules, old):
                lefts.append(mask_of([a], rules.columns))
                rights.append(np.array([b]))
        return Claims(np.concatenate(lefts), np.concatenate(rights))

    def keep_proven(self, rules: FdRules, budget: Budget) -> None:
        """Drops rules and equivalences of columns that are not proven."""
        old = self._before(rules)
        proven = {right: lefts[self._proven(old, lefts, right)] for right, lefts in rules.left_sides.items()}
        rules.keep(proven, budget)
        rules.classes = np.arange(rules.columns)

    def _proven(self, old: CollapsedRules, lefts: Masks, right: int) -> npt.NDArray[np.bool_]:
        """Which left sides of `right` were validated or contain one of before."""
        before = old.lefts[old.rights == right]
        proven = among(lefts, before)
        for i in np.flatnonzero(~proven):
            proven[i] = (lefts[i].tobytes(), right) in self._valid or (
                len(before) > 0 and bool(((before & lefts[i]) == before).all(axis=1).any())
            )
        return proven

    def _equivalences(self, rules: FdRules, old: CollapsedRules) -> Iterator[tuple[int, int]]:
        """A cycle of FDs through each class, without those that are proven or follow from a rule of before. Equivalence
        before the change does not prove it: with `max_size=0` no rule stated it."""
        for a, b in _cycles(rules):
            claim = mask_of([a], rules.columns)
            follows = self._proven(old, mask_of([old.classes[a]], rules.columns), int(old.classes[b])).all()
            if not follows and (claim.tobytes(), b) not in self._valid:
                yield a, b

    def _before(self, rules: FdRules) -> CollapsedRules:
        """The rules before the change, over classes that are parts of the current ones."""
        if self.before is None:
            return CollapsedRules.nothing(rules.columns)
        return self.before.refined(common_parts(self.before.classes, rules.classes))


def claims_of(rules: FdRules) -> Claims:
    """The rules, and the FDs that make the columns of each class equivalent."""
    lefts, rights = [none(rules.columns)], [np.zeros(0, np.int64)]
    for right, left_sides in rules.left_sides.items():
        lefts.append(left_sides)
        rights.append(np.full(len(left_sides), right))
    cycles = list(_cycles(rules))
    lefts += [mask_of([a], rules.columns) for a, _ in cycles]
    return Claims(np.concatenate(lefts), np.concatenate([*rights, np.array([b for _, b in cycles], np.int64)]))


def _cycles(rules: FdRules) -> Iterator[tuple[int, int]]:
    """The FDs a -> b of a cycle through each class of several columns."""
    for first in np.unique(rules.classes).tolist():
        members = np.flatnonzero(rules.classes == first).tolist()
        if len(members) > 1:
            yield from zip(members, [*members[1:], first], strict=True)
