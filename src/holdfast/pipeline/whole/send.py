"""Tasks that send the rows of a part to their tiles, and tasks that collect statistics for the layout of tiles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from holdfast.indexes.index import members
from holdfast.indexes.partitioned import hashes
from holdfast.indexes.plan import Group, Operand
from holdfast.pipeline.whole.parts import Places, Table, codes_of, one_array, read_part
from holdfast.pipeline.whole.tiles import SLOTS, BlockTiles, HashTiles, S, T
from holdfast.rules.rule import Ind
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.kind import Kind
from holdfast.violations.detect import CheckedRule
from holdfast.violations.inclusion_index import InclusionIndex

_SAMPLE = 2000  # values sampled from each file to choose blocks


@dataclass(frozen=True)
class SentSide:
    """Rows of one table in one role: the operands of their key, and a test of which rows qualify."""

    table: Table
    role: int
    operands: tuple[Operand, ...]
    members: Callable[[Codes, TextDictionary], npt.NDArray[np.bool_]]


def slots_of(side: SentSide, codes: Codes, rows: pa.Table, forms: Callable[[Codes], Codes]) -> Places:
    """The hash range of each row's key. Texts are hashed as text, because their codes differ between tasks."""
    parts = []
    derived = forms(codes)
    for place, operand in enumerate(side.operands):
        column = side.table.schema.columns[operand.column]
        if column.kind is Kind.TEXT:
            texts = rows.column(column.name).to_pandas().to_numpy(dtype=object)
            hashed = pd.util.hash_array(np.where(pd.isna(texts), "", texts), categorize=True)
            parts.append(np.where(codes[operand.column] == NULL, np.uint64(0), hashed).view(np.int64))
        else:
            parts.append(derived[place])
    return (hashes(np.array(parts, np.int64).reshape(len(parts), codes.shape[1])) % np.uint64(SLOTS)).astype(np.int64)


@dataclass(frozen=True)
class PairJob:
    """A group of pair rules of one table."""

    table: Table
    group: Group
    numbers: tuple[int, ...]

    def columns(self, *, listing: bool) -> list[int]:
        """The columns that tiles need: those of the rules and, if violations are listed, those of the key."""
        key = self.table.schema.positions(self.table.key) if listing else []
        return sorted({*self.group.columns, *key})


@dataclass(frozen=True)
class IndJob:
    """An inclusion dependency: left rows are t, right rows are s."""

    rule: Ind
    checked: CheckedRule
    tables: dict[str, Table]
    number: int


def numbers_in(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The part numbers that a task receives."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _pair_rows(job: PairJob, number: int) -> Iterator[tuple[Places, pa.Table, Codes, TextDictionary]]:
    for ids, rows in read_part(job.table, number):
        dictionary = TextDictionary()
        yield ids, rows, codes_of(job.table.schema, rows, dictionary), dictionary


def _role_sides(job: PairJob) -> list[SentSide]:
    group, table = job.group, job.table
    return [
        SentSide(table, role, side.key, functools.partial(members, group, side))
        for role, side in ((T, group.t), (S, group.s))
    ]


def _side_slots(job: PairJob, side: SentSide, codes: Codes, rows: pa.Table) -> Places:
    group = job.group
    return slots_of(side, codes, rows, lambda given: group.codes(given)[group.positions(side.operands)])


def pair_slots(job: PairJob, number: int) -> Iterator[Places]:
    """The hash ranges of the rows of a part, in both roles."""
    for _, rows, codes, dictionary in _pair_rows(job, number):
        for side in _role_sides(job)[: 1 if job.group.shared else 2]:
            yield _side_slots(job, side, codes, rows)[side.members(codes, dictionary)]


def histogram_task(
    slots: Callable[[int], Iterator[Places]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Counts the rows of each hash range."""
    for number in numbers_in(batches):
        rows = np.zeros(SLOTS, np.int64)
        for some in slots(number):
            rows += np.bincount(some, minlength=SLOTS)
        used = np.flatnonzero(rows)
        yield pa.record_batch({"slot": pa.array(used), "rows": pa.array(rows[used])})


def _dims(job: PairJob, role: int, codes: Codes) -> Codes:
    side = job.group.t if role == T else job.group.s
    return job.group.codes(codes)[job.group.positions(side.dims)]


def sample_task(job: PairJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Samples values of the first dimension, in both roles."""
    for number in numbers_in(batches):
        for _, rows, codes, _ in _pair_rows(job, number):
            chosen = codes[:, np.linspace(0, rows.num_rows - 1, min(rows.num_rows, _SAMPLE)).astype(int)]
            for role in (T, S):
                values = _dims(job, role, chosen)[0]
                roles = pa.array(np.full(len(values), role, np.int32))
                yield pa.record_batch({"role": roles, "value": pa.array(values)})


def bounds_task(
    job: PairJob, edges: tuple[Places, Places], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Finds the least and greatest value of each block and dimension, in both roles, and whether there are nulls.

    Text dimensions count as having nulls, because their codes differ between tasks.
    """
    tiles = BlockTiles(edges, np.zeros((0, 0), np.int64))
    frames = []
    for number in numbers_in(batches):
        for _, _, codes, dictionary in _pair_rows(job, number):
            for side in _role_sides(job):
                values = _dims(job, side.role, codes)[:, side.members(codes, dictionary)]
                if not values.shape[1]:
                    continue
                blocks = tiles.block(values[0], side.role)
                for d, column in enumerate(values):
                    text = _is_text(job, side.role, d)
                    frame = pd.DataFrame({"block": blocks, "least": column, "most": column})
                    frame["nulls"] = (column == NULL) | text
                    made = frame.groupby("block").agg({"least": "min", "most": "max", "nulls": "max"}).reset_index()
                    frames.append(made.assign(role=side.role, dim=d))
    if frames:
        grouped = pd.concat(frames).groupby(["role", "block", "dim"])
        made = grouped.agg({"least": "min", "most": "max", "nulls": "max"}).reset_index()
        names = {"role": pa.int32(), "block": pa.int64(), "dim": pa.int32(), "least": pa.int64(), "most": pa.int64()}
        columns = {name: pa.array(made[name].to_numpy(), kind) for name, kind in names.items()}
        yield pa.record_batch(columns | {"nulls": pa.array(made["nulls"].to_numpy(bool))})


def _is_text(job: PairJob, role: int, dim: int) -> bool:
    side = job.group.t if role == T else job.group.s
    return job.table.schema.columns[side.dims[dim].column].kind is Kind.TEXT


def row_schema(table: Table, columns: list[int]) -> str:
    """The Spark schema of rows on their way to tiles."""
    kinds = ["string" if table.schema.columns[i].kind is Kind.TEXT else "long" for i in columns]
    sent = [f"c{i} {kind}" for i, kind in zip(columns, kinds, strict=True)]
    return ", ".join(["tile long", "role int", "id long", *sent])


def send_task(
    job: PairJob, tiles: HashTiles | BlockTiles, columns: list[int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Sends each row to the tiles in which it may have partners."""
    for number in numbers_in(batches):
        for ids, rows, codes, dictionary in _pair_rows(job, number):
            t, s = _role_sides(job)
            tile, row, role = _sent(job, tiles, t, ids, rows, codes, dictionary)
            if job.group.shared and isinstance(tiles, HashTiles) and not (tiles.chunks > 1).any():
                role = role | S  # in both roles, rows go to the same tiles
            else:
                s_tile, s_row, s_role = _sent(job, tiles, s, ids, rows, codes, dictionary)
                tile, row, role = _together(np.append(tile, s_tile), np.append(row, s_row), np.append(role, s_role))
            sent = {f"c{i}": one_array(rows.column(i)).take(pa.array(row)) for i in columns}
            yield pa.record_batch({"tile": pa.array(tile), "role": pa.array(role), "id": pa.array(ids[row]), **sent})


def _sent(
    job: PairJob, tiles: HashTiles | BlockTiles, side: SentSide, ids: Places, rows: pa.Table, codes: Codes,
    dictionary: TextDictionary,
) -> tuple[Places, Places, npt.NDArray[np.int32]]:  # fmt: skip
    """(tile, row, role) of the rows that qualify for a role."""
    mine = np.flatnonzero(side.members(codes, dictionary))
    if isinstance(tiles, HashTiles):
        at = _side_slots(job, side, codes, rows)[mine]
    elif job.group.s.dims:
        at = tiles.block(_dims(job, side.role, codes)[0][mine], side.role)
    else:
        at = np.zeros(len(mine), np.int64)
    row, tile = tiles.send(at, ids[mine], side.role)
    return tile, mine[row], np.full(len(row), side.role, np.int32)


def _together(tile: Places, row: Places, role: npt.NDArray[np.int32]) -> tuple[Places, Places, npt.NDArray[np.int32]]:
    """Merges entries of the same row and tile: a row is sent to a tile once, also if it has both roles there."""
    if not len(tile):
        return tile, row, role
    order = np.lexsort((row, tile))
    tile, row, role = tile[order], row[order], role[order]
    first = np.append(True, (np.diff(tile) != 0) | (np.diff(row) != 0))
    return tile[first], row[first], np.add.reduceat(role, np.flatnonzero(first)).astype(np.int32)


def inclusion_schema(job: IndJob) -> str:
    """The Spark schema of left and right rows on their way to tiles."""
    kinds = [
        f"{side}{i} {'string' if c.kind is Kind.TEXT else 'long'}"
        for side, table in job.tables.items()
        for i, c in enumerate(table.schema.columns)
    ]
    return ", ".join(["tile long", "role int", "id long", *kinds])


def send_inclusion_task(job: IndJob, tiles: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sends left and right rows to the tile of their tuple."""
    left, right = job.tables["left"], job.tables["right"]
    schemas = {job.rule.left_table: left.schema, job.rule.right_table: right.schema}
    for number in numbers_in(batches):
        is_left = number < len(left.files)
        table = left if is_left else right
        for ids, rows in read_part(table, number if is_left else number - len(left.files)):
            dictionary = TextDictionary()
            codes = codes_of(table.schema, rows, dictionary)
            index = InclusionIndex(job.rule, schemas, job.checked.where, dictionary)
            forms = index._forms(codes, left=is_left)
            names = job.rule.left if is_left else job.rule.right
            operands = tuple(Operand(table.schema.position(name)) for name in names)
            side = SentSide(table, T if is_left else S, operands, lambda *_: np.zeros(0, bool))
            place = slots_of(side, codes, rows, functools.partial(_given, forms)) % tiles
            columns: dict[str, pa.Array] = {
                "tile": pa.array(place),
                "role": pa.array(np.full(len(ids), side.role, np.int32)),
            }
            columns["id"] = pa.array(ids)
            for name, of in job.tables.items():
                for i, column in enumerate(of.schema.columns):
                    kind = pa.string() if column.kind is Kind.TEXT else pa.int64()
                    own = (name == "left") == is_left
                    columns[f"{name}{i}"] = one_array(rows.column(i)) if own else pa.nulls(len(ids), kind)
            yield pa.record_batch(columns)


def _given(forms: Codes, _: Codes) -> Codes:
    return forms
