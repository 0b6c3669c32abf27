"""`check_on_spark` on the driver: it lays out tiles, starts jobs and adds up the results."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdfast.arrays import table_from_buffer
from holdfast.errors import NotAvailable, RuleError
from holdfast.executors.spark import parallelism
from holdfast.indexes.partitioned import quantiles
from holdfast.indexes.plan import compile_rule, group_rules
from holdfast.pipeline.whole import tiles as layout
from holdfast.pipeline.whole.answer import ANSWER, inclusion_task, single_task, tile_task
from holdfast.pipeline.whole.parts import Places, Table, name_type, write_parts
from holdfast.pipeline.whole.send import (
    IndJob,
    PairJob,
    bounds_task,
    histogram_task,
    inclusion_schema,
    pair_slots,
    row_schema,
    sample_task,
    send_inclusion_task,
    send_task,
)
from holdfast.pipeline.whole.tiles import BLOCKS, SLOTS, BlockTiles, HashTiles, S, T, may_violate
from holdfast.rules.bind import Schemas, require_fits, require_policy, table_of
from holdfast.rules.rule import Ind, Rule, as_dc
from holdfast.rules.rulefile import RuleEntry, as_entry, entries_of
from holdfast.table.options import Names
from holdfast.table.schema import Schema, column_of_arrow
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import RuleNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class SparkFound:
    """The result of a check on Spark, with the interface of `Found`. Violations are listed on demand."""

    entries: tuple[RuleEntry, ...]
    tables: dict[str, Table]
    spark: SparkSession
    home: Path
    names: RuleNames
    _counts: dict[int, int] = field(default_factory=dict)

    def count(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs, or of violating rows for one-row rules and inclusions."""
        return self._counts[self.names.find(rule).number]

    def error(self, rule: str | Rule) -> float:
        """The error g1: violating pairs / n(n-1), or violating rows / n for one-row rules and inclusions."""
        checked = self.names.checked[self.names.find(rule).number]
        return checked.error(self.count(rule), self.tables[table_of(checked.rule, self.schemas)].rows)

    @property
    def schemas(self) -> Schemas:
        return {name: table.schema for name, table in self.tables.items()}

    def pairs(self, rule: str | Rule, limit: int | None = None) -> pa.Table:
        """The violating pairs (t, s) by key or row id, sorted by t, then s; only t for one-row rules and inclusions."""
        asked = self.names.find(rule)
        if asked.mirrored:
            raise RuleError(f"`{rule}` is checked as `{self.names.checked[asked.number].rule}`; use this text")
        return _Run(self).listed(asked.number, limit)

    def explain(self, rule: str | Rule, limit: int = 10) -> None:
        """Not available on Spark yet."""
        raise NotAvailable(
            f"`{rule}`: this version has no explanations of tables on Spark; check a part of the table in the process"
        )

    def __bool__(self) -> bool:
        """Whether there is any violation."""
        return any(self._counts.values())

    def __repr__(self) -> str:
        lines = [f"{self.count(entry.id):>12,}  {entry.rule}" for entry in self.entries]
        return "\n".join(["  violations  rule", *lines])

    def close(self) -> None:
        """Removes the files of this check."""
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> SparkFound:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_on_spark(
    data: DataFrame | Mapping[str, DataFrame],
    rules: Any,
    *,
    nulls: str = "sql",
    key: Names | Mapping[str, Names] | None = None,
    spark: SparkSession,
    directory: str | Path,
) -> SparkFound:
    """Checks rules on Spark DataFrames of any size.

    `directory` must be shared by the driver and all workers. Closing the result removes what was written there.
    """
    entries = tuple(as_entry(rule, require_policy(nulls)) for rule in entries_of(rules))
    frames = dict(data) if isinstance(data, Mapping) else {"data": data}
    Path(directory).mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="holdfast-check-", dir=directory))  # only this user can read it
    checked = [CheckedRule(entry.value, entry.nulls, entry.predicates) for entry in entries]
    names = RuleNames(checked, [entry.id for entry in entries], frames)
    found = SparkFound(entries, {}, spark, home, names)
    try:
        schemas = {name: _schema_of(frame) for name, frame in frames.items()}
        for entry in entries:
            require_fits(entry.value, schemas)
        for name, frame in frames.items():
            chosen = key.get(name, ()) if isinstance(key, Mapping) else key or ()
            keys = (chosen,) if isinstance(chosen, str) else tuple(chosen)
            found.tables[name] = write_parts(frame, name, _needed(schemas, name, checked, keys), keys, home)
        found._counts.update(_Run(found).counts())
    except BaseException:
        found.close()
        raise
    return found


def _schema_of(frame: DataFrame) -> Schema:
    return Schema(tuple(column_of_arrow(f) for f in frame.limit(0).toArrow().schema))


def _needed(schemas: Schemas, name: str, checked: Sequence[CheckedRule], key: tuple[str, ...]) -> Schema:
    """The schema of the columns that the rules, their filters and the key need."""
    names = set(key)
    for item in checked:
        if isinstance(item.rule, Ind):
            names |= set(item.rule.left) if item.rule.left_table == name else set()
            names |= set(item.rule.right) if item.rule.right_table == name else set()
        elif table_of(item.rule, schemas) == name:
            names |= {cell.column for p in as_dc(item.rule).written for cell in p.cells}
        if table_of(item.rule, schemas) == name:
            names |= {cell.column for p in item.where for cell in p.cells}
    return Schema(tuple(c for c in schemas[name].columns if c.name in names) or schemas[name].columns[:1])


class _Run:
    """The Spark jobs of a check."""

    def __init__(self, found: SparkFound) -> None:
        self._found, self._spark, self._tables = found, found.spark, found.tables
        self._cores = parallelism(found.spark)

    def counts(self) -> dict[int, int]:
        made: dict[int, int] = {}
        for job in self._pair_jobs():
            tiles = self._tiles(job)
            made |= dict.fromkeys(job.numbers, 0)
            for row in self._tiled(job, tiles, None, None):
                made[job.numbers[row["rule"]]] += row["count"]
        for number, item in enumerate(self._found.names.checked):
            if isinstance(item.rule, Ind):
                made[number] = sum(row["count"] for row in self._inclusion(number, item, None))
            elif item.is_single:
                made[number] = sum(row["count"] for row in self._single(number, item, None))
        return made

    def listed(self, number: int, limit: int | None) -> pa.Table:
        """The first violations of one rule, sorted by t, then s. Each tile lists its first ones."""
        item = self._found.names.checked[number]
        most = np.iinfo(np.int64).max if limit is None else limit
        if isinstance(item.rule, Ind):
            parts = self._inclusion(number, item, most)
        elif item.is_single:
            parts = self._single(number, item, most)
        else:
            job = next(job for job in self._pair_jobs() if number in job.numbers)
            parts = self._tiled(job, self._tiles(job), job.numbers.index(number), most)
        tables = [table_from_buffer(part["pairs"]) for part in parts if part["pairs"]]
        names = ["t"] if item.is_single else ["t", "s"]
        table = self._tables[table_of(item.rule, self._found.schemas)]
        if not tables:
            return pa.table({name: pa.array([], name_type(table)) for name in names})
        both = pa.concat_tables(tables).sort_by([(f"{name}_id", "ascending") for name in names])
        return both.select(names).slice(0, limit).combine_chunks()

    def _pair_jobs(self) -> list[PairJob]:
        jobs = []
        for name, table in self._tables.items():
            compiled = {
                number: compile_rule(item.rule, table.schema, item.nulls, item.where)
                for number, item in enumerate(self._found.names.checked)
                if not item.is_single and table_of(item.rule, self._found.schemas) == name
            }
            places = {id(rule): number for number, rule in compiled.items()}
            for group in group_rules(compiled.values(), table.schema):
                jobs.append(PairJob(table, group, tuple(places[id(rule)] for rule in group.rules)))
        return jobs

    # --- pair rules -----------------------------------------------------------------------------------------

    def _tiles(self, job: PairJob) -> HashTiles | BlockTiles:
        if job.group.s.key:
            return HashTiles.of(self._histogram(functools.partial(pair_slots, job), len(job.table.files)), self._cores)
        return self._blocks(job)

    def _histogram(self, slots: Callable[[int], Iterator[Places]], parts: int) -> Places:
        told = self._on_parts(parts, functools.partial(histogram_task, slots), "slot long, rows long").toArrow()
        rows = np.zeros(SLOTS, np.int64)
        np.add.at(rows, told.column("slot").to_numpy(), told.column("rows").to_numpy())
        return rows

    def _blocks(self, job: PairJob) -> BlockTiles:
        """Blocks of equal size by the first dimension, and the pairs of blocks that may contain violations."""
        if not job.group.s.dims:
            none = np.zeros(0, np.int64)
            return BlockTiles((none, none), np.zeros((1, 1), np.int64))
        parts = len(job.table.files)
        sample = self._on_parts(parts, functools.partial(sample_task, job), "role int, value long").toArrow()
        count = max(1, min(BLOCKS, max(self._cores, -(-job.table.rows // (layout.ROWS_PER_TILE // 4)))))
        role, value = sample.column("role").to_numpy(), sample.column("value").to_numpy()
        edges = quantiles(value[role == T], count), quantiles(value[role == S], count)
        schema = "role int, block long, dim int, least long, most long, nulls boolean"
        bounds = self._on_parts(parts, functools.partial(bounds_task, job, edges), schema).toArrow().to_pandas()
        wanted, number = np.full((len(edges[0]) + 1, len(edges[1]) + 1), -1), 0
        for (t, t_rows), (s, s_rows) in (
            (a, b) for a in bounds[bounds.role == T].groupby("block") for b in bounds[bounds.role == S].groupby("block")
        ):
            if may_violate(job.group, t_rows, s_rows):
                wanted[t, s], number = number, number + 1
        return BlockTiles(edges, wanted)

    def _on_parts(self, parts: int, task: Callable[..., Any], schema: str) -> DataFrame:
        """Runs a task for each part; the task receives the part's number."""
        return self._spark.range(0, parts, 1, max(parts, 1)).mapInArrow(task, schema)

    def _tiled(
        self, job: PairJob, tiles: HashTiles | BlockTiles, rule: int | None, limit: int | None
    ) -> list[dict[str, Any]]:
        """Sends the rows to their tiles and collects the answers of all tiles."""
        if not tiles.count:
            return []
        columns = job.columns(listing=limit is not None)
        task = functools.partial(send_task, job, tiles, columns)
        sent = self._on_parts(len(job.table.files), task, row_schema(job.table, columns))
        gathered = sent.repartition(min(tiles.count, 64 * self._cores), "tile")
        task = functools.partial(tile_task, job, rule, limit)
        found: list[dict[str, Any]] = gathered.mapInArrow(task, ANSWER).toArrow().to_pylist()
        return found

    # --- one-row rules and inclusions -----------------------------------------------------------------------

    def _single(self, number: int, item: CheckedRule, limit: int | None) -> list[dict[str, Any]]:
        table = self._tables[table_of(item.rule, self._found.schemas)]
        task = functools.partial(single_task, table, item, limit)
        found: list[dict[str, Any]] = self._on_parts(len(table.files), task, ANSWER).toArrow().to_pylist()
        return found

    def _inclusion(self, number: int, item: CheckedRule, limit: int | None) -> list[dict[str, Any]]:
        assert isinstance(item.rule, Ind)
        left, right = self._tables[item.rule.left_table], self._tables[item.rule.right_table]
        job = IndJob(item.rule, item, {"left": left, "right": right}, number)
        parts = len(left.files) + len(right.files)
        tiles = max(1, 4 * self._cores)
        sent = self._on_parts(parts, functools.partial(send_inclusion_task, job, tiles), inclusion_schema(job))
        task = functools.partial(inclusion_task, job, limit)
        found: list[dict[str, Any]] = sent.repartition(tiles, "tile").mapInArrow(task, ANSWER).toArrow().to_pylist()
        return found
