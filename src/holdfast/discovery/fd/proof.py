"""Which rules that some agree-sets leave standing are known to hold, and which are open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import Collapsed, common_parts
from holdfast.discovery.fd.exact import FdRules
from holdfast.rules.masks import Masks, Numbers, among, mask_of, none


class Claims(NamedTuple):
    """lefts[i] -> rights[i], or a key where the right side is no column."""

    lefts: Masks
    rights: Numbers


@dataclass
class Proof:
    """What is proven: rules with a left side that contains one of `before`, all of which held and were all; rules that
    were validated; or everything."""

    before: Collapsed | None = None
    complete: bool = False
    _valid: set[tuple[bytes, int]] = field(default_factory=set)

    def add(self, left: Masks, right: int) -> None:
        """A rule was found to hold."""
        self._valid.add((left.tobytes(), right))

    def open_claims(self, rules: FdRules) -> Claims:
        """The rules that are to be validated, and that the columns of each class determine each other."""
        lefts, rights = [none(rules.columns)], [np.zeros(0, np.int64)]
        if not self.complete:
            old = self._before(rules)
            for right, covers in rules.covers.items():
                unproven = covers[~self._proven(old, covers, right)]
                lefts.append(unproven)
                rights.append(np.full(len(unproven), right))
            for a, b in self._twins(rules, old):
                lefts.append(mask_of([a], rules.columns))
                rights.append(np.array([b]))
        return Claims(np.concatenate(lefts), np.concatenate(rights))

    def keep_proven(self, rules: FdRules, budget: Budget) -> None:
        """Lets go of rules that are not proven, and of what columns could stand for."""
        old = self._before(rules)
        proven = {right: covers[self._proven(old, covers, right)] for right, covers in rules.covers.items()}
        rules.keep(proven, budget)
        rules.classes = np.arange(rules.columns)

    def _proven(self, old: Collapsed, covers: Masks, right: int) -> npt.NDArray[np.bool_]:
        before = old.lefts[old.rights == right]
        proven = among(covers, before)
        for i in np.flatnonzero(~proven):
            proven[i] = (covers[i].tobytes(), right) in self._valid or (
                len(before) > 0 and bool(((before & covers[i]) == before).all(axis=1).any())
            )
        return proven

    def _twins(self, rules: FdRules, old: Collapsed) -> Iterator[tuple[int, int]]:
        """A round of FDs through each class, without those that are proven or follow from a rule of before. Columns
        that were equivalent before need not be so now: without left sides (`max_size=0`), no rule said so."""
        for first in np.unique(rules.classes).tolist():
            members = np.flatnonzero(rules.classes == first).tolist()
            for a, b in zip(members, [*members[1:], first], strict=True):
                claim = mask_of([a], rules.columns)
                follows = self._proven(old, mask_of([old.classes[a]], rules.columns), int(old.classes[b])).all()
                if a != b and not follows and (claim.tobytes(), b) not in self._valid:
                    yield a, b

    def _before(self, rules: FdRules) -> Collapsed:
        """The old rules over columns that the new ones speak of too."""
        if self.before is None:
            return Collapsed.nothing(rules.columns)
        return self.before.refined(common_parts(self.before.classes, rules.classes))
