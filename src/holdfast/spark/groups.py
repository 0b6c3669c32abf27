"""Groups that several keys and dependencies share: rules with one left side cost one scan and one shuffle.

A table of groups has the cells of X and of some right sides, and n, the number of rows with these values. Right sides
that X nearly determines are in one table, because they add few groups; each of the others has a table of its own
(zip, city and salary together have as many groups as there are rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.spark.agreement import Agreement, LeftSide
from holdfast.spark.agreement import pairs_of as wide_pairs_of
from holdfast.spark.frames import all_of, same
from holdfast.spark.state_files import union

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

GROUPS = "groups-"  # begins the names of their states
LARGE = 3_000_000_000  # rows of a group, whose pairs 64 bits can count
_ONE_IN = 61  # values of a left side that are looked at before its groups are planned
_ENOUGH = 100  # such values, to say that they rarely repeat
_MOST_SENT = 500_000  # values that are sent to every worker
_FIRST = 20_000  # rows that are looked at before that
_FEW_DIFFER = 0.1  # values of X for which a right side may differ, if it is to share the groups


@dataclass(frozen=True)
class SharedGroups:
    """How many rows have the same X and the same right sides. `rules` are the agreements that they serve, by number."""

    left_side: LeftSide
    rights: tuple[str, ...]
    rules: Mapping[int, Agreement]
    rarely_repeats: bool = False  # nearly every row has an X of its own

    @property
    def name(self) -> str:
        """Names the groups in files."""
        return f"{GROUPS}{self.left_side.digest}-{'-'.join(self.rights) or 'key'}"

    @property
    def columns(self) -> list[str]:
        return [*self.left_side.cells, *self.rights]

    def of_rows(self, rows: DataFrame) -> DataFrame:
        """(X, A, ..., n). One shuffle."""
        members = rows.where(self.left_side.is_member()).select(self.columns)
        return members.groupBy(self.columns).agg(F.count("*").alias("n"))

    def that_repeat(self, rows: DataFrame) -> DataFrame:
        """The groups of those X that several rows have, which is what violations need. Where few do, the right sides
        of the other rows are not even shuffled."""
        if not self.rarely_repeats or not self.rights:
            return self.of_rows(rows)
        members = rows.where(self.left_side.is_member()).select(self.columns)
        names = [f"x{i}" for i in range(len(self.left_side.cells))]
        counted = members.groupBy(*self.left_side.cells).agg(F.count("*").alias("n"))
        repeated = counted.where("n > 1").select(*self.left_side.cells).toDF(*names)
        chosen = members.join(F.broadcast(repeated), same(self.left_side.cells, names), "left_semi")
        return chosen.groupBy(self.columns).agg(F.count("*").alias("n"))

    def violations(self, groups: DataFrame, *, wide: bool = False) -> DataFrame:
        """(rule, violations): the number of violating ordered pairs of each rule. Numbers of 64 bits are a third faster
        than decimals: without `wide`, the answer is null if a group is too large for them."""
        sets = sorted({self._set(rule) for rule in self.rules.values()})
        counted = self._by_set(self._suspicious(groups) if len(sets) > 1 else groups, sets)
        by_x = counted.groupBy(*self.left_side.cells, "set").agg(*self._totals(wide)) if self.rights else counted
        columns, told = [], []
        for number in self.rules:
            n = f"n{number}" if self.rights else "n"
            agreeing = F.coalesce(F.col(f"agreeing{number}"), F.lit(0)) if self.rights else F.lit(0)
            differing = (wide_pairs_of(n) if wide else _pairs_of(n)) - agreeing
            total = F.coalesce(F.sum(differing.cast("decimal(38,0)")), F.lit(0)).cast("decimal(38,0)")
            columns.append(
                F.when(F.coalesce(F.max(n), F.lit(0)) <= (2**63 - 1 if wide else LARGE), total).alias(f"v{number}")
            )
            told.append(F.struct(F.lit(number).alias("rule"), F.col(f"v{number}").alias("violations")))
        return by_x.agg(*columns).select(F.inline(F.array(*told)))

    def _totals(self, wide: bool) -> list[Expr]:
        """For each rule, the rows of a group of X, and the pairs among them that agree on A."""
        totals = []
        for number, rule in self.rules.items():
            mine = (F.col("set") == self._set(rule)) & rule.counts()
            agrees = rule.agrees(F.col(rule.right)) if rule.right else F.lit(False)
            pairs = F.when(mine & agrees, wide_pairs_of("n") if wide else _pairs_of("n"))
            totals.append(F.sum(F.when(mine, F.col("n"))).alias(f"n{number}"))
            totals.append((F.sum(pairs) if wide else F.try_sum(pairs)).alias(f"agreeing{number}"))
        return totals

    def _set(self, rule: Agreement) -> int:
        """The number of Spark's grouping set with X and the right side of a rule."""
        return sum(1 << i for i, cell in enumerate(reversed(self.rights)) if cell != rule.right)

    def _by_set(self, groups: DataFrame, sets: list[int]) -> DataFrame:
        """(X, A, ..., set, n): the groups of X and the right side of each set. Other right sides are null."""
        if len(sets) == 1:
            return groups.select(*self.columns, F.lit(sets[0]).cast("bigint").alias("set"), "n")
        cells, rights = [F.col(c) for c in self.left_side.cells], list(self.rights)
        chosen = [
            [*cells, *(F.col(c) for i, c in enumerate(rights) if not number & 1 << (len(rights) - 1 - i))]
            for number in sets
        ]
        grouped = groups.groupingSets(chosen, *(F.col(c) for c in self.columns))
        return grouped.agg(F.sum("n").alias("n"), F.grouping_id().alias("set"))

    def _suspicious(self, groups: DataFrame) -> DataFrame:
        """The groups of those X for which a rule may be violated: with several groups or, for a key, rows."""
        if not self.left_side.cells or self.rarely_repeats:
            return groups
        lonely = [rule.right for rule in self.rules.values() if rule.nulls is Nulls.DISTINCT and rule.right]
        may = F.col("groups") > 1
        if any(rule.right is None for rule in self.rules.values()):
            may = F.lit(True)
        elif lonely:
            may = may | F.col("lonely")
        is_lonely = ~all_of(F.col(cell).isNotNull() for cell in sorted(set(lonely)))
        per_x = groups.groupBy(*self.left_side.cells).agg(
            F.sum("n").alias("rows"), F.count("*").alias("groups"), F.max(is_lonely).alias("lonely")
        )
        names = [f"x{i}" for i in range(len(self.left_side.cells))]
        wanted = per_x.where((F.col("rows") > 1) & may).select(*self.left_side.cells).toDF(*names)
        return groups.join(wanted, same(self.left_side.cells, names), "left_semi")


def _pairs_of(column: str) -> Expr:
    """n(n-1) in 64 bits; null for n < 2, which sums ignore, and for large groups."""
    n = F.col(column)
    return F.when((n > 1) & (n <= LARGE), n * (n - 1))


def violations_of_groups(
    given: Iterable[tuple[SharedGroups, DataFrame]], others: Iterable[DataFrame] = ()
) -> dict[int, int]:
    """The number of violations of each rule, from its groups; `others` are more parts (rule, violations) of the one
    query."""
    pairs = [*given]
    parts = [*(groups.violations(frame) for groups, frame in pairs), *others]
    found = {row["rule"]: row["violations"] for row in union(parts).collect()} if parts else {}
    large = [(groups, frame) for groups, frame in pairs if any(found[number] is None for number in groups.rules)]
    for groups, frame in large:
        found |= {row["rule"]: row["violations"] for row in groups.violations(frame, wide=True).collect()}
    return {number: int(count) for number, count in found.items()}


def shared_groups(
    rules: Mapping[int, Agreement], rows_of: Callable[[str], DataFrame], given: Iterable[SharedGroups] = ()
) -> list[SharedGroups]:
    """The groups that serve all rules: the `given` ones as far as they do, then new ones. `rows_of` gives the rows of a
    table, of which a sample is looked at for new groups with right sides."""
    made, waiting = [], dict(rules)
    for groups in given:
        mine = {
            number: rule
            for number, rule in waiting.items()
            if rule.left_side == groups.left_side and (rule.right is None or rule.right in groups.rights)
        }
        waiting = {number: rule for number, rule in waiting.items() if number not in mine}
        made += [SharedGroups(groups.left_side, groups.rights, mine)] if mine else []
    by_left: dict[LeftSide, dict[int, Agreement]] = {}
    for number, rule in waiting.items():
        by_left.setdefault(rule.left_side, {})[number] = rule
    rights = {left: _rights(mine.values()) for left, mine in by_left.items()}
    seen = _looked_at({left: some for left, some in rights.items() if some and left.cells}, rows_of)
    for left, mine in by_left.items():
        made += _new_groups(left, mine, rights[left], seen.get(left, _Seen(False, rights[left])))
    return made


def _rights(rules: Iterable[Agreement]) -> list[str]:
    return sorted({rule.right for rule in rules if rule.right}, key=lambda cell: int(cell[1:]))


def _new_groups(left: LeftSide, rules: dict[int, Agreement], rights: list[str], seen: _Seen) -> list[SharedGroups]:
    together = rights if seen.rarely_repeats else seen.determined
    chosen = [tuple(together), *((cell,) for cell in rights if cell not in together)]
    chosen = [some for some in chosen if some] or [()]
    made = []
    for i, some in enumerate(chosen):
        mine = {n: r for n, r in rules.items() if r.right in some or (r.right is None and i == 0)}
        made.append(SharedGroups(left, some, mine, seen.rarely_repeats))
    return made


class _Seen(NamedTuple):
    """What a sample says about a left side: whether its values rarely repeat, and the right sides that hardly add
    groups."""

    rarely_repeats: bool
    determined: list[str]


class _Repetition(NamedTuple):
    """Of a sample: how many values of X it has, how many of them repeat, and for how many each right side differs."""

    values: int
    repeated: int
    differing: tuple[int, ...]

    @property
    def is_rare(self) -> bool:
        return self.repeated * 10 <= self.values

    @property
    def is_for_broadcast(self) -> bool:
        """Whether the values that repeat in the whole table are few enough, if one in `_ONE_IN` was looked at."""
        return self.is_rare and self.values >= _ENOUGH and self.repeated * _ONE_IN <= _MOST_SENT

    def judged(self, rights: list[str], *, rarely: bool) -> _Seen:
        allowed = self.values * _FEW_DIFFER
        return _Seen(rarely, [cell for cell, n in zip(rights, self.differing, strict=True) if n <= allowed])


def _looked_at(rights: Mapping[LeftSide, list[str]], rows_of: Callable[[str], DataFrame]) -> dict[LeftSide, _Seen]:
    """Looks at the first rows. Where hardly any value of a left side repeats there, at all rows of some of its values,
    those with certain hashes: a scan of its columns."""
    first: dict[LeftSide, _Repetition] = {}
    for table in dict.fromkeys(left.table for left in rights):
        mine = {left: some for left, some in rights.items() if left.table == table}
        first |= _among_first(mine, rows_of(table))
    unclear = {left: some for left, some in rights.items() if first[left].is_rare}
    every = _among_some_values(unclear, rows_of)
    return {
        left: every.get(left, first[left]).judged(some, rarely=left in every and every[left].is_for_broadcast)
        for left, some in rights.items()
    }


def _among_first(rights: Mapping[LeftSide, list[str]], rows: DataFrame) -> dict[LeftSide, _Repetition]:
    """Of the first rows of a table. Only hashes come to the driver: one task, no shuffle."""
    cells = sorted({cell for some in rights.values() for cell in some})
    names = [f"x{i}" for i in range(len(rights))]
    hashes = [F.when(left.is_member(), F.xxhash64(*left.cells)).alias(x) for left, x in zip(rights, names, strict=True)]
    seen = rows.select(*hashes, *(F.xxhash64(cell).alias(cell) for cell in cells)).limit(_FIRST).collect()
    return {
        left: _repetition([[row[x], *(row[cell] for cell in some)] for row in seen if row[x] is not None], len(some))
        for (left, some), x in zip(rights.items(), names, strict=True)
    }


def _repetition(hashes: list[list[int]], rights: int) -> _Repetition:
    """Of rows with the hashes of X and of each of its right sides."""
    if not hashes:
        return _Repetition(0, 0, (0,) * rights)
    rows = np.array(hashes, dtype=np.int64)
    rows = rows[np.argsort(rows[:, 0])]
    starts = np.flatnonzero(np.r_[True, rows[1:, 0] != rows[:-1, 0]])
    differs = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    sizes = np.diff(np.r_[starts, len(rows)])
    return _Repetition(len(starts), int((sizes > 1).sum()), tuple(differs[:, 1:].sum(axis=0).tolist()))


def _among_some_values(
    rights: Mapping[LeftSide, list[str]], rows_of: Callable[[str], DataFrame]
) -> dict[LeftSide, _Repetition]:
    """Of all rows whose X has certain hashes. One query for all left sides, of which only numbers come back."""
    most, parts = max(map(len, rights.values()), default=0), []
    for i, (left, some) in enumerate(rights.items()):
        x = F.xxhash64(*left.cells)
        sample = rows_of(left.table).where(left.is_member()).where(F.pmod(x, F.lit(_ONE_IN)) == 0)
        hashed = sample.select(x.alias("x"), *(F.xxhash64(c).alias(c) for c in some))
        bounds = [bound for k, c in enumerate(some) for bound in (F.min(c).alias(f"l{k}"), F.max(c).alias(f"m{k}"))]
        by_x = hashed.groupBy("x").agg(F.count("*").alias("n"), *bounds)
        differ = [
            (F.count_if(F.col(f"l{k}") != F.col(f"m{k}")) if k < len(some) else F.lit(0)).cast("bigint").alias(f"d{k}")
            for k in range(most)
        ]
        repeated = F.count_if(F.col("n") > 1).alias("repeated")
        parts.append(by_x.agg(F.lit(i).alias("left"), F.count("*").alias("groups"), repeated, *differ))
    found = {row["left"]: row for row in union(parts).collect()} if parts else {}
    return {
        left: _Repetition(found[i]["groups"], found[i]["repeated"], tuple(found[i][f"d{k}"] for k in range(len(some))))
        for i, (left, some) in enumerate(rights.items())
    }
