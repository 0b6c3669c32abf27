"""What the moves of a batch do to the violations of a rule, from its state and the moves alone: O(touched groups).

An update keeps its row, and a pair (or row) that violates the rule before and after is neither added nor removed. So
added = V(after) - K and removed = V(before) - K, where K counts what violates the rule both times. For keys and
dependencies, K is counted from transitions: m rows moved from the group X with value a to the group Y with value b. Of
the M rows that moved from X to Y, the pairs that disagreed before and after are M(M-1), minus those that agreed before,
minus those that agree after, plus those that did both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from holdfast.spark.agreement import Agreement, pairs_of
from holdfast.spark.frames import same
from holdfast.spark.groups import Groups
from holdfast.spark.inclusion import Inclusion, summed
from holdfast.spark.listing import with_violates
from holdfast.spark.state_files import union
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


class Change(NamedTuple):
    """What a batch adds to a state; and for each rule that reads it, by number, one row with the numbers of violations
    `added` and `removed`."""

    state: DataFrame | None
    counts: dict[int, DataFrame]


def touched(state: DataFrame, wanted: DataFrame, columns: list[str], many: bool) -> DataFrame:
    """The part of a state whose columns are those of some wanted row. A scan of the state; nulls are equal."""
    names = [f"wanted{i}" for i in range(len(columns))]
    if not columns:
        return state
    wanted = wanted.select(columns).toDF(*names).distinct()
    return state.join(wanted if many else F.broadcast(wanted), same(columns, names), "left_semi")


# --- keys and functional dependencies -------------------------------------------------------------------------


def change_of_groups(groups: Groups, state: DataFrame, moves: DataFrame, many: bool) -> Change:
    """From the groups (X, A, ..., n) of all rows before the batch."""
    signed = union(_signed(groups.columns, groups.left_side.is_member, moves))
    before = total(touched(state, signed, list(groups.left_side.cells), many), groups.columns)
    counts = {n: _counted(rule, _transitions(rule, before, moves)) for n, rule in groups.rules.items()}
    return Change(total(signed, groups.columns), counts)


def _signed(columns: list[str], is_member: Callable[[str], Expr], moves: DataFrame) -> list[DataFrame]:
    """The rows that leave groups (n = -1) and those that enter them (n = 1)."""
    ends = (("old_", "existed", -1), ("new_", "remains", 1))
    return [
        moves.where(F.col(there) & is_member(prefix)).select(
            *(F.col(prefix + c).alias(c) for c in columns), F.lit(n).cast("bigint").alias("n")
        )
        for prefix, there, n in ends
    ]


def total(groups: DataFrame, columns: list[str]) -> DataFrame:
    """The value of a signed multiset: the sum of n, without zeros."""
    return groups.groupBy(columns).agg(F.sum("n").cast("bigint").alias("n")).where("n != 0")


def _transitions(rule: Agreement, before: DataFrame, moves: DataFrame) -> DataFrame:
    """(X, A, Y, B, m): m rows of touched groups go from (X, A) to (Y, B). X is null if there is no row before, Y if
    there is none after; all are structs, whose parts may be null."""
    leaving, _ = _signed(rule.columns, rule.is_member, moves)
    here = before.where(rule.counts()).select(*rule.columns, "n")
    staying = total(here.unionByName(leaving), rule.columns)
    sides = _ends(rule, "", F.lit(True))
    unmoved = staying.select(
        *(side.alias(name) for names in ("XA", "YB") for side, name in zip(sides, names, strict=False)),
        F.col("n").alias("m"),
    )
    ends = []
    for names, prefix, there in (("XA", "old_", "existed"), ("YB", "new_", "remains")):
        sides = _ends(rule, prefix, F.col(there) & rule.is_member(prefix))
        ends += [side.alias(name) for side, name in zip(sides, names, strict=False)]
    moved = moves.select(*ends).where("X is not null or Y is not null")
    moved = moved.groupBy(moved.columns).agg(F.count("*").alias("m"))
    return unmoved.unionByName(moved)


def _ends(rule: Agreement, prefix: str, there: Expr) -> list[Expr]:
    """X and A of a row as structs; null if it is not there."""
    cells = rule.side(prefix)
    sides = [F.struct(*cells[: len(rule.x)] or [F.lit(0).alias("x")])]
    sides += [F.struct(cells[-1].alias("a"))] if rule.right else []
    return [F.when(there, side) for side in sides]


def _counted(rule: Agreement, transitions: DataFrame) -> DataFrame:
    """One row: violations added and removed. One shuffle, of touched groups."""
    ends = ["X", "A", "Y", "B"] if rule.right else ["X", "Y"]
    sets = [["X"], ["Y"], ["X", "Y"]]
    if rule.right:
        sets += [["X", "A"], ["Y", "B"], ["X", "A", "Y"], ["X", "Y", "B"], ["X", "A", "Y", "B"]]
    columns = [F.col(end) for end in ends]
    grouped = transitions.groupingSets([[F.col(c) for c in some] for some in sets], *columns).agg(
        F.sum("m").cast("bigint").alias("m"), F.grouping_id().alias("set")
    )
    totals = {"before": F.lit(0), "after": F.lit(0), "both": F.lit(0)}
    for some in sets:
        number = sum(1 << (len(ends) - 1 - i) for i, end in enumerate(ends) if end not in some)
        there = [F.col(end).isNotNull() for end in some if end in "XY"]
        agrees = [rule.agrees(F.col(f"{end}.a")) for end in some if end in "AB"]
        condition = F.col("set") == number
        for test in (*there, *agrees):
            condition &= test
        kind = "both" if {"X", "Y"} <= set(some) else "before" if "X" in some else "after"
        sign = -1 if len(agrees) == 1 else 1
        total = F.coalesce(F.sum(F.when(condition, pairs_of("m"))), F.lit(0))
        totals[kind] = totals[kind] + total * F.lit(sign)
    return _difference(grouped, totals)


def _difference(frame: DataFrame, totals: dict[str, Expr]) -> DataFrame:
    added, removed = (totals[end] - totals["both"] for end in ("after", "before"))
    return frame.agg(added.cast("decimal(38,0)").alias("added"), removed.cast("decimal(38,0)").alias("removed"))


# --- inclusions -----------------------------------------------------------------------------------------------


def change_of_inclusion(
    number: int, rule: Inclusion, state: DataFrame, left: DataFrame | None, right: DataFrame | None, many: bool
) -> Change:
    """From (X, l, r): how many left and right rows have a value. `left` and `right`: the moves of both tables."""
    signed = []
    for moves, is_left in ((left, True), (right, False)):
        for prefix, there, n in (("old_", "existed", -1), ("new_", "remains", 1)):
            if moves is not None:
                members = moves.where(F.col(there) & rule.is_member(left=is_left, prefix=prefix))
                numbers = [
                    F.lit(n if is_left == own else 0).cast("bigint").alias(c) for c, own in (("l", True), ("r", False))
                ]
                signed.append(members.select(*rule.values(left=is_left, prefix=prefix), *numbers))
    change = summed(union(signed), rule.columns).where("l != 0 or r != 0")
    before = summed(touched(state, union(signed), rule.columns, many), rule.columns)
    both = before.select(*rule.columns, "l", "r", F.lit(0).cast("bigint").alias("dr"))
    coming = change.select(*rule.columns, *(F.lit(0).cast("bigint").alias(c) for c in "lr"), F.col("r").alias("dr"))
    values = both.unionByName(coming).groupBy(rule.columns)
    values = values.agg(*(F.sum(c).cast("bigint").alias(c) for c in ("l", "r", "dr")))
    missing = values.select(
        *rule.columns, "l", (F.col("r") == 0).alias("before"), (F.col("r") + F.col("dr") == 0).alias("after")
    )
    return Change(change, {number: _missing_rows(rule, missing, left)})


def _missing_rows(rule: Inclusion, missing: DataFrame, left: DataFrame | None) -> DataFrame:
    """One row: left rows that violate the inclusion now and did not, and the other way round."""
    stays = missing.select(*rule.columns, F.col("l").alias("m"), "before", "after")
    if left is not None:
        x, y = rule.columns, [f"y{i}" for i in range(len(rule.columns))]
        old, new = (rule.value(prefix, there) for prefix, there in (("old_", "existed"), ("new_", "remains")))
        moved = left.select(old.alias("old"), new.alias("new")).where("old is not null or new is not null")
        moved = moved.groupBy("old", "new").agg(F.count("*").alias("m"))
        at = missing.select(F.struct(*x).alias("at"), "before", "after")
        moved = moved.join(at.select(F.col("at").alias("old"), F.col("before").alias("was")), "old", "left")
        moved = moved.join(at.select(F.col("at").alias("new"), F.col("after").alias("is")), "new", "left")
        was, is_ = (F.coalesce(F.col(c), F.lit(False)) for c in ("was", "is"))
        leaving = moved.where("old is not null").select("old.*", (-F.col("m")).alias("m"))
        leaving = leaving.join(
            missing.select(*(F.col(a).alias(b) for a, b in zip(x, y, strict=True)), "before", "after"), same(x, y)
        )
        stays = stays.unionByName(leaving.select(*x, "m", "before", "after"))
        ends = moved.select("m", was.alias("before"), is_.alias("after"))
        stays = stays.select("m", "before", "after").unionByName(ends)
    before, after = F.col("before"), F.col("after")
    totals = {"before": _sum(before), "after": _sum(after), "both": _sum(before & after)}
    return _difference(stays, totals)


def _sum(condition: Expr) -> Expr:
    return F.coalesce(F.sum(F.when(condition, F.col("m"))), F.lit(0))


# --- rules about single rows ----------------------------------------------------------------------------------


def change_of_rows(item: CheckedRule, schema: Schema, moves: DataFrame) -> DataFrame:
    """One row: violations added and removed, of a rule about single rows."""
    tested = with_violates(item, schema, moves, ("old_", "new_"))
    was, is_ = F.col("existed") & F.col("old_violates"), F.col("remains") & F.col("new_violates")
    added, removed = F.count_if(is_ & ~was), F.count_if(was & ~is_)
    return tested.agg(added.cast("decimal(38,0)").alias("added"), removed.cast("decimal(38,0)").alias("removed"))
