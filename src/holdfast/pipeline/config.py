"""A pipeline as people write it: `pipeline.yml`, validated, with a published JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from holdfast.errors import ReadError
from holdfast.rulebook import DEFAULT_KEEP

ROWS_IN_PROCESS = 20_000_000  # with more, "auto" takes the executors of Spark
Columns = str | list[str]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableConfig(_Model):
    """A table of the rulebook."""

    base: str | None = Field(
        None, description="The rows to begin with: a file, or a directory of Parquet files. Delta and JDBC need none."
    )
    key: Columns | None = Field(None, description="Columns that tell rows apart.")
    types: dict[str, str] = Field({}, description="Types of columns, where they are not to be inferred.")
    exclude: list[str] = Field([], description="Columns to leave out.")


class FilesSource(_Model):
    """Change files in a landing directory: CSV, JSON lines, Parquet, Arrow. A file must appear there whole (moved)."""

    kind: Literal["files"]
    path: str = Field(description="The landing directory.")
    files_per_batch: int = Field(100, ge=1, description="The most files in one batch.")


class DebeziumSource(_Model):
    """JSON lines files of Debezium events in a landing directory."""

    kind: Literal["debezium"]
    path: str
    files_per_batch: int = Field(100, ge=1)


class KafkaSource(_Model):
    """A Kafka topic, or several; needs the Kafka connector of your Spark."""

    kind: Literal["kafka"]
    servers: str = Field(description="host:port, ...")
    topics: str = Field(description="Topics, separated by commas.")
    format: Literal["debezium", "changes"] = Field(
        "debezium", description="Debezium events, or rows with _change_type and _table."
    )
    rows_per_batch: int | None = Field(None, ge=1)
    options: dict[str, str] = Field({}, description="Further options of the connector (security, ...).")


class DeltaSource(_Model):
    """The change data feed of a Delta table; needs Delta in your Spark."""

    kind: Literal["delta"]
    path: str = Field(description="The table's path, or its name.")
    table: str | None = Field(None, description="Which table of the rulebook it is, where there are several.")
    starting_version: int = Field(description="The first version whose changes count: the one after the base rows.")


class JdbcTable(_Model):
    table: str = Field(description="The table, or a query in parentheses with an alias.")
    watermark: str = Field(description="A column that grows whenever a row changes.")


class JdbcSource(_Model):
    """Tables of a database, asked for what changed by a watermark column. Deletes cannot be seen this way."""

    kind: Literal["jdbc"]
    url: str
    tables: dict[str, JdbcTable]
    options: dict[str, str] = Field({}, description="Options of the connection (user, password, driver, ...).")


Source = Annotated[FilesSource | DebeziumSource | KafkaSource | DeltaSource | JdbcSource, Field(discriminator="kind")]


class ParquetSink(_Model):
    """A directory per version, replaced when it is written again: exactly once."""

    kind: Literal["parquet"]
    path: str


class DeltaSink(_Model):
    """Delta tables under a path, by Delta's own transaction ids: exactly once."""

    kind: Literal["delta"]
    path: str


class TableSink(_Model):
    """Any Spark tables, `<name>_violations` and so on: at least once; rows carry book, version and sequence."""

    kind: Literal["table"]
    name: str


class WebhookSink(_Model):
    """An HTTP POST for each version that changed violations: at least once, with an Idempotency-Key header."""

    kind: Literal["webhook"]
    url: str
    headers: dict[str, str] = {}
    limit: int = Field(20, ge=0, description="Violations listed for each rule.")


class AlertSink(_Model):
    """People, through Apprise: of violations of accepted rules beyond tolerance and baseline. At least once."""

    kind: Literal["alert"]
    urls: list[str] = Field(min_length=1, description="Apprise addresses: mailto://, slack://, json://, ...")


Sink = Annotated[ParquetSink | DeltaSink | TableSink | WebhookSink | AlertSink, Field(discriminator="kind")]


class Trigger(_Model):
    """When to look for changes."""

    every: str | None = Field(None, description="A time such as `10 seconds`; without it, all there is and then stop.")


class Pipeline(_Model):
    """Where changes come from, what is checked, and who is told."""

    version: Literal[1] = 1
    name: str = Field("pipeline", description="Batches are counted under this name.", pattern=r"^[\w.-]+$")
    book: str = Field(description="The rulebook's directory; made from the tables where there is none.")
    tables: dict[str, TableConfig] = Field(min_length=1)
    rules: str | list[str | dict[str, Any]] = Field([], description="A rule file, or rules.")
    kinds: list[str] = Field([], description="Kinds of rules to discover and maintain: key, fd, ind, order, dc.")
    max_size: int | dict[str, int | None] | Literal["default"] | None = Field(
        "default", description="Most columns of a key, left side or inclusion, or {kind: number}; null for no limit."
    )
    compare: Literal["typed", "text"] = Field("typed", description="How inclusions compare values.")
    cross_columns: bool | list[tuple[str, str]] = Field(
        True, description="Which different columns a DC may compare: those that share values, none, or these pairs."
    )
    evidence: Literal["auto", "counted", "lean"] = Field(
        "auto", description="For order and dc: all pairs of rows counted, or some of them, for tall tables."
    )
    only_inserts: bool = Field(False, description="A promise: what deletes or updates rows is refused.")
    max_error: float = Field(0.0, ge=0, lt=1, description="Discover rules that are wrong up to this share, too.")
    error: Literal["g1", "g3"] | None = Field(None, description="How error is measured: g3 (rows) or g1 (pairs).")
    nulls: Literal["equal", "distinct", "sql"] = "equal"
    rule_nulls: Literal["equal", "distinct", "sql"] = "sql"
    source: Source
    trigger: Trigger = Trigger(every=None)
    checkpoint: str | None = Field(None, description="Spark's checkpoint; beside the book where nothing is said.")
    on_error: Literal["refuse", "quarantine"] = "refuse"
    new_columns: Literal["refuse", "accept"] = "refuse"
    executor: Literal["auto", "process", "spark"] = "auto"
    keep: int = Field(DEFAULT_KEEP, ge=1)
    sinks: list[Sink] = []
    mask: list[str] = Field([], description="Columns whose values webhooks, alerts, reports and pages do not show.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.source, DeltaSource) and self.source.table is None and len(self.tables) > 1:
            raise ValueError("say which table the Delta source is: source.table")
        if isinstance(self.source, JdbcSource):
            for name in self.source.tables:
                if name not in self.tables:
                    raise ValueError(f"source.tables has {name!r}, which is not among the tables")
        for name, table in self.tables.items():
            if table.base is None and not isinstance(self.source, DeltaSource | JdbcSource):
                raise ValueError(f"tables.{name}: say where its rows are to begin with: base")
        return self

    @property
    def checkpoint_path(self) -> str:
        return self.checkpoint or f"{self.book.rstrip('/')}-checkpoint"

    def resolved(self, home: Path) -> Pipeline:
        """The same with paths from the directory of the file."""

        def full(path: str) -> str:
            return path if "://" in path else str((home / path).absolute())

        changes: dict[str, Any] = {"book": full(self.book), "checkpoint": full(self.checkpoint_path)}
        changes["tables"] = {
            name: table if table.base is None else table.model_copy(update={"base": full(table.base)})
            for name, table in self.tables.items()
        }
        if isinstance(self.rules, str):
            changes["rules"] = full(self.rules)
        if isinstance(self.source, FilesSource | DebeziumSource):
            changes["source"] = self.source.model_copy(update={"path": full(self.source.path)})
        if isinstance(self.source, DeltaSource) and "/" in self.source.path:
            changes["source"] = self.source.model_copy(update={"path": full(self.source.path)})
        changes["sinks"] = [
            s.model_copy(update={"path": full(s.path)}) if isinstance(s, ParquetSink | DeltaSink) else s
            for s in self.sinks
        ]
        return self.model_copy(update=changes)


def load_pipeline(path: str | Path) -> Pipeline:
    """A pipeline file; what is wrong with it is said with its place in the file's structure."""
    path = Path(path)
    try:
        record = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error
    except YAMLError as error:
        raise ReadError(f"{path}: {error}") from error
    try:
        return Pipeline.model_validate(record).resolved(path.parent)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors()]
        raise ReadError(f"{path}: " + "; ".join(lines)) from None


def json_schema() -> dict[str, Any]:
    """The schema of a pipeline file, for editors and checks."""
    return Pipeline.model_json_schema()
