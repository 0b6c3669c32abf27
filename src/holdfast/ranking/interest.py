"""Measures how much a rule says about a table, for ranking.

Succinctness, coverage (how close pairs of rows come to violating the rule) and their weighted mean are from FASTDC
(Chu, Ilyas, Papotti 2013, section 5). We add surprise: how many pairs would violate the rule if its columns were
unrelated. A rule that holds by chance is not worth reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log10

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.witness.partitions import Partitions
from holdfast.indexes.rowtest import pairs_that_satisfy
from holdfast.ranking.column_names import names_a_key, words_of
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Predicate
from holdfast.rules.rule import Dc, Fd, Key, Order, Rule, as_dc
from holdfast.rules.wording import percent
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema

MAX_SAMPLED_ROWS = 20_000  # evenly spread over the table
_DOUBT = 0.5  # the strength is multiplied by it for each doubt
_SAMPLED_PAIRS = 20_000  # random, with a fixed seed


@dataclass(frozen=True)
class Weights:
    """The weights of the measures in a score.

    A score is the weighted mean of the first four measures, times the strength to the power of its weight.
    """

    succinct: float = 1.0
    coverage: float = 1.0
    surprise: float = 2.0
    names: float = 1.0
    strength: float = 1.0

    def score(self, measures: Measures) -> float:
        """The score of a rule from its measures."""
        parts = {name: weight for name, weight in vars(self).items() if name != "strength"}
        total = sum(parts.values())
        mean = sum(weight * getattr(measures, name) for name, weight in parts.items()) / total if total else 0.0
        return float(round(mean * measures.strength**self.strength, 3))


@dataclass(frozen=True)
class Measures:
    """The measures of one rule, each from 0 to 1, with reasons and notes for the reader.

    `expected`: how many pairs would violate the rule if its columns were unrelated.
    """

    succinct: float
    coverage: float
    surprise: float
    strength: float = 1.0
    names: float = 0.0
    expected: float = 0.0
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class TableMeasures:
    """Measures the rules of one table on a sample of its rows. O(sample) for each rule."""

    def __init__(self, schema: Schema, codes: Codes, nulls: str) -> None:
        self._schema, self._nulls, self.rows = schema, nulls, codes.shape[1]
        chosen = np.unique(np.linspace(0, max(self.rows - 1, 0), min(self.rows, MAX_SAMPLED_ROWS)).astype(np.int64))
        self._codes = np.ascontiguousarray(codes[:, chosen]) if self.rows else codes
        self._sampled = self._codes.shape[1]
        self._partitions = Partitions.of_codes(self._codes, nulls)
        self._satisfied: dict[Predicate, Flags] = {}

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(0)
        t = random.integers(0, max(self._sampled, 1), _SAMPLED_PAIRS)
        s = random.integers(0, max(self._sampled - 1, 1), _SAMPLED_PAIRS)
        return t, s + (s >= t)

    @cached_property
    def _pair_codes(self) -> dict[str, Codes]:
        t, s = self._pairs
        return {"t": self._codes[:, t], "s": self._codes[:, s]}

    @property
    def _all_pairs(self) -> float:
        return float(self.rows * (self.rows - 1))

    def measure(self, rule: Rule, error: float = 0.0) -> Measures:
        """The measures of a rule about pairs of rows."""
        if self._sampled < 2:
            return Measures(0.0, 0.0, 0.0)
        if isinstance(rule, Key):
            return self._key(rule, error)
        assert isinstance(rule, Fd | Order | Dc)
        expected = self.expected(rule)
        surprise, reasons = self._surprise(expected), [_by_chance(expected)]
        if isinstance(rule, Fd):
            pair_error = self._pair_error(rule) if error else 0.0
            coverage, strength = self._constrained(rule), self._strength(pair_error, expected)
            reasons.insert(0, f"it says something about {percent(coverage)} of the rows")
            size = len(rule.left)
        elif isinstance(rule, Order):
            ordered = self._order_strength(rule)
            coverage, strength = self.coverage(as_dc(rule)), ordered * self._strength(error, expected)
            reasons.insert(0, f"of the pairs of rows that it orders, {percent(ordered)} differ in {rule.right.column}")
            size = len(rule.left)
        else:
            coverage, strength = self.coverage(rule), self._strength(error, expected)
            size = len(rule.predicates) - 1
        notes = self._notes(rule)
        strength *= _DOUBT ** (len(notes) + len(self._odd_pairs(rule)))
        reasons += [f"but {a} and {b} seem to mean different things" for a, b in self._odd_pairs(rule)]
        names = self._names(rule)
        return Measures(1 / max(size, 1), coverage, surprise, strength, names, expected, tuple(reasons), notes)

    def of_one_row(self, rule: Dc) -> float:
        """How much a comparison of two columns of a row says; 0 for other rules about rows.

        It is the share of pairs of rows that would violate the comparison if each row gave one of the values, times the
        share of rows that have both values.
        """
        (predicate,) = rule.predicates
        if len(rule.predicates) > 1 or not isinstance(predicate, Compare) or not isinstance(predicate.right, Cell):
            return 0.0
        places = [self._schema.position(cell.column) for cell in predicate.cells]
        has_both = float((self._codes[places] != NULL).all(axis=0).mean()) if self._sampled else 0.0
        crossed = replace(predicate, right=replace(predicate.right, row="s"))
        return has_both * self._share(crossed) if self._sampled > 1 else 0.0

    def _key(self, rule: Key, error: float) -> Measures:
        places = self._schema.positions(sorted(rule.columns))
        columns = [self._schema.columns[i] for i in places]
        named = sum(names_a_key(column.name) for column in columns) / len(columns)
        has_floats = any(column.kind is Kind.FLOAT for column in columns)
        filled = float((self._codes[places] != NULL).all(axis=0).mean())
        if len(columns) == 1:
            expected, surprise = 0.0, 1 - min(places) / (2 * len(self._schema))  # the key is often the first column
        else:
            expected = self._all_pairs * float(np.prod([self._share_equal([column.name]) for column in columns]))
            surprise = self._surprise(expected)
        reasons = [f"{percent(filled)} of the rows have {'a value' if len(columns) == 1 else 'all of its values'}"]
        if len(columns) > 1:
            reasons.append(_by_chance(expected))
        reasons += ["the name looks like that of a key"] if named == 1 else []
        reasons += ["but floating-point numbers are rarely keys"] if has_floats else []
        notes = () if filled == 1 else ("some rows have no value here",)
        names = (0.5 + 0.5 * named) * (0.2 if has_floats else 1.0)
        return Measures(1 / len(columns), filled, surprise, 1 - error, names, expected, tuple(reasons), notes)

    def _surprise(self, expected: float) -> float:
        return log10(1 + expected) / log10(1 + self._all_pairs)

    def expected(self, rule: Fd | Order | Dc) -> float:
        """How many pairs would violate a rule if its predicates were independent.

        Columns that must be equal are taken together, as one predicate.
        """
        predicates = as_dc(rule).predicates
        equal = [p.left.column for p in predicates if _is_same_column(p) and isinstance(p, Compare) and p.op is Op.EQ]
        others = [p for p in predicates if not (_is_same_column(p) and isinstance(p, Compare) and p.op is Op.EQ)]
        if not others:
            shares = [self._share_equal([column]) for column in equal]
        else:
            shares = [self._share_equal(equal)] + [self._share(p) for p in others]
        return float(np.prod(shares)) * self._all_pairs

    def _share_equal(self, columns: list[str]) -> float:
        partition = self._partitions.of(self._schema.positions(sorted(columns)))
        return float(partition.shared_pairs() / (self._sampled * (self._sampled - 1)))

    def _share(self, predicate: Predicate) -> float:
        if _is_same_column(predicate) and isinstance(predicate, Compare) and predicate.op is Op.NE:
            return 1 - self._share_equal([predicate.left.column])
        return float(self._satisfying(predicate).mean())

    def _satisfying(self, predicate: Predicate) -> Flags:
        """Which of the sampled pairs satisfy a predicate."""
        if predicate not in self._satisfied:
            satisfying = pairs_that_satisfy([predicate], self._schema, self._pair_codes, TextDictionary(), self._nulls)
            self._satisfied[predicate] = satisfying
        return self._satisfied[predicate]

    def coverage(self, rule: Dc) -> float:
        """The coverage of FASTDC: a pair that satisfies k of the m predicates counts (k + 1) / m."""
        satisfied = sum(self._satisfying(p).astype(np.int64) for p in rule.predicates)
        return min(1.0, float(np.mean((satisfied + 1) / len(rule.predicates))))

    def _constrained(self, rule: Fd) -> float:
        """The share of rows that share their left values with another row."""
        return float(len(self._partitions.of(self._schema.positions(sorted(rule.left))).rows) / self._sampled)

    def _order_strength(self, rule: Order) -> float:
        """Of the pairs that the left side orders, the share that differ on the right side."""
        dc = as_dc(rule)
        left = [p for p in dc.predicates if isinstance(p, Compare) and p.left.column != rule.right.column]
        ordered = (
            np.logical_and.reduce([self._satisfying(p) for p in left]) if left else np.ones(_SAMPLED_PAIRS, np.bool_)
        )
        right = self._codes[self._schema.position(rule.right.column)]
        t, s = self._pairs
        return float((right[t] != right[s])[ordered].mean()) if ordered.any() else 0.0

    def _pair_error(self, rule: Fd) -> float:
        """The share of pairs that violate an FD (g1)."""
        left, right = self._schema.positions(sorted(rule.left)), self._schema.position(rule.right)
        return float(self._partitions.errors(left, right)[0] / (self._sampled * (self._sampled - 1)))

    def _strength(self, error: float, expected: float) -> float:
        """1 for a rule that holds; less, the closer its share of violating pairs comes to that of unrelated columns."""
        by_chance = expected / self._all_pairs if self._all_pairs else 0.0
        return 1.0 if not error else max(0.0, 1 - error / max(by_chance, error))

    def _names(self, rule: Rule) -> float:
        """The share of columns that are not floating-point numbers, which rarely have rules."""
        columns = [self._schema.column(name) for name in sorted(columns_of(rule))]
        return sum(column.kind is not Kind.FLOAT for column in columns) / len(columns) if columns else 0.0

    def _odd_pairs(self, rule: Rule) -> list[tuple[str, str]]:
        """Pairs of different columns that a DC compares although their names share no word."""
        if not isinstance(rule, Dc):
            return []
        pairs = {tuple(sorted(c.column for c in p.cells)) for p in rule.predicates if len(p.cells) == 2}
        return [(a, b) for a, b in sorted(pairs) if a != b and not set(words_of(a)) & set(words_of(b))]

    def _notes(self, rule: Fd | Order | Dc) -> tuple[str, ...]:
        """Warnings about a rule that holds for a trivial reason."""
        places = self._schema.positions(sorted(columns_of(rule)))
        if isinstance(rule, Fd) and not rule.left:
            column = self._codes[places[0]]
            if (column == NULL).all():
                return ("the column has no values at all",)
            return ("the column has one value only",) if (column == column[0]).all() else ()
        full = (self._codes[places] != NULL).all(axis=0)
        if not full.any():
            return ("it holds only because of nulls: no row has a value in all of its columns",)
        left = sorted(rule.left) if isinstance(rule, Fd) else []
        if left and not full.all():
            without_nulls = Partitions.of_codes(
                np.ascontiguousarray(self._codes[np.ix_(self._schema.positions(left), full)]), self._nulls
            )
            if not without_nulls.of(range(len(left))).shared_pairs():
                return ("it holds only because of nulls: rows without nulls never share their left values",)
        return ()

    def same_groups(self) -> dict[str, str]:
        """Maps each column to the first column that groups the rows in the same way (a code and its name).

        Leaves out columns whose values are all equal or all different.
        """
        first_with: dict[bytes, str] = {}
        same: dict[str, str] = {}
        for i, column in enumerate(self._schema.columns):
            pairs = self._partitions.of([i]).shared_pairs()
            if 0 < pairs < self._sampled * (self._sampled - 1):
                same[column.name] = first_with.setdefault(self._partitions.numbering(i), column.name)
        return same


def _by_chance(expected: float) -> str:
    return f"if its columns were unrelated, about {round(expected):,} pairs of rows would violate it"


def columns_of(rule: Rule) -> frozenset[str]:
    """The columns of a rule about one table."""
    assert isinstance(rule, Key | Fd | Order | Dc)
    return frozenset(cell.column for p in as_dc(rule).predicates for cell in p.cells)


def _is_same_column(predicate: Predicate) -> bool:
    """Whether a predicate compares a column with itself in the other row."""
    return isinstance(predicate, Compare) and predicate.is_pair and len({c.column for c in predicate.cells}) == 1
