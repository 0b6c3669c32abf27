"""What the moves of a batch do to the violations of a rule, from its state and the moves alone: O(touched groups).

An update keeps its row, and a pair (or row) that violates the rule before and after is neither added nor removed. So
added = V(after) - K and removed = V(before) - K, where K counts what violates the rule both times. For keys and
dependencies, K is counted from transitions: m rows moved from the group X with value A to the group Y with value B. Of
the M rows that moved from X to Y, the pairs that disagreed before and after are M(M-1), minus those that agreed before,
minus those that agree after, plus those that did both.

Expressions are SQL text here: each operation on a column object is a message to the JVM, and there would be hundreds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.spark.agreement import Agreement
from holdfast.spark.frames import same
from holdfast.spark.groups import SharedGroups
from holdfast.spark.inclusion import Inclusion, summed
from holdfast.spark.listing import with_violates
from holdfast.spark.state_files import union
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAIRS = "case when m > 1 then cast(m as decimal(18,0)) * (cast(m as decimal(18,0)) - 1) end"
_DIFFERENCE = (
    "cast(coalesce(after, 0) - coalesce(both, 0) as decimal(38,0)) as added",
    "cast(coalesce(before, 0) - coalesce(both, 0) as decimal(38,0)) as removed",
)


class StateChange(NamedTuple):
    """What a batch adds to a state; and for each rule that reads it, by number, one row with the numbers of violations
    `added` and `removed`."""

    state: DataFrame | None
    counts: dict[int, DataFrame]


def touched(state: DataFrame, wanted: DataFrame, columns: list[str], many: bool) -> DataFrame:
    """The part of a state whose columns are those of some wanted row. A scan of the state; nulls are equal."""
    names = [f"wanted{i}" for i in range(len(columns))]
    if not columns:
        return state
    wanted = wanted.select(columns).toDF(*names)
    return state.join(wanted if many else F.broadcast(wanted), same(columns, names), "left_semi")


def total(groups: DataFrame, columns: list[str]) -> DataFrame:
    """The value of a signed multiset: the sum of n, without zeros."""
    return groups.groupBy(columns).agg(F.sum("n").cast("bigint").alias("n")).where("n != 0")


# --- keys and functional dependencies -------------------------------------------------------------------------


def change_of_groups(groups: SharedGroups, state: DataFrame, moves: DataFrame, many: bool) -> StateChange:
    """From the groups (X, A, ..., n) of all rows before the batch."""
    ends = _ends(groups, moves)
    signed = union(
        ends.where(f"{end} is not null").selectExpr(f"{end}.*", f"cast({n} as bigint) as n")
        for end, n in (("old", -1), ("new", 1))
    )
    before = touched(state, signed, list(groups.left_side.cells), many)
    if len(groups.rules) > 1:
        before = total(before, groups.columns)  # all rules read this shuffle
    counts = {number: _counted(rule, before, ends) for number, rule in groups.rules.items()}
    return StateChange(total(signed, groups.columns), counts)


def _ends(groups: SharedGroups, moves: DataFrame) -> DataFrame:
    """The cells of each moved row before (old) and after (new), as structs; null where it is in no group."""
    ends = []
    for end, there in (("old", "existed"), ("new", "remains")):
        is_member = F.col(there) & groups.left_side.is_member(f"{end}_")
        ends.append(F.when(is_member, F.struct(*(F.col(f"{end}_{c}").alias(c) for c in groups.columns))).alias(end))
    return moves.select(*ends).where("old is not null or new is not null")


def _counted(rule: Agreement, before: DataFrame, ends: DataFrame) -> DataFrame:
    """One row: violations added and removed. One shuffle, of transitions."""
    names = ["X", "A", "Y", "B"] if rule.right else ["X", "Y"]
    sets = [["X"], ["Y"], ["X", "Y"]]
    if rule.right:
        sets += [["X", "A"], ["Y", "B"], ["X", "A", "Y"], ["X", "Y", "B"], ["X", "A", "Y", "B"]]
    grouped = _transitions(rule, before, ends).groupingSets(
        [[F.col(c) for c in some] for some in sets], *(F.col(name) for name in names)
    )
    summed_up = grouped.agg(F.sum("m").cast("bigint").alias("m"), F.grouping_id().alias("set"))
    totals: dict[str, list[str]] = {"before": [], "after": [], "both": []}
    for some in sets:
        number = sum(1 << (len(names) - 1 - i) for i, name in enumerate(names) if name not in some)
        rights = [name for name in some if name in "AB"]
        conditions = [f"set = {number}", *(f"{name} is not null" for name in some if name in "XY")]
        if rule.nulls is Nulls.DISTINCT:
            conditions += [f"{name} is not null" for name in rights]
        kind = "both" if {"X", "Y"} <= set(some) else "before" if "X" in some else "after"
        sign = "-" if len(rights) == 1 else ""
        totals[kind].append(f"when {' and '.join(conditions)} then {sign}({_PAIRS})")
    sums = [F.expr(f"sum(case {' '.join(cases)} end)").alias(kind) for kind, cases in totals.items()]
    return summed_up.agg(*sums).selectExpr(*_DIFFERENCE)


def _transitions(rule: Agreement, before: DataFrame, ends: DataFrame) -> DataFrame:
    """(X, A, Y, B, m): m rows of touched groups go from (X, A) to (Y, B). X is null if there is no row before, Y if
    there is none after. A row that moves leaves those that stay (m = -1), and moves (m = 1)."""

    def of(end: str) -> list[str]:
        cells = ", ".join(f"{end}{c}" for c in rule.x) or "0"
        a = f"{end}{rule.right}"
        there = [f"{end[:-1]} is not null"] if end else []
        there += [f"{a} is not null"] if rule.nulls is Nulls.SQL and rule.right else []
        x = f"struct({cells})" if not there else f"case when {' and '.join(there)} then struct({cells}) end"
        return [x, a] if rule.right else [x]

    def named(x: list[str], y: list[str], m: str) -> list[str]:
        columns = [f"{value} as {name}" for some, names in ((x, "XA"), (y, "YB")) for value, name in zip(some, names)]  # noqa: B905
        return [*columns, f"cast({m} as bigint) as m"]

    here, old, new = of(""), of("old."), of("new.")
    parts = [before.selectExpr(*named(here, here, "n"))]
    for y, m in ((old, "-1"), (new, "1")):
        parts.append(ends.selectExpr(*named(old, y, m)))
    return union(parts).where("X is not null or Y is not null")


# --- inclusions -----------------------------------------------------------------------------------------------


def change_of_inclusion(
    numbers: list[int], rule: Inclusion, state: DataFrame, left: DataFrame | None, right: DataFrame | None, many: bool
) -> StateChange:
    """From (X, l, r): how many left and right rows have a value. `left` and `right`: the moves of both tables."""
    ends = [_value_ends(rule, moves, is_left) for moves, is_left in ((left, True), (right, False)) if moves is not None]
    moved = union(ends)
    change = summed(moved.selectExpr(*rule.columns, "dl as l", "dr as r"), rule.columns).where("l != 0 or r != 0")
    nothing = ("cast(0 as bigint) as dl", "cast(0 as bigint) as dr", "cast(null as bigint) as move", "false as old")
    before = touched(state, moved, rule.columns, many).selectExpr(*rule.columns, "l", "r", *nothing)
    zero = ("cast(0 as bigint) as l", "cast(0 as bigint) as r")
    every = before.unionByName(moved.selectExpr(*rule.columns, *zero, "dl", "dr", "move", "old"))
    return StateChange(change, dict.fromkeys(numbers, _missing_rows(rule, every)))


def _value_ends(rule: Inclusion, moves: DataFrame, is_left: bool) -> DataFrame:
    """The values that moves take away (old) and bring. `move` numbers the moves of the left table."""
    table = moves.select(F.monotonically_increasing_id().alias("move"), "*")
    ends = []
    for prefix, there, n in (("old_", "existed", -1), ("new_", "remains", 1)):
        members = table.where(F.col(there) & rule.is_member(left=is_left, prefix=prefix))
        numbers = (f"cast({n if is_left else 0} as bigint) as dl", f"cast({0 if is_left else n} as bigint) as dr")
        mine = "move" if is_left else "cast(null as bigint) as move"
        others = map(F.expr, (*numbers, mine, f"{'true' if n < 0 else 'false'} as old"))
        ends.append(members.select(*rule.values(left=is_left, prefix=prefix), *others))
    return union(ends)


def _missing_rows(rule: Inclusion, every: DataFrame) -> DataFrame:
    """One row: left rows that violate the inclusion now and did not, and the other way round.

    Each value learns whether it was and is missing on the right. Rows that stay are counted by value: those before the
    batch, without those that move. A row that moves was missing if its old value was, and is if its new one is.
    """
    window = f"over (partition by {', '.join(rule.columns)})"
    known = every.selectExpr(
        "*", f"sum(r) {window} = 0 as was_missing", f"sum(r) {window} + sum(dr) {window} = 0 as is_missing"
    )
    stays = (
        "cast(null as bigint) as move",
        "was_missing as before",
        "is_missing as after",
        "case when move is not null and old then -1 else l end as m",
    )
    moves = (
        "move",
        "old and was_missing as before",
        "not old and is_missing as after",
        "cast(case when move is null then 0 else 1 end as bigint) as m",
    )

    def as_struct(columns: tuple[str, ...]) -> str:
        return f"struct({', '.join(columns)})"

    told = known.selectExpr(f"inline(array({as_struct(stays)}, {as_struct(moves)}))").where("m != 0")
    rows = told.groupBy(
        "move", F.expr("case when move is null then before end"), F.expr("case when move is null then after end")
    )
    ended = rows.agg(
        F.expr("case when move is null then sum(m) else 1 end").alias("m"),
        F.max("before").alias("before"),
        F.max("after").alias("after"),
    )
    sums = {"before": "before", "after": "after", "both": "before and after"}
    totals = [F.expr(f"sum(case when {test} then m end)").alias(name) for name, test in sums.items()]
    return ended.agg(*totals).selectExpr(*_DIFFERENCE)


# --- rules about single rows ----------------------------------------------------------------------------------


def change_of_rows(item: CheckedRule, schema: Schema, moves: DataFrame) -> DataFrame:
    """One row: violations added and removed, of a rule about single rows."""
    tested = with_violates(item, schema, moves, ("old_", "new_"))
    was, is_ = F.col("existed") & F.col("old_violates"), F.col("remains") & F.col("new_violates")
    added, removed = F.count_if(is_ & ~was), F.count_if(was & ~is_)
    return tested.agg(added.cast("decimal(38,0)").alias("added"), removed.cast("decimal(38,0)").alias("removed"))
