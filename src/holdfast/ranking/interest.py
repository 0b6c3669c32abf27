"""How much a rule says about the rows of a table: what ranking is made of.

Three measures are those of FASTDC (Chu, Ilyas, Papotti 2013, section 5): succinctness, coverage (how nearly pairs of
rows come to violating the rule), and their weighted mean. To them comes what chance would do: how many pairs would
violate the rule if its columns had nothing to do with each other. A rule that chance explains is not worth reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log10

import numpy as np

from holdfast.discovery.fd.partitions import Partitions
from holdfast.indexes.rowtest import Mask, pairs_that_satisfy
from holdfast.ranking.column_names import names_a_key, words_of
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Predicate
from holdfast.rules.rule import Dc, Fd, Key, Order, Rule, as_dc
from holdfast.rules.wording import percent
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema

MAX_SAMPLED_ROWS = 20_000  # looked at, evenly spread
_DOUBTFUL = 0.5  # of the score, for each doubt
_PAIRS = 20_000  # of them, by chance, always the same ones


@dataclass(frozen=True)
class Weights:
    """How much each measure counts in a score: the weighted mean of the first four, from 0 to 1, times the strength to
    the power of its weight."""

    succinct: float = 1.0
    coverage: float = 1.0
    surprise: float = 2.0
    names: float = 1.0
    strength: float = 1.0

    def score(self, measures: Measures) -> float:
        parts = {name: weight for name, weight in vars(self).items() if name != "strength"}
        total = sum(parts.values())
        mean = sum(weight * getattr(measures, name) for name, weight in parts.items()) / total if total else 0.0
        return float(round(mean * measures.strength**self.strength, 3))


@dataclass(frozen=True)
class Measures:
    """Of one rule, each from 0 to 1; `expected`: pairs that would violate it by chance. `reasons` are for people."""

    succinct: float
    coverage: float
    surprise: float
    strength: float = 1.0
    names: float = 0.0
    expected: float = 0.0
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class TableMeasures:
    """Measures the rules of one table, on all rows or on a sample. O(rows) for each rule, of the sample."""

    def __init__(self, schema: Schema, codes: Codes, nulls: str) -> None:
        self._schema, self._nulls, self.rows = schema, nulls, codes.shape[1]
        chosen = np.unique(np.linspace(0, max(self.rows - 1, 0), min(self.rows, MAX_SAMPLED_ROWS)).astype(np.int64))
        self._codes = np.ascontiguousarray(codes[:, chosen]) if self.rows else codes
        self._seen = self._codes.shape[1]
        self._partitions = Partitions.of_codes(self._codes, nulls)
        self._satisfied: dict[Predicate, Mask] = {}

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(0)
        t = random.integers(0, max(self._seen, 1), _PAIRS)
        s = random.integers(0, max(self._seen - 1, 1), _PAIRS)
        return t, s + (s >= t)

    @cached_property
    def _of_pairs(self) -> dict[str, Codes]:
        t, s = self._pairs
        return {"t": self._codes[:, t], "s": self._codes[:, s]}

    @property
    def _all_pairs(self) -> float:
        return float(self.rows * (self.rows - 1))

    def measure(self, rule: Rule, error: float = 0.0) -> Measures:
        """What is known of one rule that is about pairs of rows."""
        if self._seen < 2:
            return Measures(0.0, 0.0, 0.0)
        if isinstance(rule, Key):
            return self._key(rule, error)
        assert isinstance(rule, Fd | Order | Dc)
        expected = self.expected(rule)
        surprise, reasons = self._surprise(expected), [_by_chance(expected)]
        if isinstance(rule, Fd):
            coverage, strength = self._constrained(rule), self._strength(self._wrong(rule) if error else 0.0, expected)
            reasons.insert(0, f"it says something about {percent(coverage)} of the rows")
            size = len(rule.left)
        elif isinstance(rule, Order):
            really = self._order_strength(rule)
            coverage, strength = self.coverage(as_dc(rule)), really * self._strength(error, expected)
            reasons.insert(0, f"of the pairs that it orders, {percent(really)} really differ in {rule.right.column}")
            size = len(rule.left)
        else:
            coverage, strength = self.coverage(rule), self._strength(error, expected)
            size = len(rule.predicates) - 1
        notes = self._notes(rule)
        strength *= _DOUBTFUL ** (len(notes) + len(self._odd_pairs(rule)))
        reasons += [f"but {a} and {b} hardly mean the same" for a, b in self._odd_pairs(rule)]
        names = self._names(rule)
        return Measures(1 / max(size, 1), coverage, surprise, strength, names, expected, tuple(reasons), notes)

    def of_one_row(self, rule: Dc) -> float:
        """How much a comparison of two columns of a row says: the share of pairs of rows that would violate it if one
        value came from each, times the share of rows that have both; 0 for other rules about rows."""
        (predicate,) = rule.predicates
        if len(rule.predicates) > 1 or not isinstance(predicate, Compare) or not isinstance(predicate.right, Cell):
            return 0.0
        places = [self._schema.position(cell.column) for cell in predicate.cells]
        both = float((self._codes[places] != NULL).all(axis=0).mean()) if self._seen else 0.0
        crossed = replace(predicate, right=replace(predicate.right, row="s"))
        return both * self._share(crossed) if self._seen > 1 else 0.0

    def _key(self, rule: Key, error: float) -> Measures:
        places = self._schema.positions(sorted(rule.columns))
        columns = [self._schema.columns[i] for i in places]
        named = sum(names_a_key(column.name) for column in columns) / len(columns)
        measured = any(column.kind is Kind.FLOAT for column in columns)
        filled = float((self._codes[places] != NULL).all(axis=0).mean())
        if len(columns) == 1:
            expected, surprise = 0.0, 1 - min(places) / (2 * len(self._schema))  # the key of a table often comes first
        else:
            expected = self._all_pairs * float(np.prod([self._share_equal([column.name]) for column in columns]))
            surprise = self._surprise(expected)
        reasons = [f"{percent(filled)} of the rows have {'it' if len(columns) == 1 else 'all of them'}"]
        if len(columns) > 1:
            reasons.append(_by_chance(expected))
        reasons += ["the name looks like a key's"] if named == 1 else []
        reasons += ["but measured numbers are rarely meant as keys"] if measured else []
        notes = () if filled == 1 else ("some rows have no value here",)
        names = (0.5 + 0.5 * named) * (0.2 if measured else 1.0)
        return Measures(1 / len(columns), filled, surprise, 1 - error, names, expected, tuple(reasons), notes)

    def _surprise(self, expected: float) -> float:
        return log10(1 + expected) / log10(1 + self._all_pairs)

    def expected(self, rule: Fd | Order | Dc) -> float:
        """Pairs that would violate it if what it compares were unrelated; columns that must be equal go together."""
        predicates = as_dc(rule).predicates
        equal = [p.left.column for p in predicates if _is_beside(p) and isinstance(p, Compare) and p.op is Op.EQ]
        others = [p for p in predicates if not (_is_beside(p) and isinstance(p, Compare) and p.op is Op.EQ)]
        if not others:
            shares = [self._share_equal([column]) for column in equal]
        else:
            shares = [self._share_equal(equal)] + [self._share(p) for p in others]
        return float(np.prod(shares)) * self._all_pairs

    def _share_equal(self, columns: list[str]) -> float:
        partition = self._partitions.of(self._schema.positions(sorted(columns)))
        return float(partition.shared_pairs() / (self._seen * (self._seen - 1)))

    def _share(self, predicate: Predicate) -> float:
        if _is_beside(predicate) and isinstance(predicate, Compare) and predicate.op is Op.NE:
            return 1 - self._share_equal([predicate.left.column])
        return float(self._satisfying(predicate).mean())

    def _satisfying(self, predicate: Predicate) -> Mask:
        """Which of the pairs satisfy a predicate."""
        if predicate not in self._satisfied:
            found = pairs_that_satisfy([predicate], self._schema, self._of_pairs, TextDictionary(), self._nulls)
            self._satisfied[predicate] = found
        return self._satisfied[predicate]

    def coverage(self, rule: Dc) -> float:
        """FASTDC's: a pair that satisfies k of the m predicates counts (k + 1) / m."""
        met = sum(self._satisfying(p).astype(np.int64) for p in rule.predicates)
        return min(1.0, float(np.mean((met + 1) / len(rule.predicates))))

    def _constrained(self, rule: Fd) -> float:
        """The share of rows that have their left values in common with another row."""
        return float(len(self._partitions.of(self._schema.positions(sorted(rule.left))).rows) / self._seen)

    def _order_strength(self, rule: Order) -> float:
        """Of the pairs that the left side orders, how many the right side orders strictly."""
        dc = as_dc(rule)
        left = [p for p in dc.predicates if isinstance(p, Compare) and p.left.column != rule.right.column]
        ordered = np.logical_and.reduce([self._satisfying(p) for p in left]) if left else np.ones(_PAIRS, np.bool_)
        right = self._codes[self._schema.position(rule.right.column)]
        t, s = self._pairs
        return float((right[t] != right[s])[ordered].mean()) if ordered.any() else 0.0

    def _wrong(self, rule: Fd) -> float:
        """The share of pairs that violate it."""
        left, right = self._schema.positions(sorted(rule.left)), self._schema.position(rule.right)
        return float(self._partitions.errors(left, right)[0] / (self._seen * (self._seen - 1)))

    def _strength(self, error: float, expected: float) -> float:
        """1 for a rule that holds; less, the nearer its error, in pairs, comes to that of unrelated columns."""
        by_chance = expected / self._all_pairs if self._all_pairs else 0.0
        return 1.0 if not error else max(0.0, 1 - error / max(by_chance, error))

    def _names(self, rule: Rule) -> float:
        """Measured numbers are rarely what people make rules of."""
        columns = [self._schema.column(name) for name in sorted(columns_of(rule))]
        return sum(column.kind is not Kind.FLOAT for column in columns) / len(columns) if columns else 0.0

    def _odd_pairs(self, rule: Rule) -> list[tuple[str, str]]:
        """Different columns that it compares although their names have no word in common."""
        if not isinstance(rule, Dc):
            return []
        pairs = {tuple(sorted(c.column for c in p.cells)) for p in rule.predicates if len(p.cells) == 2}
        return [(a, b) for a, b in sorted(pairs) if a != b and not set(words_of(a)) & set(words_of(b))]

    def _notes(self, rule: Fd | Order | Dc) -> tuple[str, ...]:
        """What a reader must know before believing it."""
        places = self._schema.positions(sorted(columns_of(rule)))
        if isinstance(rule, Fd) and not rule.left:
            column = self._codes[places[0]]
            if (column == NULL).all():
                return ("the column has no values at all",)
            return ("the column has one value only",) if (column == column[0]).all() else ()
        full = (self._codes[places] != NULL).all(axis=0)
        if not full.any():
            return ("it holds only because of nulls: no row has all of its columns",)
        left = sorted(rule.left) if isinstance(rule, Fd) else []
        if left and not full.all():
            known = Partitions.of_codes(
                np.ascontiguousarray(self._codes[np.ix_(self._schema.positions(left), full)]), self._nulls
            )
            if not known.of(range(len(left))).shared_pairs():
                return (
                    "it holds only because of nulls: rows that have all of its columns never share their left values",
                )
        return ()

    def same_groups(self) -> dict[str, str]:
        """Each column with the first one that has just the same groups of equal values (a code and its name); columns
        whose values are all equal, or all different, are left out."""
        first: dict[bytes, str] = {}
        made: dict[str, str] = {}
        for i, column in enumerate(self._schema.columns):
            pairs = self._partitions.of([i]).shared_pairs()
            if 0 < pairs < self._seen * (self._seen - 1):
                made[column.name] = first.setdefault(self._partitions.numbering(i), column.name)
        return made


def _by_chance(expected: float) -> str:
    return f"if its columns had nothing to do with each other, about {round(expected):,} pairs would violate it"


def columns_of(rule: Rule) -> frozenset[str]:
    """The columns of a rule about one table."""
    assert isinstance(rule, Key | Fd | Order | Dc)
    return frozenset(cell.column for p in as_dc(rule).predicates for cell in p.cells)


def _is_beside(predicate: Predicate) -> bool:
    """Whether it compares a column with itself in the other row."""
    return isinstance(predicate, Compare) and predicate.is_pair and len({c.column for c in predicate.cells}) == 1
