"""Which inclusions look like foreign keys, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.inclusions import Attribute, Inclusions, Pair
from holdfast.discovery.ind.wide_inclusions import WideInclusions
from holdfast.ranking.column_names import KEY_WORDS, words_of
from holdfast.rules.masks import Numbers
from holdfast.rules.rule import Ind
from holdfast.rules.wording import percent
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import groups
from holdfast.table.kind import Kind
from holdfast.table.rows import Rows

MAX_MISSING = 0.3  # share of the left values
_MAX_KEY_COLUMNS = 4
_ALIKE = 0.6  # names


@dataclass(frozen=True)
class ForeignKey:
    """A suggestion: the inclusion, how likely it is meant (0 to 1), the share of distinct left values that are missing
    on the right and some of them, and the reasons in words."""

    rule: Ind
    score: float
    missing: float
    examples: tuple[object, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        lost = f", {percent(self.missing)} of the values missing" if self.missing else ""
        return f"{self.rule} ({self.score:.2f}{lost}): {'; '.join(self.reasons)}"


def foreign_keys(
    found: Inclusions,
    rows: Mapping[str, Rows],
    most_missing: float = MAX_MISSING,
    budget: Budget | None = None,
) -> list[ForeignKey]:
    """Inclusions into a column without duplicates, the likeliest first; and of several columns with names alike, into
    columns that have no duplicates only together. Where the budget is spent, those that were looked at until then.
    O(attributes^2 + values looked at)."""
    budget = budget or Budget()
    codes = {name: some.codes() for name, some in rows.items()}
    filled = np.concatenate([np.count_nonzero(some != NULL, axis=1) for some in codes.values()])
    unique = (filled == found.distinct) & (found.distinct > 1)
    near = found.missing <= found.most_missing(most_missing)[:, None]
    chosen = near & found.comparable & unique[None, :] & (found.distinct > 0)[:, None]
    made = []
    for a, b in np.argwhere(chosen).tolist():
        if budget.spent():
            break
        made.append(_suggestion(found, codes, filled, a, b))
    made += _composite(found, codes, unique, budget)
    if budget.ended:
        budget.skip(f"foreign keys: only {len(made):,} were looked at")
    return sorted(made, key=lambda s: (-s.score, str(s.rule)))


def _composite(
    found: Inclusions, codes: Mapping[str, Codes], unique: npt.NDArray[np.bool_], budget: Budget
) -> Iterator[ForeignKey]:
    """Inclusions of several columns into a key of just these."""

    def eligible(pair: Pair) -> bool:
        a, b = (found.attributes[x] for x in pair)
        return a.table != b.table and not unique[pair[1]] and _alike(a, b) >= _ALIKE

    wide = WideInclusions(found, _MAX_KEY_COLUMNS, eligible)
    wide.begin(codes, budget)
    for rule, candidate in wide.found.items():
        if budget.spent():
            return
        left, right = (wide.tuples([pair[side] for pair in candidate], codes) for side in (0, 1))
        used, there = (len(np.unique(groups(some, np.arange(len(some))))) for some in (left, right))
        if there == codes[rule.right_table].shape[1] > 1:
            share = used / there
            key = f"{rule.right_table}({', '.join(rule.right)})"
            reasons = (f"{key} has no duplicates", "the names are alike", f"{percent(share)} of its values are used")
            yield ForeignKey(rule, 0.8 + 0.2 * share, 0.0, (), reasons)


def _suggestion(found: Inclusions, codes: Mapping[str, Codes], filled: Numbers, left: int, right: int) -> ForeignKey:
    a, b = found.attributes[left], found.attributes[right]
    share = found.share(left, right)
    coverage = float((found.distinct[left] - found.missing[left, right]) / found.distinct[right])
    alike = _alike(a, b)
    reasons = [f"{b.table}.{b.column.name} has no duplicates"]
    score = 0.5 * alike + 0.2 * min(1.0, coverage)
    if alike >= _ALIKE:
        reasons.append("the names are alike")
    reasons.append(f"{percent(coverage)} of its values are used")
    if _counts_up(b, codes[b.table]) and alike < _ALIKE:
        reasons.append("but it counts up from a small number, so any small numbers are among its values")
    else:
        score += 0.2
    if found.distinct[left] >= 10 or found.distinct[left] * 2 > found.distinct[right]:
        score += 0.1
    else:
        reasons.append(f"but there are only {found.distinct[left]} different values")
    if filled[left] == found.distinct[left] and a.table != b.table and alike < _ALIKE:
        score -= 0.1
        reasons.append("but the values on the left are all different too")
    if share:
        reasons.append(f"{found.missing[left, right]:,} of {found.distinct[left]:,} values are missing")
    score = max(0.0, min(1.0, score - share))
    return ForeignKey(
        found.rule(left, right), score, share, tuple(found.missing_values(left, right, 5)), tuple(reasons)
    )


def _counts_up(attribute: Attribute, rows: Codes) -> bool:
    """Whether a column is a surrogate id: whole numbers without large gaps from a small one on."""
    if attribute.column.kind is not Kind.INTEGER:
        return False
    codes = rows[attribute.place]
    codes = codes[codes != NULL]
    return bool(len(codes) and 0 <= codes.min() <= 1000 and codes.max() - codes.min() < 4 * len(codes) + 100)


def _alike(left: Attribute, right: Attribute) -> float:
    """How alike the names are: the left column's with the right column's, or with its table's (customer, its id)."""
    mine, theirs, table = (words_of(text) for text in (left.column.name, right.column.name, right.table))
    own = words_of(left.table)
    plain = [w for w in theirs if w not in KEY_WORDS] or table
    candidates = [theirs, table, table + theirs, plain]
    if left.table != right.table and left.column.name == right.column.name and not set(mine) <= KEY_WORDS:
        return 1.0
    stripped = [w for w in mine if w not in KEY_WORDS and not (len(w) <= 2 and own and own[0].startswith(w))] or mine
    return max(_similar(stripped, other) for other in candidates if other)


def _similar(mine: list[str], theirs: list[str]) -> float:
    if set(mine) <= KEY_WORDS:
        return 0.0
    shared = [w for w in mine if w in theirs and w not in KEY_WORDS]
    if shared:
        return 0.6 + 0.4 * len(shared) / max(len(mine), 1)
    return SequenceMatcher(None, "".join(mine), "".join(theirs)).ratio() * 0.8
