"""Sets of rules of several kinds and tables, with set operations that never build rule values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.arrays import Flags, Floats
from holdfast.html_table import MAX_SHOWN_ROWS, html_table
from holdfast.rules.masks import Masks
from holdfast.rules.rule import KINDS, Rule
from holdfast.rules.rule_block import (
    NO_CONCLUSION,
    BlockKey,
    RuleBlock,
    block_of,
    joined_blocks,
    with_common_vocabulary,
)
from holdfast.rules.sentence import sentence


@dataclass(frozen=True, eq=False)
class RuleSet:
    """A set of rules, stored in blocks by kind and table.

    `complete` is false if a budget ended the search. `limits` lists the limits that applied. `how` says, for each
    table, how its rules were found. `vacuous` lists columns without values, which every column includes.

    >>> from holdfast.rules.grammar import parse
    >>> rules = RuleSet.from_rules([parse("zip -> city"), parse("key(ssn)"), parse("state, zip -> city")])
    >>> len(rules), rules.of("fd").texts()
    (3, ['state, zip -> city', 'zip -> city'])
    """

    blocks: tuple[RuleBlock, ...] = ()
    complete: bool = True
    limits: tuple[str, ...] = field(default=())
    how: tuple[str, ...] = field(default=())
    vacuous: tuple[str, ...] = field(default=())

    @classmethod
    def with_errors(cls, block: RuleBlock, errors: Floats) -> RuleSet:
        """The rules of one block, with their errors."""
        return cls((replace(block, errors=errors),))

    @classmethod
    def from_rules(cls, rules: Iterable[Rule], names: Sequence[str] = ()) -> RuleSet:
        """The set of these rules. `names` is the column order in which they are printed."""
        grouped: dict[BlockKey, list[Rule]] = {}
        for rule in dict.fromkeys(rules):
            grouped.setdefault((rule.kind, rule.table), []).append(rule)
        order = sorted(grouped, key=lambda key: (KINDS.index(key[0]), key[1] or ""))
        return cls(tuple(block_of(kind, table, grouped[kind, table], tuple(names)) for kind, table in order))

    @classmethod
    def keys(cls, columns: Sequence[str], masks: Masks, table: str | None = None) -> RuleSet:
        """Keys from bit masks over the columns; masks are (rules, words)."""
        none = np.full(len(masks), NO_CONCLUSION, dtype=np.int32)
        return cls((RuleBlock("key", table, tuple(columns), masks, none, names=tuple(columns)),))

    @classmethod
    def fds(
        cls, columns: Sequence[str], left: Masks, right: npt.NDArray[np.integer], table: str | None = None
    ) -> RuleSet:
        """FDs from bit masks of left sides and positions of right columns."""
        names = tuple(columns)
        return cls((RuleBlock("fd", table, names, left, np.asarray(right, np.int32), names, names),))

    @classmethod
    def joined(cls, sets: Iterable[RuleSet]) -> RuleSet:
        """The union of sets that have no rule in common."""
        parts = list(sets)
        blocks = joined_blocks(block for part in parts for block in part.blocks if len(block))
        blocks.sort(key=lambda block: (KINDS.index(block.kind), block.label or ""))
        limits = tuple(dict.fromkeys(limit for part in parts for limit in part.limits))
        how = tuple(text for part in parts for text in part.how)
        vacuous = tuple(name for part in parts for name in part.vacuous)
        return cls(tuple(blocks), all(part.complete for part in parts), limits, how, vacuous)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def __iter__(self) -> Iterator[Rule]:
        for block in self.blocks:
            yield from block

    def __contains__(self, rule: object) -> bool:
        return any(rule in RuleSet((b,))._values for b in self.blocks if b.kind == getattr(rule, "kind", None))

    @cached_property
    def _values(self) -> frozenset[Rule]:
        return frozenset(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuleSet) and len(self) == len(other) and len(self - other) == 0

    __hash__ = None  # type: ignore[assignment]

    @property
    def nbytes(self) -> int:
        """The bytes that the rules take in memory."""
        return sum(block.nbytes for block in self.blocks)

    def of_lone_table(self) -> RuleSet:
        """The same rules, which do not print the name of their table: there is no other."""
        return self._with(replace(block, is_lone=True) for block in self.blocks)

    def of(self, kind: str) -> RuleSet:
        """The rules of one kind: key, fd, ind, order or dc."""
        return self._with(block for block in self.blocks if block.kind == kind)

    def mentioning(self, column: str) -> RuleSet:
        """The rules that mention a column. O(rules)."""
        return self._with(block.chosen(block.mentions(column)) for block in self.blocks)

    def where(self, keep: Callable[[RuleBlock], Flags]) -> RuleSet:
        """The rules that pass a vectorised test of their block."""
        return self._with(block.chosen(keep(block)) for block in self.blocks)

    def _with(self, blocks: Iterable[RuleBlock]) -> RuleSet:
        return replace(self, blocks=tuple(block for block in blocks if len(block)))

    def __or__(self, other: RuleSet) -> RuleSet:
        return self._with(joined_blocks([*self.blocks, *(other - self).blocks]))

    def __sub__(self, other: RuleSet) -> RuleSet:
        return self._with(block.chosen(~block.among(theirs)) for block, theirs in self._paired(other))

    def __and__(self, other: RuleSet) -> RuleSet:
        return self._with(block.chosen(block.among(theirs)) for block, theirs in self._paired(other))

    def _paired(self, other: RuleSet) -> Iterator[tuple[RuleBlock, RuleBlock | None]]:
        """Each block with the block of the same kind and table in another set, over a common vocabulary."""
        their_blocks = {block.key: block for block in reversed(other.blocks)}
        for block in self.blocks:
            theirs = their_blocks.get(block.key)
            yield (block, None) if theirs is None else with_common_vocabulary(block, theirs)

    def with_texts(self) -> Iterator[tuple[Rule, str]]:
        """Each rule with its canonical text."""
        return ((rule, rule.text(block.rank)) for block in self.blocks for rule in block)

    def texts(self) -> list[str]:
        """The canonical texts, sorted."""
        return sorted(text for _, text in self.with_texts())

    def to_arrow(self) -> pa.Table:
        """id, kind, table, text, error and support of each rule, sorted by kind and text."""
        rows = sorted(
            (KINDS.index(block.kind), block.label or "", text, rule.id, error, support)
            for block in self.blocks
            for rule, text, error, support in block.with_details()
        )
        records = [
            {"id": id_, "kind": KINDS[kind], "table": table or None, "text": text, "error": error, "support": support}
            for kind, table, text, id_, error, support in rows
        ]
        return pa.Table.from_pylist(records, schema=_ARROW_SCHEMA)

    def to_pandas(self) -> Any:
        """The same table as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self.of(kind))} {kind}" for kind in KINDS if len(self.of(kind)))
        return f"<RuleSet: {counts or 'no rules'}{'' if self.complete else ', not complete'}>"

    def _repr_html_(self) -> str:
        rows = (
            (block.kind, text, error, sentence(rule, block.rank, error))
            for block in self.blocks
            for rule, text, error, _ in block.with_details()
        )
        return html_table(["kind", "rule", "error", "sentence"], islice(rows, MAX_SHOWN_ROWS), len(self))


_ARROW_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "kind", "table", "text")]
    + [("error", pa.float64()), ("support", pa.int64())]
)
