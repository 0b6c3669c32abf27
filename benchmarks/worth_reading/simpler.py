"""Simpler rankings of the rules of a table, for comparison: by support, by the score of FASTDC, by mu+ alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

import holdfast as hf
from holdfast.encoded_tables import EncodedTables
from holdfast.indexes.rowtest import pairs_that_satisfy
from holdfast.ranking.credible import MAX_EXCEPTIONS
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import Ranked
from holdfast.ranking.table_view import TableView
from holdfast.rules.rule import Fd, Ind, Rule, as_dc
from holdfast.table.options import Choices

_SECONDS, _PAIRS = 20.0, 20_000
_MOST_SCORED = 300  # rules of a kind and table, the shortest, that get a score
_LEAST_STRENGTH = 0.8


def by_support(data: Any) -> list[Ranked]:
    """The rules about most rows."""
    return _best(data, lambda _, supports: supports)


def by_fastdc(data: Any) -> list[Ranked]:
    """Short rules that many pairs nearly violate: succinctness and coverage, each a half (Chu, Ilyas, Papotti:
    "Discovering denial constraints", PVLDB 2013). Coverage is measured on random pairs."""
    tables = EncodedTables.of(data, Choices())

    def scores(rules: Sequence[Rule], supports: Sequence[float]) -> list[float]:
        sizes = [_size(rule) for rule in rules]
        least = min(sizes)
        return [
            0.5 * least / size + 0.5 * (support if isinstance(rule, Ind) else _coverage(rule, tables))
            for rule, size, support in zip(rules, sizes, supports, strict=True)
        ]

    return _best(data, scores)


def by_strength(data: Any) -> list[Ranked]:
    """FDs with one or two columns on the left, at most 1 % exceptions and mu+ of at least 0.8, the strongest first."""
    tables, found = EncodedTables.of(data, Choices()), list[Ranked]()
    for name, rows in tables.rows.items():
        view, label = TableView(rows.schema, rows.codes(), "equal"), None if tables.is_lone else name
        of_table = []
        for left in [left for size in (1, 2) for left in combinations(range(len(view)), size)]:
            about = view.left_side(left, most_removed=MAX_EXCEPTIONS)
            for right in np.flatnonzero(
                (about.removed <= MAX_EXCEPTIONS) & (about.strength >= _LEAST_STRENGTH)
            ).tolist():
                if right not in left:
                    rule = Fd(frozenset(view.name(c) for c in left), view.name(right), label)
                    of_table.append((float(about.strength[right]), str(rule), rule))
        of_table.sort(key=lambda one: (-one[0], len(one[2].left), one[1]))
        found += [Ranked(rule, text, text, label, score) for score, text, rule in of_table[:DEFAULT_MOST]]
    return found


def _best(data: Any, scores: Callable[[Sequence[Rule], Sequence[float]], Sequence[float]]) -> list[Ranked]:
    """Of the rules that hold, those with the highest scores of each kind and table."""
    by_table: dict[tuple[str, str | None], list[tuple[Rule, str, float]]] = defaultdict(list)
    for block in hf.discover(data, time_budget=_SECONDS).blocks:
        for rule, text, _, support in block.shortest(_MOST_SCORED).with_details():
            by_table[block.kind, block.label].append((rule, text, float(support or 0)))
    found = []
    for (_, label), rules in by_table.items():
        most = max(support for *_, support in rules) or 1.0
        told = scores([rule for rule, *_ in rules], [support / most for *_, support in rules])
        order = sorted(range(len(rules)), key=lambda i: (-told[i], rules[i][1]))
        found += [Ranked(rules[i][0], rules[i][1], "", label, told[i]) for i in order[:DEFAULT_MOST]]
    return found


def _size(rule: Rule) -> int:
    return len(rule.left) if isinstance(rule, Ind) else len(as_dc(rule).predicates)


def _coverage(rule: Rule, tables: EncodedTables) -> float:
    """The mean, over pairs of rows, of (satisfied comparisons + 1) / comparisons, of pairs that do not satisfy all."""
    rows = tables.rows[rule.table or next(iter(tables.rows))]
    codes = rows.codes()
    t, s = _pairs(codes.shape[1])
    sides = {"t": codes[:, t], "s": codes[:, s]}
    predicates = as_dc(rule).predicates
    satisfied = sum(
        pairs_that_satisfy(frozenset({p}), rows.schema, sides, tables.dictionary, "equal").astype(float)
        for p in predicates
    )
    return float(np.minimum((satisfied + 1) / len(predicates), 1).mean()) if len(t) else 0.0


def _pairs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of different rows."""
    random = np.random.default_rng(0)
    t = random.integers(0, max(rows, 1), _PAIRS)
    s = random.integers(0, max(rows - 1, 1), _PAIRS)
    return t, s + (s >= t)


SIMPLER = {"support alone": by_support, "the score of FASTDC": by_fastdc, "mu+ alone, FDs": by_strength}
