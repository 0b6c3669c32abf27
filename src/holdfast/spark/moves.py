"""The net effect of a batch on a table: its moves, each row as it was before and as it is after.

A move has the row's identity (key cells, or `id`), `existed` and `remains`, the cells before (old_c0, ...) and after
(new_c0, ...), `v`, since when the row was as before, and `moved`, the version of the batch. Contradictions are found as
in the process (table/net.py): with a key, the signs of a key's events must alternate, and its first and last event
decide; without one, equal inserts and deletes cancel, and the other deletes take the youngest equal rows. There an
update is a delete and an insert. `bad` and `drift` mark the moves whose events contradict the rows, or each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.errors import ChangeRefused, shown
from holdfast.spark.events import Events
from holdfast.spark.frames import cells, same
from holdfast.spark.listing import ID
from holdfast.spark.rows import SparkRows
from holdfast.table.effect import Bad, Drift

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, Row

NO_KEY, REPEATS, EXISTS, ABSENT = range(1, 5)
_REASONS = {
    NO_KEY: "has no key: a key column is null",
    EXISTS: "inserts the key {}, which is already there",
    ABSENT: "deletes a row that is not there: {}",
}
_MOST_DRIFT = 1000  # cells that are listed
_MOST_BAD = 100_000  # rows that are quarantined


class MovesSummary(NamedTuple):
    """How many rows a batch inserted, deleted and updated; whether events are bad or drift; the last id it gave."""

    inserted: int
    deleted: int
    updated: int
    bad: int
    drift: int
    last: int | None

    @property
    def rows(self) -> dict[str, int]:
        return {"inserted": self.inserted, "deleted": self.deleted, "updated": self.updated}


@dataclass(frozen=True)
class Net:
    """Works out the net effect of events on the rows of a table."""

    rows: SparkRows

    @property
    def _cells(self) -> list[str]:
        return cells(self.rows.options.schema)

    def settled(self, events: DataFrame, many: bool) -> DataFrame:
        """The events with the stored row of their key and their `reason`, if they are bad; without a key, the net
        number of each value, with the stored rows that it takes. Small: O(events)."""
        return self._settled_by_key(events, many) if self.rows.options.key else self._settled_by_value(events, many)

    def moves(self, settled: DataFrame, first_id: int, version: int) -> DataFrame:
        """The moves, from settled events. They count if none is bad."""
        made = self._moves_by_key(settled) if self.rows.options.key else self._moves_by_value(settled, first_id)
        return made.select("*", F.lit(version).cast("bigint").alias("moved"))

    def summary(self, moves: DataFrame) -> MovesSummary:
        """What the moves are, in numbers."""
        last = "cast(null as bigint)" if self.rows.options.key else f"max(case when not existed then {ID} end)"
        numbers = {
            "inserted": "count_if(not existed and remains)",
            "deleted": "count_if(existed and not remains)",
            "updated": f"count_if(existed and remains and {self._changes()})",
            "bad": "count_if(bad)",
            "drift": "count_if(drift)",
            "last": last,
        }
        (row,) = moves.selectExpr(*(f"{number} as {name}" for name, number in numbers.items())).collect()
        return MovesSummary(**row.asDict())

    def _changes(self) -> str:
        """Whether a row is not after the move as it was before."""
        return f"not ({' and '.join(f'old_{c} <=> new_{c}' for c in self._cells)})"

    # --- with a key -----------------------------------------------------------------------------------------

    def _settled_by_key(self, events: DataFrame, many: bool) -> DataFrame:
        """The stored row of a key comes before its events, so that one shuffle brings all of them together."""
        key = self.rows.identity
        image = f"struct(v, {', '.join(f'{c} as old_{c}' for c in self._cells)}) as image"
        stored = self.rows.that_meet(events, key, many).selectExpr(*key, image)
        both = events.unionByName(stored, allowMissingColumns=True)
        window = f"over (partition by {', '.join(key)} order by seq nulls first)"
        ordered = both.selectExpr(
            "*",
            f"lag(sign) {window} as sign_before",
            f"lead(sign) {window} is null as is_last",
            f"first_value(image) {window} as stored",
        )
        found = ordered.where("seq is not null").select(*events.columns, "sign_before", "is_last", "stored.*")
        return found.selectExpr(
            "*",
            "sign_before is null as is_first",
            f"case when {' or '.join(f'{k} is null' for k in key)} then {NO_KEY}"
            f" when sign_before = sign and not upsert then {REPEATS}"
            f" when sign_before is null and v is not null and sign > 0 and not upsert then {EXISTS}"
            f" when sign_before is null and v is null and sign < 0 then {ABSENT} end as reason",
        )

    def _moves_by_key(self, settled: DataFrame) -> DataFrame:
        key = self.rows.identity
        old = ", ".join(f"old_{c}" for c in self._cells)
        new = ", ".join(f"{c} as new_{c}" for c in self._cells)
        by_key = settled.groupBy(key).agg(
            F.expr(f"max(case when is_first and v is not null then struct(v, {old}) end) as old"),
            F.expr(f"max(case when is_last and sign > 0 then struct({new}) end) as new"),
            F.expr("max(reason) is not null as bad"),
            F.max(self._drifts()).alias("drift"),
        )
        moves = by_key.selectExpr(
            *key, "old is not null as existed", "new is not null as remains", "old.*", "new.*", "bad", "drift"
        )
        changes = f"existed and remains and {self._changes()}"
        return moves.where(f"existed != remains or ({changes}) or bad or drift")

    # --- without a key --------------------------------------------------------------------------------------

    def _settled_by_value(self, events: DataFrame, many: bool) -> DataFrame:
        by_value = events.groupBy(self._cells).agg(
            F.sum("sign").cast("bigint").alias("net"), F.min(F.when(F.col("sign") < 0, F.col("seq"))).alias("seq")
        )
        stored = self.rows.that_meet(events.where("sign < 0"), self._cells, many)
        window = Window.partitionBy(self._cells).orderBy(F.col(ID).desc())
        names = [f"have_{c}" for c in self._cells]
        stored = stored.select(*self._cells, ID, "v", F.row_number().over(window).alias("place"))
        stored = stored.select(*(F.col(c).alias(n) for c, n in zip(self._cells, names, strict=True)), ID, "v", "place")
        taken = same(self._cells, names) & (F.col("place") <= -F.col("net"))
        found = by_value.join(stored, taken, "left").drop(*names)
        have = F.count(ID).over(Window.partitionBy(self._cells))
        return found.select("*", F.when(have < -F.col("net"), ABSENT).alias("reason"))

    def _moves_by_value(self, settled: DataFrame, first_id: int) -> DataFrame:
        nothing = [F.lit(None).cast(settled.schema[c].dataType) for c in self._cells]
        gone = settled.where("net < 0").select(
            ID, F.lit(True).alias("existed"), F.lit(False).alias("remains"), "v",
            *(F.col(c).alias(f"old_{c}") for c in self._cells),
            *(none.alias(f"new_{c}") for none, c in zip(nothing, self._cells, strict=True)),
            F.col("reason").isNotNull().alias("bad"), F.lit(False).alias("drift"),
        )  # fmt: skip
        times = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col("net")))
        came = settled.where("net > 0").select(*self._cells, times.alias("time"))
        came = came.select(
            (F.lit(first_id) + F.monotonically_increasing_id()).alias(ID), F.lit(False).alias("existed"),
            F.lit(True).alias("remains"), F.lit(None).cast("bigint").alias("v"),
            *(none.alias(f"old_{c}") for none, c in zip(nothing, self._cells, strict=True)),
            *(F.col(c).alias(f"new_{c}") for c in self._cells),
            F.lit(False).alias("bad"), F.lit(False).alias("drift"),
        )  # fmt: skip
        return gone.unionByName(came)

    # --- contradictions -------------------------------------------------------------------------------------

    def _drifts(self) -> Expr:
        """Whether an event's row before differs from the stored row."""
        given = F.col("is_first") & (F.col("sign") < 0) & F.col("full") & F.col("v").isNotNull()
        return given & ~same(self._cells, [f"old_{c}" for c in self._cells])

    def refuse(self, settled: DataFrame) -> None:
        """Raises an error that names the first bad row, if there is one."""
        bad = settled.where("reason is not null")
        first = bad.orderBy("seq").limit(1).collect()
        if first:
            count = bad.count()
            more = f" (and {count - 1} more such rows)" if count > 1 else ""
            text = f"table {shown(self.rows.name)}: {self._reason(first[0])}{more}"
            raise ChangeRefused(f"{text}; the batch was refused as a whole")

    def bad_rows(self, events: Events, given: DataFrame, settled: DataFrame) -> list[Bad]:
        """The bad rows, and the other halves of their updates, for the quarantine."""
        bad = settled.where("reason is not null").selectExpr("seq as bad_seq", "reason")
        chosen = given.join(F.broadcast(bad), F.expr("seq.part = bad_seq.part and seq.unit = bad_seq.unit"))
        rows = chosen.orderBy("seq").limit(_MOST_BAD + 1).collect()
        if len(rows) > _MOST_BAD:
            raise ChangeRefused(
                f"more than {_MOST_BAD:,} rows contradict table {shown(self.rows.name)}; nothing changed"
            )
        own = {row["seq"]: row for row in rows if row["seq"] == row["bad_seq"]}
        made: dict[Row, Bad] = {}
        for row in rows:
            if row["seq"] in own or row["bad_seq"] in own:
                made.setdefault(row["seq"], self._bad(events, row, own.get(row["seq"]), own.get(row["bad_seq"])))
        return list(made.values())

    def _bad(self, events: Events, row: Row, own: Row | None, other: Row | None) -> Bad:
        schema, of = self.rows.options.schema, own or other
        assert of is not None
        values = {name: row[f"c{i}"] for i, name in enumerate(schema.names)}
        plain = _REASONS.get(of["reason"], "repeats a change").format("(...)")
        prefix = "" if own is not None else "its other half: "
        change = "delete" if row["sign"] < 0 else "insert"
        place = events.place(row["seq"]["part"], row["seq"]["uid"])
        return Bad(self.rows.name, place, change, values, prefix + self._reason(of), prefix + plain)

    def _sign(self, row: Row) -> int:
        return int(row["sign"]) if "sign" in row else -1

    def _reason(self, row: Row) -> str:
        schema, options = self.rows.options.schema, self.rows.options
        shown_columns = list(options.key or schema.names)[:8]
        text = ", ".join(f"{name} = {shown(row[f'c{schema.position(name)}'])}" for name in shown_columns)
        if row["reason"] == REPEATS:
            return f"{'inserts' if self._sign(row) > 0 else 'deletes'} the key {text} a second time"
        return _REASONS[row["reason"]].format(text)

    def drift(self, settled: DataFrame) -> list[Drift]:
        """The cells in which a row before an update or delete differs from the stored row."""
        schema, drift = self.rows.options.schema, []
        for row in settled.where(self._drifts()).orderBy("seq").limit(_MOST_DRIFT).collect():
            name = ", ".join(f"{k} = {shown(row[f'c{schema.position(k)}'])}" for k in self.rows.options.key)
            for i, column in enumerate(schema.names):
                if row[f"c{i}"] != row[f"old_c{i}"]:
                    drift.append(Drift(self.rows.name, name, column, row[f"c{i}"], row[f"old_c{i}"]))
        return drift


def good_events(events: DataFrame, settled: DataFrame) -> DataFrame:
    """The events without the bad ones, and without the other halves of their updates. Without a key, one delete of each
    value that is not there often enough is bad: this is repeated until none is."""
    bad = settled.where("reason is not null").selectExpr("seq as bad_seq")
    same_unit = F.expr("seq.part = bad_seq.part and seq.unit = bad_seq.unit")
    return events.join(F.broadcast(bad), same_unit, "left_anti")
