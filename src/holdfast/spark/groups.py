"""Groups that several keys and dependencies share: rules with one left side cost one scan and one shuffle.

A table of groups has the cells of X and of some right sides, and n, the number of rows with these values. Right sides
that X nearly determines are in one table, because they add few groups; each of the others has a table of its own
(zip, city and salary together have as many groups as there are rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.spark.agreement import Agreement, LeftSide, pairs_of
from holdfast.spark.frames import all_of, same

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

GROUPS = "groups-"  # begins the names of their states
_SAMPLE = 100_000  # rows, to see which right sides the left side nearly determines
_FEW_MORE = 1.1  # groups, as a factor


@dataclass(frozen=True)
class Groups:
    """How many rows have the same X and the same right sides. `rules` are the agreements that they serve, by number."""

    left_side: LeftSide
    rights: tuple[str, ...]
    rules: Mapping[int, Agreement]

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

    def violations(self, groups: DataFrame) -> DataFrame:
        """(rule, violations): the number of violating ordered pairs of each rule."""
        sets = sorted({self._set(rule) for rule in self.rules.values()})
        counted = self._by_set(self._suspicious(groups) if len(sets) > 1 else groups, sets)
        x, totals = [*self.left_side.cells, "set"], []
        for number, rule in self.rules.items():
            mine = F.col("set") == self._set(rule)
            agrees = rule.agrees(F.col(rule.right)) if rule.right else F.lit(False)
            of_rule = mine & rule.counts()
            totals.append(F.sum(F.when(of_rule, F.col("n"))).alias(f"n{number}"))
            totals.append(F.sum(F.when(of_rule & agrees, pairs_of("n"))).alias(f"agreeing{number}"))
        by_x = counted.groupBy(x).agg(*totals) if self.rights else counted.select(*self._of_lone_key())
        columns = []
        for number in self.rules:
            differing = pairs_of(f"n{number}") - F.coalesce(F.col(f"agreeing{number}"), F.lit(0))
            columns.append(F.coalesce(F.sum(differing), F.lit(0)).cast("decimal(38,0)").alias(f"v{number}"))
        told = [F.struct(F.lit(n).alias("rule"), F.col(f"v{n}").alias("violations")) for n in self.rules]
        return by_x.agg(*columns).select(F.inline(F.array(*told)))

    def _of_lone_key(self) -> list[Expr]:
        """n of each group of X, for keys: nothing agrees."""
        names = [(f"n{number}", f"agreeing{number}") for number in self.rules]
        return [column for n, agreeing in names for column in (F.col("n").alias(n), F.lit(None).alias(agreeing))]

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
        if not self.left_side.cells:
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


def shared_groups(
    rules: Mapping[int, Agreement], rows_of: Callable[[str], DataFrame], given: Iterable[Groups] = ()
) -> list[Groups]:
    """The groups that serve all rules: the `given` ones as far as they do, then new ones. `rows_of` gives the rows of a
    table, of which a sample is looked at where the rules with one left side have several right sides."""
    made, waiting = [], dict(rules)
    for groups in given:
        mine = {
            number: rule
            for number, rule in waiting.items()
            if rule.left_side == groups.left_side and (rule.right is None or rule.right in groups.rights)
        }
        waiting = {number: rule for number, rule in waiting.items() if number not in mine}
        made += [Groups(groups.left_side, groups.rights, mine)] if mine else []
    by_left: dict[LeftSide, dict[int, Agreement]] = {}
    for number, rule in waiting.items():
        by_left.setdefault(rule.left_side, {})[number] = rule
    for left_side, mine in by_left.items():
        made += _new_groups(left_side, mine, rows_of)
    return made


def _new_groups(left_side: LeftSide, rules: dict[int, Agreement], rows_of: Callable[[str], DataFrame]) -> list[Groups]:
    rights = sorted({rule.right for rule in rules.values() if rule.right}, key=lambda cell: int(cell[1:]))
    near = _nearly_determined(left_side, rights, rows_of) if len(rights) > 1 else rights
    chosen = [tuple(near), *((cell,) for cell in rights if cell not in near)]
    chosen = [some for some in chosen if some] or [()]
    made = []
    for i, some in enumerate(chosen):
        mine = {n: r for n, r in rules.items() if r.right in some or (r.right is None and i == 0)}
        made.append(Groups(left_side, some, mine))
    return made


def _nearly_determined(left_side: LeftSide, rights: list[str], rows_of: Callable[[str], DataFrame]) -> list[str]:
    """The right sides that hardly add groups to those of X, in the first rows of the table."""
    sample = rows_of(left_side.table).where(left_side.is_member()).limit(_SAMPLE)
    x = [F.lit(0), *map(F.col, left_side.cells)]
    counts = [F.approx_count_distinct(F.xxhash64(*x)).alias("x")]
    counts += [F.approx_count_distinct(F.xxhash64(*x, F.col(cell)), 0.02).alias(cell) for cell in rights]
    (row,) = sample.agg(*counts).collect()
    return [cell for cell in rights if row[cell] <= _FEW_MORE * row["x"] + 8]
