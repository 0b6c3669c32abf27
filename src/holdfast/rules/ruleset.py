"""Many rules at once, as bitmasks: a million take tens of megabytes; rule values are made on iteration.

A block holds the rules of one kind and table. Each rule is a set of items of the block's vocabulary (columns for
keys and FDs, column pairs for INDs, columns with a weak atom for order dependencies, predicates' weak atoms for
DCs) and, for FDs and order dependencies, a conclusion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.html_table import MAX_SHOWN_ROWS, html_table
from holdfast.rules.masks import Masks, has, mask_of, sizes, unpack, words_for
from holdfast.rules.names import Rank, by_name, by_position
from holdfast.rules.operator import Op, Weak
from holdfast.rules.predicate import Compare, IsNull
from holdfast.rules.rule import KINDS, Dc, Fd, Ind, Key, Marked, Order, Rule
from holdfast.rules.sentence import sentence
from holdfast.table.keys import groups

Item = Any  # a column name, a pair of columns, (column, Weak), or a predicate's (operands, Weak) or IsNull
NO_CONCLUSION = -1


@dataclass(frozen=True, eq=False)
class RuleBlock:
    """Rules of one kind and table. `names` is the schema's column order, empty where there is no schema."""

    kind: str
    table: str | None
    vocabulary: tuple[Item, ...]
    masks: Masks
    conclusion: npt.NDArray[np.int32]
    conclusions: tuple[Item, ...] = ()
    names: tuple[str, ...] = ()
    errors: npt.NDArray[np.float64] | None = None  # of approximate rules
    supports: npt.NDArray[np.int64] | None = None  # rows that each rule says something about, where that was looked at

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def nbytes(self) -> int:
        return int(self.masks.nbytes + self.conclusion.nbytes)

    @property
    def rank(self) -> Rank:
        return by_position(self.names) if self.names else by_name

    def chosen(self, rows: npt.NDArray[Any]) -> RuleBlock:
        errors, supports = (None if some is None else some[rows] for some in (self.errors, self.supports))
        masks, ends = self.masks[rows], self.conclusion[rows]
        return replace(self, masks=masks, conclusion=ends, errors=errors, supports=supports)

    def with_details(self) -> Iterator[tuple[Rule, str, float, int | None]]:
        """Each rule with its text, its error (0 where it holds), and its support where that is known."""
        for i, rule in enumerate(self):
            error = 0.0 if self.errors is None else float(self.errors[i])
            yield rule, rule.text(self.rank), error, None if self.supports is None else int(self.supports[i])

    def __iter__(self) -> Iterator[Rule]:
        make = _MAKERS[self.kind]
        for start in range(0, len(self), 4096):
            bits = unpack(self.masks[start : start + 4096], len(self.vocabulary))
            for row, conclusion in zip(bits, self.conclusion[start : start + 4096], strict=True):
                items = [self.vocabulary[i] for i in np.flatnonzero(row)]
                yield make(self.table, items, self.conclusions[conclusion] if conclusion >= 0 else None)

    def mentions(self, column: str) -> npt.NDArray[np.bool_]:
        """Which rules speak of the column."""
        places = [i for i, item in enumerate(self.vocabulary) if column in _columns(item)]
        wanted = mask_of(places, len(self.vocabulary))
        there = (self.masks & wanted).any(axis=1)
        ends = [i for i, item in enumerate(self.conclusions) if column in _columns(item)]
        return there | np.isin(self.conclusion, ends)

    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of items of each rule."""
        return sizes(self.masks)

    def shortest(self, most: int) -> RuleBlock:
        """The rules with the fewest items, at most so many."""
        return self.chosen(np.sort(np.argsort(self.sizes(), kind="stable")[:most]))

    def aligned(self, vocabulary: tuple[Item, ...], conclusions: tuple[Item, ...]) -> RuleBlock:
        """The same rules over a larger vocabulary."""
        if (vocabulary, conclusions) == (self.vocabulary, self.conclusions):
            return self
        place = {item: i for i, item in enumerate(vocabulary)}
        masks = np.zeros((len(self), words_for(len(vocabulary))), dtype=np.uint64)
        for i, item in enumerate(self.vocabulary):
            masks[has(self.masks, i)] |= mask_of([place[item]], len(vocabulary))
        ends = np.array([conclusions.index(c) for c in self.conclusions] + [NO_CONCLUSION], dtype=np.int32)
        return replace(
            self,
            vocabulary=vocabulary,
            conclusions=conclusions,
            masks=masks,
            conclusion=ends[self.conclusion],
        )

    def among(self, others: RuleBlock | None) -> npt.NDArray[np.bool_]:
        """Which rules are among those of another block over the same vocabulary. O(rules), by hashing."""
        if others is None or not len(others) or not len(self):
            return np.zeros(len(self), dtype=bool)
        rows = np.concatenate([others._rows(), self._rows()], axis=1)
        return groups(rows, np.arange(len(rows)))[len(others) :] < len(others)

    def _rows(self) -> npt.NDArray[np.int64]:
        return np.concatenate([self.masks.view(np.int64).T, self.conclusion[None, :].astype(np.int64)])


@dataclass(frozen=True, eq=False)
class RuleSet:
    """A set of rules. `complete` is false where a budget ended the search; `limits` says which limits applied, `how` by
    what the rules of each table were found.

    >>> from holdfast.rules.grammar import parse
    >>> rules = RuleSet.from_rules([parse("zip -> city"), parse("key(ssn)"), parse("state, zip -> city")])
    >>> len(rules), rules.of("fd").texts()
    (3, ['state, zip -> city', 'zip -> city'])
    """

    blocks: tuple[RuleBlock, ...] = ()
    complete: bool = True
    limits: tuple[str, ...] = field(default=())
    how: tuple[str, ...] = field(default=())  # each table's rules were found, in words
    vacuous: tuple[str, ...] = field(default=())  # columns without values, which are included in everything

    @classmethod
    def with_errors(cls, block: RuleBlock, errors: npt.NDArray[np.float64]) -> RuleSet:
        """One block, with the errors of its rules."""
        return cls((replace(block, errors=errors),))

    @classmethod
    def from_rules(cls, rules: Iterable[Rule], names: Sequence[str] = ()) -> RuleSet:
        """The set of some rule values. `names` is the column order to print them by."""
        grouped: dict[tuple[str, str | None], list[Rule]] = {}
        for rule in dict.fromkeys(rules):
            grouped.setdefault((rule.kind, rule.table), []).append(rule)
        order = sorted(grouped, key=lambda key: (KINDS.index(key[0]), key[1] or ""))
        return cls(tuple(_block(kind, table, grouped[kind, table], tuple(names)) for kind, table in order))

    @classmethod
    def keys(cls, columns: Sequence[str], masks: Masks, table: str | None = None) -> RuleSet:
        """Keys from bitmasks over the columns; masks are (rules, words)."""
        none = np.full(len(masks), NO_CONCLUSION, dtype=np.int32)
        return cls((RuleBlock("key", table, tuple(columns), masks, none, names=tuple(columns)),))

    @classmethod
    def fds(
        cls, columns: Sequence[str], left: Masks, right: npt.NDArray[np.integer], table: str | None = None
    ) -> RuleSet:
        """FDs from bitmasks of left sides and positions of right columns."""
        names = tuple(columns)
        return cls((RuleBlock("fd", table, names, left, np.asarray(right, np.int32), names, names),))

    @classmethod
    def joined(cls, sets: Iterable[RuleSet]) -> RuleSet:
        """Sets that have no rule in common as one."""
        parts = list(sets)
        made: dict[tuple[str, str | None], RuleBlock] = {}
        for block in (block for part in parts for block in part.blocks if len(block)):
            key = (block.kind, block.table)
            if key in made:
                mine, theirs = _common(made[key], block)
                block = _joined([mine, *([theirs] if theirs is not None else [])])[0]
            made[key] = block
        blocks = sorted(made.values(), key=lambda block: (KINDS.index(block.kind), block.table or ""))
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
        return sum(block.nbytes for block in self.blocks)

    def of(self, kind: str) -> RuleSet:
        """The rules of one kind: key, fd, ind, order or dc."""
        return self._with(block for block in self.blocks if block.kind == kind)

    def mentioning(self, column: str) -> RuleSet:
        """The rules that speak of a column. O(rules)."""
        return self._with(block.chosen(block.mentions(column)) for block in self.blocks)

    def where(self, keep: Callable[[RuleBlock], npt.NDArray[np.bool_]]) -> RuleSet:
        """The rules for which a vectorised test of their block is true."""
        return self._with(block.chosen(keep(block)) for block in self.blocks)

    def _with(self, blocks: Iterable[RuleBlock]) -> RuleSet:
        return replace(self, blocks=tuple(block for block in blocks if len(block)))

    def __or__(self, other: RuleSet) -> RuleSet:
        mine = self._against(other, lambda block, _: np.ones(len(block), bool))
        return self._with(_joined([*mine, *other._against(self, lambda block, them: ~block.among(them))]))

    def __sub__(self, other: RuleSet) -> RuleSet:
        return self._with(self._against(other, lambda block, them: ~block.among(them)))

    def __and__(self, other: RuleSet) -> RuleSet:
        return self._with(self._against(other, lambda block, them: block.among(them)))

    def _against(
        self, other: RuleSet, keep: Callable[[RuleBlock, RuleBlock | None], npt.NDArray[np.bool_]]
    ) -> Iterator[RuleBlock]:
        """Each of my blocks with what `keep` says of it and its counterpart, over a vocabulary that both share."""
        for block in self.blocks:
            mine, theirs = _common(block, other._block((block.kind, block.table)))
            yield mine.chosen(keep(mine, theirs))

    def _block(self, key: tuple[str, str | None]) -> RuleBlock | None:
        return next((b for b in self.blocks if (b.kind, b.table) == key), None)

    def with_texts(self) -> Iterator[tuple[Rule, str]]:
        """Each rule with its canonical text."""
        return ((rule, rule.text(block.rank)) for block in self.blocks for rule in block)

    def texts(self) -> list[str]:
        """The sorted canonical texts."""
        return sorted(text for _, text in self.with_texts())

    def to_arrow(self) -> pa.Table:
        """id, kind, table, text, error and support of each rule, sorted by kind and text."""
        rows = sorted(
            (KINDS.index(block.kind), block.table or "", text, rule.id, error, support)
            for block in self.blocks
            for rule, text, error, support in block.with_details()
        )
        records = [
            {"id": id_, "kind": KINDS[kind], "table": table or None, "text": text, "error": error, "support": support}
            for kind, table, text, id_, error, support in rows
        ]
        return pa.Table.from_pylist(records, schema=_ARROW)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self.of(kind))} {kind}" for kind in KINDS if len(self.of(kind)))
        return f"<RuleSet: {counts or 'no rules'}{'' if self.complete else ', not complete'}>"

    def _repr_html_(self) -> str:
        shown = islice(
            (
                (block.kind, text, error, sentence(rule, block.rank, error))
                for block in self.blocks
                for rule, text, error, _ in block.with_details()
            ),
            MAX_SHOWN_ROWS,
        )
        return html_table(["kind", "rule", "error", "sentence"], shown, len(self))


_ARROW = pa.schema(
    [(name, pa.string()) for name in ("id", "kind", "table", "text")]
    + [("error", pa.float64()), ("support", pa.int64())]
)


def _common(mine: RuleBlock, theirs: RuleBlock | None) -> tuple[RuleBlock, RuleBlock | None]:
    """Both over one vocabulary, the same whichever of them comes first."""
    if theirs is None:
        return mine, None
    vocabulary, conclusions = _union(mine.vocabulary, theirs.vocabulary), _union(mine.conclusions, theirs.conclusions)
    return mine.aligned(vocabulary, conclusions), theirs.aligned(vocabulary, conclusions)


def _union(mine: tuple[Item, ...], theirs: tuple[Item, ...]) -> tuple[Item, ...]:
    if mine == theirs:
        return mine
    return tuple(sorted({*mine, *theirs}, key=repr))


def _joined(blocks: list[RuleBlock]) -> list[RuleBlock]:
    """Blocks of the same kind and table, which share a vocabulary, as one."""
    made: dict[tuple[str, str | None], RuleBlock] = {}
    for block in blocks:
        key = (block.kind, block.table)
        if key in made:
            block = replace(
                made[key],
                masks=np.concatenate([made[key].masks, block.masks]),
                conclusion=np.concatenate([made[key].conclusion, block.conclusion]),
                errors=_both(made[key].errors, made[key], block.errors, block),
                supports=None,
            )
        made[key] = block
    return list(made.values())


def _both(
    mine: npt.NDArray[np.float64] | None, first: RuleBlock, theirs: npt.NDArray[np.float64] | None, second: RuleBlock
) -> npt.NDArray[np.float64] | None:
    """The errors of two blocks, one behind the other."""
    if mine is None and theirs is None:
        return None
    sides = ((mine, first), (theirs, second))
    return np.concatenate([np.zeros(len(block)) if some is None else some for some, block in sides])


def _block(kind: str, table: str | None, rules: list[Rule], names: tuple[str, ...]) -> RuleBlock:
    taken = [_TAKERS[kind](rule) for rule in rules]
    key = _item_key(by_position(names) if names else by_name)
    vocabulary = tuple(sorted({item for items, _ in taken for item in items}, key=key))
    conclusions = tuple(sorted({end for _, end in taken if end is not None}, key=key))
    place = {item: i for i, item in enumerate(vocabulary)}
    masks = np.concatenate([mask_of([place[i] for i in items], len(vocabulary)) for items, _ in taken])
    ends = [NO_CONCLUSION if end is None else conclusions.index(end) for _, end in taken]
    return RuleBlock(kind, table, vocabulary, masks, np.array(ends, dtype=np.int32), conclusions, names)


def _item_key(rank: Rank) -> Callable[[Item], Any]:
    return lambda item: (rank(item), "") if isinstance(item, str) else ((0, ""), repr(item))


def _columns(item: Item) -> tuple[str, ...]:
    """The columns that an item of any vocabulary speaks of."""
    if isinstance(item, str):
        return (item,)
    if isinstance(item, IsNull | Compare):
        return tuple(cell.column for cell in item.cells)
    if isinstance(item, Marked):
        return (item.column,)
    return (item[1], item[3])


def _atoms_of(op: Op) -> list[Op]:
    """An operator as weak operators."""
    names = {Weak.LE: Op.LE, Weak.GE: Op.GE, Weak.NE: Op.NE}
    return [names[atom] for atom in Weak if atom in op.atoms]


def _take_order(rule: Order) -> tuple[list[Item], Item]:
    return [Marked(m.column, atom) for m in rule.left for atom in _atoms_of(m.op)], rule.right


def _take_dc(rule: Dc) -> tuple[list[Item], Item]:
    items: list[Item] = []
    for p in rule.predicates:
        items += [p] if isinstance(p, IsNull) else [replace(p, op=atom) for atom in _atoms_of(p.op)]
    return items, None


def _take_ind(rule: Ind) -> tuple[list[Item], Item]:
    return [(rule.left_table, a, rule.right_table, b) for a, b in zip(rule.left, rule.right, strict=True)], None


def _make_order(table: str | None, items: list[Item], end: Item) -> Rule:
    atoms: dict[str, Weak] = {}
    for mark in items:
        atoms[mark.column] = atoms.get(mark.column, Weak(0)) | mark.op.atoms
    left = frozenset(Marked(column, op) for column, found in atoms.items() if (op := Op.of_atoms(found)))
    return Order(left, end, table)


def _make_ind(_: str | None, items: list[Item], __: Item) -> Rule:
    return Ind(items[0][0], tuple(i[1] for i in items), items[0][2], tuple(i[3] for i in items))


_TAKERS: dict[str, Callable[[Any], tuple[list[Item], Item]]] = {
    "key": lambda rule: (list(rule.columns), None),
    "fd": lambda rule: (list(rule.left), rule.right),
    "ind": _take_ind,
    "order": _take_order,
    "dc": _take_dc,
}
_MAKERS: dict[str, Callable[[str | None, list[Item], Item], Rule]] = {
    "key": lambda table, items, _: Key(frozenset(items), table),
    "fd": lambda table, items, end: Fd(frozenset(items), end, table),
    "ind": _make_ind,
    "order": _make_order,
    "dc": lambda table, items, _: Dc(frozenset(items), table),
}
