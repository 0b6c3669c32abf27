"""The rules of one kind and table as bit masks: a million rules take tens of megabytes.

Each rule is a set of items of the block's vocabulary (`rule_items.py`) and, for FDs and order dependencies, a
conclusion. Rule values are built on iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags, Floats
from holdfast.rules.masks import Masks, Numbers, has, mask_of, sizes, unpack, words_for
from holdfast.rules.names import Rank, by_name, by_position
from holdfast.rules.rule import Rule
from holdfast.rules.rule_items import Item, columns_of, item_key, items_of, rule_of
from holdfast.table.keys import groups

NO_CONCLUSION = -1
_UNPACKED_RULES = 4096  # at a time
BlockKey = tuple[str, str | None]  # kind and table


@dataclass(frozen=True, eq=False)
class RuleBlock:
    """Rules of one kind and table.

    `conclusion` has positions in `conclusions`, or NO_CONCLUSION. `names` is the column order of the schema, empty if
    there is no schema. `errors` are those of approximate rules. `supports` is, for each rule, the number of rows that
    it says something about; None if unknown. `is_lone`: there is no other table, so the rules do not print its name.
    """

    kind: str
    table: str | None
    vocabulary: tuple[Item, ...]
    masks: Masks
    conclusion: npt.NDArray[np.int32]
    conclusions: tuple[Item, ...] = ()
    names: tuple[str, ...] = ()
    errors: Floats | None = None
    supports: Numbers | None = None
    is_lone: bool = False

    @property
    def label(self) -> str | None:
        """The table's name as the rules print it."""
        return None if self.is_lone else self.table

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def key(self) -> BlockKey:
        return self.kind, self.label

    @property
    def nbytes(self) -> int:
        return int(self.masks.nbytes + self.conclusion.nbytes)

    @property
    def rank(self) -> Rank:
        """The order in which columns are printed."""
        return by_position(self.names) if self.names else by_name

    def chosen(self, rows: npt.NDArray[Any]) -> RuleBlock:
        """The rules at these positions, or with these flags."""
        errors = None if self.errors is None else self.errors[rows]
        supports = None if self.supports is None else self.supports[rows]
        return replace(self, masks=self.masks[rows], conclusion=self.conclusion[rows], errors=errors, supports=supports)

    def with_details(self) -> Iterator[tuple[Rule, str, float, int | None]]:
        """Each rule with its text, its error (0 if it holds), and its support (None if unknown)."""
        for i, rule in enumerate(self):
            error = 0.0 if self.errors is None else float(self.errors[i])
            yield rule, rule.text(self.rank), error, None if self.supports is None else int(self.supports[i])

    def __iter__(self) -> Iterator[Rule]:
        for start in range(0, len(self), _UNPACKED_RULES):
            stop = start + _UNPACKED_RULES
            bits = unpack(self.masks[start:stop], len(self.vocabulary))
            for row, conclusion in zip(bits, self.conclusion[start:stop], strict=True):
                items = [self.vocabulary[i] for i in np.flatnonzero(row)]
                yield rule_of(self.kind, self.label, items, self.conclusions[conclusion] if conclusion >= 0 else None)

    def mentions(self, column: str) -> Flags:
        """Which rules mention the column."""
        places = [i for i, item in enumerate(self.vocabulary) if column in columns_of(item)]
        in_items = (self.masks & mask_of(places, len(self.vocabulary))).any(axis=1)
        conclusions = [i for i, item in enumerate(self.conclusions) if column in columns_of(item)]
        return in_items | np.isin(self.conclusion, conclusions)

    def sizes(self) -> Numbers:
        """The number of items of each rule."""
        return sizes(self.masks)

    def shortest(self, most: int) -> RuleBlock:
        """At most `most` rules, those with the fewest items."""
        return self.chosen(np.sort(np.argsort(self.sizes(), kind="stable")[:most]))

    def aligned(self, vocabulary: tuple[Item, ...], conclusions: tuple[Item, ...]) -> RuleBlock:
        """The same rules over a larger vocabulary."""
        if (vocabulary, conclusions) == (self.vocabulary, self.conclusions):
            return self
        place = {item: i for i, item in enumerate(vocabulary)}
        masks = np.zeros((len(self), words_for(len(vocabulary))), dtype=np.uint64)
        for i, item in enumerate(self.vocabulary):
            masks[has(self.masks, i)] |= mask_of([place[item]], len(vocabulary))
        positions = np.array([conclusions.index(c) for c in self.conclusions] + [NO_CONCLUSION], dtype=np.int32)
        return replace(
            self,
            vocabulary=vocabulary,
            conclusions=conclusions,
            masks=masks,
            conclusion=positions[self.conclusion],
        )

    def among(self, others: RuleBlock | None) -> Flags:
        """Which rules are among those of another block over the same vocabulary. O(rules), by hashing."""
        if others is None or not len(others) or not len(self):
            return np.zeros(len(self), dtype=bool)
        rows = np.concatenate([others._rows(), self._rows()], axis=1)
        return groups(rows, np.arange(len(rows)))[len(others) :] < len(others)

    def _rows(self) -> npt.NDArray[np.int64]:
        """Masks and conclusion as codes[column, rule], to compare rules by `groups`."""
        return np.concatenate([self.masks.view(np.int64).T, self.conclusion[None, :].astype(np.int64)])


def block_of(kind: str, table: str | None, rules: Sequence[Rule], names: tuple[str, ...]) -> RuleBlock:
    """The block of distinct rules of one kind and table."""
    split = [items_of(rule) for rule in rules]
    key = item_key(by_position(names) if names else by_name)
    vocabulary = tuple(sorted({item for items, _ in split for item in items}, key=key))
    conclusions = tuple(sorted({end for _, end in split if end is not None}, key=key))
    place = {item: i for i, item in enumerate(vocabulary)}
    masks = np.concatenate([mask_of([place[i] for i in items], len(vocabulary)) for items, _ in split])
    positions = [NO_CONCLUSION if end is None else conclusions.index(end) for _, end in split]
    return RuleBlock(kind, table, vocabulary, masks, np.array(positions, dtype=np.int32), conclusions, names)


def with_common_vocabulary(left: RuleBlock, right: RuleBlock) -> tuple[RuleBlock, RuleBlock]:
    """Both blocks over one vocabulary, which does not depend on their order."""
    vocabulary = _union(left.vocabulary, right.vocabulary)
    conclusions = _union(left.conclusions, right.conclusions)
    return left.aligned(vocabulary, conclusions), right.aligned(vocabulary, conclusions)


def _union(left: tuple[Item, ...], right: tuple[Item, ...]) -> tuple[Item, ...]:
    return left if left == right else tuple(sorted({*left, *right}, key=repr))


def joined_blocks(blocks: Iterable[RuleBlock]) -> list[RuleBlock]:
    """Blocks without common rules as one block for each kind and table."""
    joined: dict[BlockKey, RuleBlock] = {}
    for block in blocks:
        joined[block.key] = _concatenated(joined[block.key], block) if block.key in joined else block
    return list(joined.values())


def _concatenated(first: RuleBlock, second: RuleBlock) -> RuleBlock:
    first, second = with_common_vocabulary(first, second)
    return replace(
        first,
        masks=np.concatenate([first.masks, second.masks]),
        conclusion=np.concatenate([first.conclusion, second.conclusion]),
        errors=_concatenated_errors(first, second),
        supports=None,
    )


def _concatenated_errors(first: RuleBlock, second: RuleBlock) -> Floats | None:
    if first.errors is None and second.errors is None:
        return None
    blocks = (first, second)
    return np.concatenate([np.zeros(len(b)) if b.errors is None else b.errors for b in blocks])
