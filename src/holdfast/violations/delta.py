"""What changes in the violations of a rule."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.indexes.pairs import Pairs


class ViolationDelta(NamedTuple):
    """What a change did to the violations of one rule. `listed` is false where only counts were kept: a pair that an
    update ended and began again then counts on both sides.
    """

    added: Pairs
    removed: Pairs
    count_added: int
    count_removed: int
    listed: bool = True

    @classmethod
    def between(cls, added: Pairs, removed: Pairs) -> ViolationDelta:
        """What is new and what is gone; a pair that came and went is neither."""
        if not len(added) and not len(removed):
            return cls(added, removed, 0, 0)
        new, old = added.without(removed).ordered(), removed.without(added).ordered()
        return cls(new, old, len(new), len(old))
