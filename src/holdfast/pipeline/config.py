"""The configuration of a pipeline: the model of `pipeline.yml`, with a published JSON Schema."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from holdfast.discovery.search_options import SEARCH_KEYWORDS, SearchOptions
from holdfast.errors import ReadError
from holdfast.pipeline.environment import expanded
from holdfast.pipeline.trigger import Trigger
from holdfast.places import is_url
from holdfast.rulebook import DEFAULT_KEEP

Columns = str | list[str]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableConfig(_Model):
    """A table of the rulebook."""

    base: str | None = Field(
        None,
        description="The initial rows: a file, or a directory of Parquet files; on Spark, whatever it reads by path or "
        "name. Delta and JDBC sources need none. Without it, `types` names the columns of a table that begins empty.",
    )
    key: Columns | None = Field(None, description="Columns that identify a row.")
    types: dict[str, str] = Field({}, description="Types of columns that should not be inferred.")
    exclude: list[str] = Field([], description="Columns to leave out.")


class FilesSource(_Model):
    """Change files (CSV, JSON lines, Parquet, Arrow) in a landing directory and its sub-directories. Write a file
    elsewhere and move it there when it is complete. It is identified by its relative path and its content."""

    kind: Literal["files"]
    path: str = Field(description="The landing directory, or its URL (`s3://bucket/landing`).")
    files_per_batch: int = Field(100, ge=1, description="Maximum number of files in a micro-batch of Spark.")


class DebeziumSource(_Model):
    """JSON lines files of Debezium events in a landing directory."""

    kind: Literal["debezium"]
    path: str
    files_per_batch: int = Field(100, ge=1)


class KafkaSource(_Model):
    """One or several Kafka topics. Your Spark needs the Kafka connector."""

    kind: Literal["kafka"]
    servers: str = Field(description="host:port, ...")
    topics: str = Field(description="Topics, separated by commas.")
    format: Literal["debezium", "changes"] = Field(
        "debezium", description="Debezium events, or rows with _change_type and _table."
    )
    rows_per_batch: int | None = Field(None, ge=1)
    options: dict[str, str] = Field({}, description="Further options of the connector (security, ...).")


class DeltaSource(_Model):
    """The change data feed of a Delta table. Your Spark needs Delta."""

    kind: Literal["delta"]
    path: str = Field(description="The table's path, or its name.")
    table: str | None = Field(None, description="The rulebook's table that it feeds, if there are several.")
    starting_version: int = Field(description="The first version whose changes count: the one after the base rows.")


class JdbcTable(_Model):
    table: str = Field(description="The table, or a query in parentheses with an alias.")
    watermark: str = Field(description="A column that grows whenever a row changes.")


class JdbcSource(_Model):
    """Tables of a database, polled for changed rows by a watermark column. This way deletes go unnoticed."""

    kind: Literal["jdbc"]
    url: str
    tables: dict[str, JdbcTable]
    options: dict[str, str] = Field({}, description="Options of the connection (user, password, driver, ...).")


Source = Annotated[FilesSource | DebeziumSource | KafkaSource | DeltaSource | JdbcSource, Field(discriminator="kind")]


class _Sink(_Model):
    id: str | None = Field(
        None,
        pattern=r"^[\w.-]+$",
        description="The name under which the rulebook keeps the sink's progress. By default it depends on the target.",
    )

    @property
    def target(self) -> str:
        """The path, name or address that the sink writes to."""
        raise NotImplementedError


class ParquetSink(_Sink):
    """A directory per version, which a repeated write replaces: exactly once."""

    kind: Literal["parquet"]
    path: str

    @property
    def target(self) -> str:
        return self.path


class DeltaSink(_Sink):
    """Delta tables under a path, with Delta's transaction ids: exactly once."""

    kind: Literal["delta"]
    path: str

    @property
    def target(self) -> str:
        return self.path


class TableSink(_Sink):
    """Spark tables of any format, named `<name>_violations` and so on: at least once. Rows carry book, version and
    sequence."""

    kind: Literal["table"]
    name: str

    @property
    def target(self) -> str:
        return self.name


class WebhookSink(_Sink):
    """An HTTP POST for each version that changed violations or quarantined rows: at least once, with an Idempotency-Key
    header. Redirects are not followed."""

    kind: Literal["webhook"]
    url: str = Field(description="http:// or https://; write secrets as ${VARIABLE}.")
    headers: dict[str, str] = {}
    limit: int = Field(20, ge=0, description="Maximum number of violations listed for each rule.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"https?://[^/]", url):
            raise ValueError("a webhook's address must begin with http:// or https://")
        return url

    @property
    def target(self) -> str:
        return self.url


class AlertSink(_Sink):
    """Messages through Apprise about violations of accepted rules beyond tolerance and baseline: at least once."""

    kind: Literal["alert"]
    urls: list[str] = Field(min_length=1, description="Apprise addresses: mailto://, slack://, json://, ...")

    @property
    def target(self) -> str:
        return "\n".join(self.urls)


Sink = Annotated[ParquetSink | DeltaSink | TableSink | WebhookSink | AlertSink, Field(discriminator="kind")]


class Pipeline(_Model):
    """Where changes come from, which rules are checked, and which sinks receive the events."""

    version: Literal[1] = 1
    name: str = Field("pipeline", description="Batches are counted under this name.", pattern=r"^[\w.-]+$")
    book: str = Field(description="The rulebook's directory. If there is none, it is created from the tables.")
    tables: dict[str, TableConfig] = Field(min_length=1)
    rules: str | list[str | dict[str, Any]] = Field([], description="A rule file, or rules.")
    kinds: list[str] = Field([], description="Kinds of rules to discover and maintain: key, fd, ind, order, dc.")
    max_size: int | dict[str, int | None] | Literal["default"] | None = Field(
        "default",
        description="Maximum number of columns of a key, left side or inclusion, or {kind: number}; null for no limit.",
    )
    compare: Literal["typed", "text"] = Field("typed", description="How inclusions compare values.")
    cross_columns: bool | list[tuple[str, str]] = Field(
        True,
        description="Which different columns a DC may compare: true for those that share values, false for none, or "
        "these pairs.",
    )
    evidence: Literal["auto", "counted", "lean"] = Field(
        "auto", description="For order and dc: count all pairs of rows, or keep only some of them, for tall tables."
    )
    only_inserts: bool = Field(
        False, description="Refuse deletes and updates, which makes inclusions cheaper to maintain."
    )
    max_error: float = Field(0.0, ge=0, lt=1, description="Also discover rules with an error of up to this share.")
    rule_budget: float | None = Field(
        None,
        ge=0,
        description="Seconds that a batch may spend on discovered rules. Rules that would take longer are late until "
        "the source has nothing new, or the pipeline starts again; violations are never late.",
    )
    error: Literal["g1", "g3"] | None = Field(None, description="How error is measured: g3 (rows) or g1 (pairs).")
    nulls: Literal["equal", "distinct", "sql"] = "equal"
    rule_nulls: Literal["equal", "distinct", "sql"] = "sql"
    source: Source
    trigger: Trigger = Trigger(every=None)
    checkpoint: str | None = Field(None, description="Spark's checkpoint. By default it is beside the rulebook.")
    on_error: Literal["refuse", "quarantine"] = "refuse"
    new_columns: Literal["refuse", "accept"] = "refuse"
    on: Literal["auto", "process", "spark"] = Field(
        "auto",
        description="Where the rows are kept: in this process, on Spark, or decided by their number. `executor` is the "
        "old name.",
    )
    state: str | None = Field(
        None, description="On Spark, where it writes rows and states, if not beside the manifests of the rulebook."
    )
    keep: int = Field(DEFAULT_KEEP, ge=1)
    sinks: list[Sink] = []
    mask: list[str] = Field([], description="Columns whose values messages, alerts, reports and pages do not show.")

    @property
    def search(self) -> SearchOptions:
        """The rules that are discovered and maintained."""
        return SearchOptions(**{name: getattr(self, name) for name in SEARCH_KEYWORDS})

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, record: Any) -> Any:
        """`executor` was the name of `on`."""
        if isinstance(record, dict) and "executor" in record and "on" not in record:
            return {("on" if name == "executor" else name): value for name, value in record.items()}
        return record

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.source, DeltaSource) and self.source.table is None and len(self.tables) > 1:
            raise ValueError("say which table the Delta source is: source.table")
        if isinstance(self.source, JdbcSource):
            for name in self.source.tables:
                if name not in self.tables:
                    raise ValueError(f"source.tables has {name!r}, which is not among the tables")
        names = Counter(sink.id or sink_id(sink.kind, sink.target) for sink in self.sinks)
        for name, times in names.items():
            if times > 1:
                raise ValueError(f"sinks: two of them are the same ({name})")
        for name, table in self.tables.items():
            if table.base is None and not table.types and not isinstance(self.source, DeltaSource | JdbcSource):
                raise ValueError(
                    f"tables.{name}: say where its rows are at the beginning: base; or, if it begins empty, what "
                    f"columns it has: types"
                )
        if self.on == "spark" and self.max_error and not {*self.kinds} <= {"ind"}:
            raise ValueError("max_error: on Spark, found rules are kept that hold exactly; inclusions may nearly hold")
        if self.on == "spark" and self.rule_budget is not None:
            raise ValueError("rule_budget: on Spark, found rules are updated in each batch")
        return self

    @property
    def named_sinks(self) -> dict[str, Sink]:
        """The sinks by the names under which the rulebook keeps their progress."""
        return {sink.id or sink_id(sink.kind, sink.target): sink for sink in self.sinks}

    @property
    def checkpoint_path(self) -> str:
        return self.checkpoint or f"{self.book.rstrip('/')}-checkpoint"

    def resolved(self, home: Path) -> Pipeline:
        """The same pipeline with absolute paths; relative ones are relative to `home`."""

        def full(path: str) -> str:
            return path if is_url(path) else str((home / path).absolute())

        def base(path: str) -> str:  # a name without a file may be a table of the catalog
            return path if self.on == "spark" and not (home / path).exists() and "/" not in path else full(path)

        changes: dict[str, Any] = {"book": full(self.book), "checkpoint": full(self.checkpoint_path)}
        if self.state is not None:
            changes["state"] = full(self.state)
        changes["tables"] = {
            name: table if table.base is None else table.model_copy(update={"base": base(table.base)})
            for name, table in self.tables.items()
        }
        if isinstance(self.rules, str):
            changes["rules"] = full(self.rules)
        if isinstance(self.source, FilesSource | DebeziumSource):
            changes["source"] = self.source.model_copy(update={"path": full(self.source.path)})
        if isinstance(self.source, DeltaSource) and "/" in self.source.path:
            changes["source"] = self.source.model_copy(update={"path": full(self.source.path)})
        changes["sinks"] = [
            sink.model_copy(
                update={"id": name} | ({"path": full(sink.path)} if isinstance(sink, ParquetSink | DeltaSink) else {})
            )
            for name, sink in self.named_sinks.items()
        ]
        return self.model_copy(update=changes)


def load_pipeline(path: str | Path) -> Pipeline:
    """Reads a pipeline file. Errors name the position in the structure of the file."""
    path = Path(path)
    try:
        record = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error
    except YAMLError as error:
        raise ReadError(f"{path}: {error}") from error
    record = expanded(_with_sink_ids(record), str(path))
    try:
        return Pipeline.model_validate(record).resolved(path.parent)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors()]
        raise ReadError(f"{path}: " + "; ".join(lines)) from None


def sink_id(kind: str, target: str) -> str:
    """The default name of a sink. It depends on the target, not on the position in the list."""
    return f"{kind}-{hashlib.sha256(target.encode()).hexdigest()[:8]}"


_TARGETS = {"parquet": "path", "delta": "path", "table": "name", "webhook": "url", "alert": "urls"}


def _with_sink_ids(record: Any) -> Any:
    """Names sinks with a `${VARIABLE}` in the target by its unexpanded text, so that no hash of a secret is stored."""
    sinks = record.get("sinks") if isinstance(record, dict) else None
    for sink in sinks if isinstance(sinks, list) else ():
        target = sink.get(_TARGETS.get(str(sink.get("kind")), "")) if isinstance(sink, dict) else None
        text = "\n".join(map(str, target)) if isinstance(target, list) else str(target)
        if target is not None and "id" not in sink and "${" in text:
            sink["id"] = sink_id(sink["kind"], text)
    return record


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a pipeline file."""
    return Pipeline.model_json_schema()
