"""The states of a rulebook on Spark: Parquet files that Spark writes, and that a manifest lists.

A state is a list of pieces. A piece is what one job wrote, into a directory named by version and a random attempt, so
that what a dead attempt left is never read. A change appends a piece; compaction replaces pieces by one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from holdfast.errors import NotAvailable
from holdfast.spark.jobs import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Piece:
    """The files that one job wrote, and how many rows they have; -1 if nobody counted."""

    folder: str
    files: tuple[str, ...]
    rows: int = -1

    def to_json(self) -> dict[str, Any]:
        return {"folder": self.folder, "files": list(self.files), "rows": self.rows}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Piece:
        return cls(record["folder"], tuple(record["files"]), record["rows"])


@dataclass(frozen=True)
class FiledState:
    """A state: its columns, and its pieces."""

    columns: str  # the schema of Spark, as JSON
    pieces: tuple[Piece, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field["name"] for field in json.loads(self.columns)["fields"]]

    def to_json(self) -> dict[str, Any]:
        return {"columns": json.loads(self.columns), "pieces": [piece.to_json() for piece in self.pieces]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> FiledState:
        return cls(json.dumps(record["columns"]), tuple(map(Piece.from_json, record["pieces"])))


@dataclass
class StateFiles:
    """The states of one version, by name. `write` adds pieces to the next version; it counts once its manifest does."""

    session: SparkSession | None
    root: str
    states: dict[str, FiledState] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        if self.session is None:
            raise NotAvailable("the rows of this rulebook are on Spark: start a Spark session, then open it again")
        return self.session

    def copy(self) -> StateFiles:
        return StateFiles(self.session, self.root, dict(self.states))

    def write(self, name: str, frame: DataFrame, version: int, rows: int = -1) -> Piece:
        """Writes a frame as a piece of a state that is not added to it yet."""
        folder = f"{name}/{version:010d}-{secrets.token_hex(6)}"
        path = f"{self.root}/{folder}"
        with described(self.spark, f"write {folder}"):
            frame.write.mode("error").parquet(path)
        self.states.setdefault(name, FiledState(frame.schema.json()))
        listed = self._reader(name).parquet(path).inputFiles()
        return Piece(folder, tuple(sorted(file.rpartition("/")[2] for file in listed)), rows)

    def append(self, name: str, frame: DataFrame, version: int, rows: int = -1) -> None:
        """Writes a frame as one more piece of a state."""
        self.add(name, self.write(name, frame, version, rows), frame)

    def replace(self, name: str, frame: DataFrame, version: int, *, keep: int, rows: int) -> None:
        """Writes a frame as the only piece of a state, after its first `keep` pieces."""
        piece = self.write(name, frame, version, rows)
        self.states[name] = FiledState(self.states[name].columns, (*self.states[name].pieces[:keep], piece))

    def added_rows(self, name: str) -> int:
        """The number of rows in the pieces after the first, as far as they were counted."""
        return sum(max(0, piece.rows) for piece in self.states[name].pieces[1:])

    def all_rows(self, name: str) -> int:
        """The number of rows in all pieces, as far as they were counted."""
        return sum(max(0, piece.rows) for piece in self.states[name].pieces)

    def add(self, name: str, piece: Piece, frame: DataFrame) -> None:
        """Adds a piece that was written already, with the columns of this frame."""
        state = self.states.get(name) or FiledState(frame.schema.json())
        self.states[name] = FiledState(state.columns, (*state.pieces, piece))

    def read(self, name: str, pieces: Iterable[Piece] | None = None) -> DataFrame:
        """The rows of all pieces of a state."""
        chosen = self.states[name].pieces if pieces is None else tuple(pieces)
        paths = [f"{self.root}/{piece.folder}/{file}" for piece in chosen for file in piece.files]
        if not paths:
            return self.spark.createDataFrame([], self._columns(name))
        return self._reader(name).parquet(*paths)

    def _columns(self, name: str) -> StructType:
        return StructType.fromJson(json.loads(self.states[name].columns))

    def _reader(self, name: str) -> Any:
        return self.spark.read.schema(self._columns(name))

    @property
    def files(self) -> set[tuple[str, str]]:
        """The folder and name of every file."""
        return {(p.folder, file) for state in self.states.values() for p in state.pieces for file in p.files}

    def to_json(self) -> dict[str, Any]:
        return {name: state.to_json() for name, state in self.states.items()}

    @classmethod
    def from_json(cls, spark: SparkSession | None, root: str, record: Mapping[str, Any]) -> StateFiles:
        return cls(spark, root, {name: FiledState.from_json(state) for name, state in record.items()})


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)
