"""Finds inclusions that look like foreign keys, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.counts import Attribute, Pair
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.ind.wide_inclusions import CodeTuples, WideInclusions
from holdfast.ranking.column_names import KEY_WORDS, words_of
from holdfast.rules.masks import Numbers
from holdfast.rules.rule import Ind
from holdfast.rules.wording import percent
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import groups
from holdfast.table.kind import Kind
from holdfast.table.rows import Rows

MAX_MISSING = 0.3  # share of the left values that may be missing on the right
_MAX_KEY_COLUMNS = 4
_MOST_MISSING_TUPLES, _MOST_SHARED_NAMES = 0.05, 8
_TEXT = 0.3  # added to the score of texts
_ALIKE = 0.6  # the least similarity of similar names


@dataclass(frozen=True)
class ForeignKey:
    """An inclusion that may be a foreign key.

    `score`: how likely, from 0 to 1; `missing`: the share of distinct left values that the right side lacks;
    `examples`: some of these values.
    """

    rule: Ind
    score: float
    missing: float
    examples: tuple[object, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        missing = f", {percent(self.missing)} of the values missing" if self.missing else ""
        return f"{self.rule} ({self.score:.2f}{missing}): {'; '.join(self.reasons)}"


def foreign_keys(
    inclusions: Inclusions,
    rows: Mapping[str, Rows],
    most_missing: float = MAX_MISSING,
    budget: Budget | None = None,
) -> list[ForeignKey]:
    """Likely foreign keys, the likeliest first: inclusions into a column without duplicates, and inclusions of several
    columns with similar names into columns that are unique only together.

    If the time budget runs out, only those that were rated so far. O(attributes^2 + compared values).
    """
    budget = budget or Budget()
    codes = {name: table_rows.codes() for name, table_rows in rows.items()}
    filled = np.concatenate([np.count_nonzero(table_codes != NULL, axis=1) for table_codes in codes.values()])
    unique = (filled == inclusions.distinct) & (inclusions.distinct > 1)
    near = inclusions.missing <= inclusions.most_missing(most_missing)[:, None]
    candidates = near & inclusions.comparable & unique[None, :] & (inclusions.distinct > 0)[:, None]
    likely = []
    for a, b in np.argwhere(candidates).tolist():
        if budget.spent():
            break
        likely.append(_suggestion(inclusions, codes, filled, a, b))
    composite = list(_composite(inclusions, codes, unique, budget))
    exact = {(key.rule.left_table, key.rule.right_table) for key in composite}
    likely += [*composite, *_nearly_composite(inclusions, codes, unique, exact, budget)]
    if budget.ended:
        budget.skip(f"foreign keys: only {len(likely):,} were looked at")
    return sorted(likely, key=lambda s: (-s.score, str(s.rule)))


def best_targets(keys: Iterable[ForeignKey]) -> list[ForeignKey]:
    """Of the foreign keys with the same left columns, the likeliest."""
    best: dict[tuple[str, tuple[str, ...]], ForeignKey] = {}
    for key in keys:
        left = key.rule.left_table, key.rule.left
        if left not in best or key.score > best[left].score:
            best[left] = key
    return list(best.values())


def _composite(
    inclusions: Inclusions, codes: Mapping[str, Codes], unique: npt.NDArray[np.bool_], budget: Budget
) -> Iterator[ForeignKey]:
    """Foreign keys of several columns, into columns that are unique together."""

    def is_eligible(pair: Pair) -> bool:
        a, b = (inclusions.attributes[x] for x in pair)
        return a.table != b.table and not unique[pair[1]] and _name_similarity(a, b) >= _ALIKE

    wide = WideInclusions(inclusions, _MAX_KEY_COLUMNS, is_eligible)
    tests = CodeTuples(inclusions, codes)
    wide.begin(tests, budget)
    for rule, candidate in wide.found.items():
        if budget.spent():
            return
        left, right = (tests.tuples([pair[side] for pair in candidate]) for side in (0, 1))
        used, distinct = (len(np.unique(groups(side, np.arange(len(side))))) for side in (left, right))
        if distinct == codes[rule.right_table].shape[1] > 1:
            share = used / distinct
            key = f"{rule.right_table}({', '.join(rule.right)})"
            reasons = (f"{key} has no duplicates", "the names are alike", f"{percent(share)} of its values are used")
            yield ForeignKey(rule, 0.8 + 0.2 * share, 0.0, (), reasons)


def _nearly_composite(
    inclusions: Inclusions,
    codes: Mapping[str, Codes],
    unique: npt.NDArray[np.bool_],
    exact: set[tuple[str, str]],
    budget: Budget,
) -> Iterator[ForeignKey]:
    """Foreign keys of several columns with the same names in both tables, of which few tuples are missing; the one with
    the fewest columns for each pair of tables that has no exact one."""
    by_table: dict[str, dict[str, int]] = {}
    for place, attribute in enumerate(inclusions.attributes):
        by_table.setdefault(attribute.table, {})[attribute.column.name] = place
    tests = CodeTuples(inclusions, codes)
    for (left_table, left), (right_table, right) in permutations(by_table.items(), 2):
        if budget.spent():
            return
        shared = [name for name in left if name in right and not unique[right[name]]]
        near = [name for name in shared if inclusions.share(left[name], right[name]) <= _MOST_MISSING_TUPLES]
        if (left_table, right_table) in exact or not 2 <= len(near) <= _MOST_SHARED_NAMES:
            continue
        sizes = range(2, min(len(near), _MAX_KEY_COLUMNS) + 1)
        candidates = (names for size in sizes for names in combinations(near, size))
        keys = (_tuple_key(tests, left, right, names) for names in candidates if not budget.spent())
        found = next((key for key in keys if key is not None), None)
        if found is not None:
            names, share, used = found
            rule = Ind(left_table, names, right_table, names)
            key = f"{right_table}({', '.join(names)})"
            reasons = [f"{key} has no duplicates", "the names are the same", f"{percent(used)} of its values are used"]
            reasons += [f"{percent(share)} of the values are missing"] if share else []
            yield ForeignKey(rule, max(0.0, 0.8 + 0.2 * used - share), share, (), tuple(reasons))


def _tuple_key(
    tests: CodeTuples, left: Mapping[str, int], right: Mapping[str, int], names: tuple[str, ...]
) -> tuple[tuple[str, ...], float, float] | None:
    """The columns, the share of left tuples that are missing, and the share of right tuples that are used; None if the
    right side has duplicates or too many are missing."""
    sides = [tests.tuples([side[name] for name in names]) for side in (right, left)]
    targets, sources = (side.shape[1] for side in sides)
    both = np.concatenate(sides, axis=1)
    group = groups(np.ascontiguousarray(both), np.arange(len(both)))
    if not sources or len(np.unique(group[:targets])) < targets:
        return None
    values = np.unique(group[targets:])
    missing = float((values >= targets).mean())
    return (names, missing, float((values < targets).sum() / targets)) if missing <= _MOST_MISSING_TUPLES else None


def _suggestion(
    inclusions: Inclusions, codes: Mapping[str, Codes], filled: Numbers, left: int, right: int
) -> ForeignKey:
    a, b = inclusions.attributes[left], inclusions.attributes[right]
    share = inclusions.share(left, right)
    coverage = float((inclusions.distinct[left] - inclusions.missing[left, right]) / inclusions.distinct[right])
    similarity = _name_similarity(a, b)
    reasons = [f"{b.table}.{b.column.name} has no duplicates"]
    score = 0.5 * similarity + 0.2 * min(1.0, coverage)
    if similarity >= _ALIKE:
        reasons.append("the names are alike")
    reasons.append(f"{percent(coverage)} of its values are used")
    if _counts_up(b, codes[b.table]) and similarity < _ALIKE:
        reasons.append("but it counts up from a small number, so it includes most small numbers by chance")
    else:
        score += 0.2
    if inclusions.distinct[left] >= 10 or inclusions.distinct[left] * 2 > inclusions.distinct[right]:
        score += 0.1
    else:
        reasons.append(f"but there are only {inclusions.distinct[left]} different values")
    if a.column.kind is Kind.TEXT and a.table != b.table and inclusions.distinct[left] > 1:
        score += _TEXT
        reasons.append("texts of one table rarely occur in another by chance")
    if filled[left] == inclusions.distinct[left] and a.table != b.table and similarity < _ALIKE:
        score -= 0.1
        reasons.append("but the values on the left are also all different")
    if share:
        reasons.append(f"{inclusions.missing[left, right]:,} of {inclusions.distinct[left]:,} values are missing")
    score = max(0.0, min(1.0, score - share))
    return ForeignKey(
        inclusions.rule(left, right), score, share, tuple(inclusions.missing_values(left, right, 5)), tuple(reasons)
    )


def _counts_up(attribute: Attribute, rows: Codes) -> bool:
    """Whether a column is a surrogate id: integers from a small number on, without large gaps."""
    if attribute.column.kind is not Kind.INTEGER:
        return False
    codes = rows[attribute.place]
    codes = codes[codes != NULL]
    return bool(len(codes) and 0 <= codes.min() <= 1000 and codes.max() - codes.min() < 4 * len(codes) + 100)


def _name_similarity(left: Attribute, right: Attribute) -> float:
    """The similarity, from 0 to 1, of the left column's name to the right column's name or table (customer, its id)."""
    left_words, right_words, table = (words_of(text) for text in (left.column.name, right.column.name, right.table))
    left_table = words_of(left.table)
    without_key_words = [w for w in right_words if w not in KEY_WORDS] or table
    candidates = [right_words, table, table + right_words, without_key_words]
    if left.table != right.table and left.column.name == right.column.name and not set(left_words) <= KEY_WORDS:
        return 1.0
    stripped = [w for w in left_words if w not in KEY_WORDS and not _is_prefix(w, left_table)] or left_words
    same = float(left.column.name == right.column.name)  # of names without letters
    return max((_similarity(stripped, candidate) for candidate in candidates if candidate), default=same)


def _is_prefix(word: str, table: list[str]) -> bool:
    """Whether a word abbreviates the table of its column, as in `o_custkey` of orders."""
    return len(word) <= 2 and bool(table) and table[0].startswith(word)


def _similarity(left: list[str], right: list[str]) -> float:
    """By shared words, or by letters if there are none."""
    if set(left) <= KEY_WORDS:
        return 0.0
    shared = [w for w in left if w in right and w not in KEY_WORDS]
    if shared:
        return 0.6 + 0.4 * len(shared) / max(len(left), 1)
    return SequenceMatcher(None, "".join(left), "".join(right)).ratio() * 0.8
