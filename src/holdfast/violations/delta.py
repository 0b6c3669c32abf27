"""The change of one rule's violations."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.indexes.pairs import Pairs


class ViolationDelta(NamedTuple):
    """Violations of one rule that a batch added and removed.

    If not `listed`, only the counts are known. They then count a pair twice, as removed and as added, if an update
    changed one of its rows and the pair still violates the rule.
    """

    added: Pairs
    removed: Pairs
    count_added: int
    count_removed: int
    listed: bool = True

    @classmethod
    def between(cls, added: Pairs, removed: Pairs) -> ViolationDelta:
        """The net change: a pair that was both added and removed is in neither."""
        if not len(added) and not len(removed):
            return cls(added, removed, 0, 0)
        net_added, net_removed = added.without(removed).ordered(), removed.without(added).ordered()
        return cls(net_added, net_removed, len(net_added), len(net_removed))
