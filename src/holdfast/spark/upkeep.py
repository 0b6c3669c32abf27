"""What the moves of a batch do to the violations of rules, from their states and the moves alone: O(touched groups).

An update keeps its row, and a pair (or row) that violates the rule before and after is neither added nor removed. Pairs
of two rows that stay are neither, so each pair that counts has a row that moves, from the group X with value A to the
group Y with value B. Its partners stay, or move too:

    stay        A row that leaves X loses its partners there: those that stay in X, without those with the value A. A
                row that stays in X and changes from A to B loses those with the value B, and gains those with A.
    move too    Violating pairs of moving rows before, after, and both: the last from the rows that move from X to Y.

All keys and dependencies are counted by one query, and so are all foreign keys, because a small query costs Spark far
more than the few rows in it. Its parts are (rule, added, removed), to be summed by rule; those of keys and
dependencies have their group X too. To be rows of one table,
values become texts: exactly, and equal texts are equal values. Expressions are SQL text here: each operation on a
column object is a message to the JVM, and there would be hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.spark.agreement import Agreement
from holdfast.spark.frames import same
from holdfast.spark.groups import SharedGroups
from holdfast.spark.inclusion import Inclusion
from holdfast.spark.listing import violates, with_violates
from holdfast.spark.state_files import union
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

_ENDS = (("old", "existed", -1), ("new", "remains", 1))  # of a move: prefix, whether there is a row, sign


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


def _inline(structs: Iterable[str]) -> str:
    return f"inline(array({', '.join(structs)}))"


# --- keys and functional dependencies -------------------------------------------------------------------------


def ends_of(groups: SharedGroups, moves: DataFrame) -> DataFrame:
    """The cells of each moved row before (old) and after (new), as structs; null where it is in no group."""
    ends = []
    for end, there, _ in _ENDS:
        is_member = F.col(there) & groups.left_side.is_member(f"{end}_")
        cells = F.expr(f"struct({', '.join(f'{end}_{c} as {c}' for c in groups.columns)})")
        ends.append(F.when(is_member, cells).alias(end))
    return moves.select(*ends)


def change_of_groups(ends: DataFrame) -> DataFrame:
    """What moves add to the groups (X, A, ..., n): signed, and not summed."""
    both = _inline(f"named_struct('end', {end}, 'n', cast({n} as bigint))" for end, _, n in _ENDS)
    return ends.selectExpr(both).where("end is not null").selectExpr("end.*", "n")


def partners(groups: SharedGroups, before: DataFrame, ends: DataFrame, many: bool) -> DataFrame:
    """(rule, X, A, stay, old, new, leave, enter, from, to): in each touched group, the rows that stay and, of those
    that move, who is there before and after, leaves, enters, and changes its value inside the group. Not summed.
    `before`: all groups before the batch, signed."""
    staying, moving = [], []
    for number, rule in groups.rules.items():
        here, (x, a), (y, b) = (_side(rule, end) for end in ("", "old.", "new."))
        staying.append(_partner(number, *here, stay="n"))
        inside, changes = f"{x} <=> {y}", f"not ({a} <=> {b} and {a} is not null)"
        moving.append(
            _partner(
                number,
                x,
                a,
                stay="-1",
                old="1",
                leave=f"if({inside}, 0, 1)",
                **{"from": f"if({inside} and {changes}, 1, 0)"},
            )
        )
        moving.append(
            _partner(number, y, b, new="1", enter=f"if({inside}, 0, 1)", to=f"if({inside} and {changes}, 1, 0)")
        )
    parts = [
        touched(before, change_of_groups(ends), list(groups.left_side.cells), many).selectExpr(_inline(staying)),
        ends.selectExpr(_inline(moving)),
    ]
    return union(parts).where("X is not null")


_NUMBERS = ("stay", "old", "new", "leave", "enter", "from", "to")


def _partner(number: int, x: str, a: str, **numbers: str) -> str:
    counts = ", ".join(f"'{name}', cast({numbers.get(name, '0')} as bigint)" for name in _NUMBERS)
    return f"named_struct('rule', {number}, 'X', {x}, 'A', {a}, {counts})"


def both_ends(groups: SharedGroups, ends: DataFrame) -> DataFrame:
    """(rule, X, A, Y, B) of each row that moves and that can violate the rule before and after."""
    told = []
    for number, rule in groups.rules.items():
        (x, a), (y, b) = _side(rule, "old."), _side(rule, "new.")
        told.append(f"named_struct('rule', {number}, 'X', {x}, 'A', {a}, 'Y', {y}, 'B', {b})")
    return ends.selectExpr(_inline(told)).where("X is not null and Y is not null")


def _side(rule: Agreement, end: str) -> tuple[str, str]:
    """X and A of a row as texts. X is null if there is no row that can violate the rule; A is null if it agrees with
    nothing: of a key, and of a null under `distinct`."""
    schema = rule.left_side.schema
    x = f"array({', '.join(_as_text(schema, cell, end) for cell in rule.x) or chr(39) * 2})"
    there = [f"{end[:-1]} is not null"] if end else []
    a = "cast(null as string)"
    if rule.right is not None:
        a = _as_text(schema, rule.right, end)
        there += [f"{end}{rule.right} is not null"] if rule.nulls is Nulls.SQL else []
        a = f"coalesce(concat('=', {a}), 'null')" if rule.nulls is Nulls.EQUAL else a
    return (f"case when {' and '.join(there)} then {x} end" if there else x), a


def _as_text(schema: Schema, cell: str, end: str) -> str:
    """A cell as a text, such that only equal values have equal texts."""
    is_timestamp = schema.columns[int(cell[1:])].kind is Kind.TIMESTAMP  # whose text depends on the session's zone
    return f"cast({f'unix_micros({end}{cell})' if is_timestamp else end + cell} as string)"


def count_pairs(partners: DataFrame, ends: DataFrame) -> DataFrame:
    """(rule, X, added, removed) of the touched groups of keys and dependencies, not summed, from the partners and ends
    of all of them. Each is shuffled once. An A that is null agrees with nothing."""
    by_value = partners.repartition("rule", "X").groupBy("rule", "X", "A").agg(*(F.sum(n).alias(n) for n in _NUMBERS))
    numbers = {
        "lost": (_times("leave", "stay"), f"{_times('leave', 'stay')} - {_times('to', 'stay')}"),
        "gained": (_times("enter", "stay"), f"{_times('enter', 'stay')} - {_times('from', 'stay')}"),
        "before": (_pairs("old"), _pairs("old")),
        "after": (_pairs("new"), _pairs("new")),
    }  # all pairs of a group, and those of a value, which agree
    agreeing = [F.expr(f"sum(case when A is not null then {few} end) as {name}") for name, (_, few) in numbers.items()]
    by_group = by_value.groupBy("rule", "X").agg(*(F.sum(n).alias(n) for n in _NUMBERS), *agreeing)
    lost, gained, before, after = (f"({all_} - coalesce({name}, 0))" for name, (all_, _) in numbers.items())
    told = by_group.selectExpr("rule", "X", *_told(f"2 * {gained} + {after}", f"2 * {lost} + {before}"))
    return told.unionByName(_kept(ends))


def _told(added: str, removed: str) -> list[str]:
    return [f"cast({added} as decimal(38,0)) as added", f"cast({removed} as decimal(38,0)) as removed"]


def _kept(ends: DataFrame) -> DataFrame:
    """(rule, X, added, removed), negative: the pairs of moving rows that disagree before, in X, and after, in Y."""
    counted = ends.repartition("rule", "X", "Y").groupBy("rule", "X", "Y", "A", "B").agg(F.count("*").alias("m"))

    def others(*columns: str) -> str:
        return f"sum(m) over (partition by {', '.join(('rule', 'X', 'Y', *columns))}) - 1"

    several = counted.selectExpr("*", f"{others()} as others").where("others > 0")
    known = several.selectExpr("*", f"{others('A')} as agreed", f"{others('B')} as agree")
    pairs = "others - if(A is null, 0, agreed) - if(B is null, 0, agree) + if(A is null or B is null, 0, m - 1)"
    both = f"cast(-{_decimal('m')} * {_decimal(f'({pairs})')} as decimal(38,0))"
    zero = "cast(0 as decimal(38,0))"
    ends_of_pairs = (("X", zero, both), ("Y", both, zero))
    return known.selectExpr(
        _inline(
            f"named_struct('rule', rule, 'X', {x}, 'added', {added}, 'removed', {removed})"
            for x, added, removed in ends_of_pairs
        )
    )


def _decimal(number: str) -> str:
    return f"cast({number} as decimal(19,0))"


def _times(one: str, other: str) -> str:
    return f"{_decimal(f'`{one}`')} * {_decimal(f'`{other}`')}"


def _pairs(number: str) -> str:
    return f"{_decimal(number)} * {_decimal(f'({number} - 1)')}"


# --- inclusions -----------------------------------------------------------------------------------------------


def change_of_values(rule: Inclusion, left: DataFrame | None, right: DataFrame | None) -> DataFrame:
    """What the moves of both tables add to (X, l, r): signed, and not summed."""
    return _value_ends(rule, left, right).selectExpr(*rule.columns, "dl as l", "dr as r")


def _value_ends(rule: Inclusion, left: DataFrame | None, right: DataFrame | None) -> DataFrame:
    """(X, dl, dr, move, old): the values that moves take away (old) and bring. `move` numbers those of the left
    table."""
    parts = []
    for moves, is_left in ((left, True), (right, False)):
        if moves is not None:
            number = F.monotonically_increasing_id() if is_left else F.lit(None).cast("bigint")
            ends = [_value_end(rule, *end, is_left).alias(end[0]) for end in _ENDS]
            both = moves.select(number.alias("move"), *ends).selectExpr("move", "explode(array(old, new)) as end")
            parts.append(both.where("end is not null").select("end.*", "move"))
    return union(parts)


def _value_end(rule: Inclusion, end: str, there: str, n: int, is_left: bool) -> Expr:
    """The value of a moved row at one end, with its sign; null if there is none."""
    values = rule.values(left=is_left, prefix=f"{end}_")
    dl, dr = (
        F.lit(n if is_left is left else 0).cast("bigint").alias(f"d{'l' if left else 'r'}") for left in (True, False)
    )
    is_member = F.col(there) & rule.is_member(left=is_left, prefix=f"{end}_")
    return F.when(is_member, F.struct(*values, dl, dr, F.lit(n < 0).alias("old")))


def value_changes(
    number: int, rule: Inclusion, before: DataFrame, left: DataFrame | None, right: DataFrame | None, many: bool
) -> DataFrame:
    """(rule, X, l, r, dl, dr, move, old): the touched values as they were, and their changes. `before`: (X, l, r)."""
    moved = _value_ends(rule, left, right)
    nothing = ("cast(0 as bigint) as dl", "cast(0 as bigint) as dr", "cast(null as bigint) as move", "false as old")
    mine = (f"{number} as rule", f"array({', '.join(rule.texts)}) as X")
    zero = ("cast(0 as bigint) as l", "cast(0 as bigint) as r")
    known = touched(before, moved, rule.columns, many).selectExpr(*mine, "l", "r", *nothing)
    return known.unionByName(moved.selectExpr(*mine, *zero, "dl", "dr", "move", "old"))


def count_values(every: DataFrame) -> DataFrame:
    """(rule, added, removed): left rows that violate an inclusion now and did not, and the other way round.

    Each value learns whether it was and is missing on the right. Rows that stay are counted by value: those before the
    batch, without those that move. A row that moves was missing if its old value was, and is if its new one is.
    """
    window = "over (partition by rule, X)"
    known = every.selectExpr(
        "*", f"sum(r) {window} = 0 as was_missing", f"sum(r) {window} + sum(dr) {window} = 0 as is_missing"
    )
    stays = (
        "rule",
        "cast(null as bigint) as move",
        "was_missing as before",
        "is_missing as after",
        "case when move is not null and old then -1 else l end as m",
    )
    moves = (
        "rule",
        "move",
        "old and was_missing as before",
        "not old and is_missing as after",
        "cast(case when move is null then 0 else 1 end as bigint) as m",
    )
    told = known.selectExpr(_inline(f"struct({', '.join(columns)})" for columns in (stays, moves))).where("m != 0")
    rows = told.groupBy(
        "rule",
        "move",
        F.expr("case when move is null then before end"),
        F.expr("case when move is null then after end"),
    )
    ended = rows.agg(
        F.expr("case when move is null then sum(m) else 1 end").alias("m"),
        F.max("before").alias("was"),
        F.max("after").alias("is"),
    )
    return ended.selectExpr("rule", *_told("if(is and not was, m, 0)", "if(was and not is, m, 0)"))


# --- rules about single rows ----------------------------------------------------------------------------------


def count_rows(items: Mapping[int, CheckedRule], schema: Schema, moves: DataFrame) -> Iterable[DataFrame]:
    """(rule, added, removed) of each moved row and rule about single rows: one scan for all that Spark can test."""
    tests = {
        f"{end}_{number}": violates(item, schema, f"{end}_") for number, item in items.items() for end, _, _ in _ENDS
    }
    exact = [number for number in items if tests[f"old_{number}"] is not None]
    if exact:
        tested = moves.select("existed", "remains", *(t.alias(name) for name, t in tests.items() if t is not None))
        yield tested.selectExpr(_inline(_row_told(n, f"old_{n}", f"new_{n}") for n in exact))
    for number in items.keys() - {*exact}:
        tested = with_violates(items[number], schema, moves, ("old_", "new_"))
        yield tested.selectExpr(_inline([_row_told(number, "old_violates", "new_violates")]))


def _row_told(number: int, old: str, new: str) -> str:
    """Whether a moved row violates a rule after the move and not before, and the other way round."""
    was, is_ = f"(existed and {old})", f"(remains and {new})"
    added, removed = (f"cast(int({one} and not {other}) as decimal(38,0))" for one, other in ((is_, was), (was, is_)))
    return f"named_struct('rule', {number}, 'added', {added}, 'removed', {removed})"
