"""`holdfast watch`: runs a pipeline and prints what each batch did."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import VIOLATED, FailOn, Master, Remote, fails
from holdfast.cli.output import Format, json_text
from holdfast.cli.progress import announce, discovery_bar
from holdfast.cli.terminal import Console
from holdfast.errors import HoldfastError
from holdfast.pipeline.config import DebeziumSource, FilesSource, Pipeline, TableSink
from holdfast.pipeline.remote_landing import landing_at
from holdfast.rulebook import Rulebook
from holdfast.rulebook.glance import Glance
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.wording import counted
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.history import schema_in_words
from holdfast.workflow.tolerance import is_beyond_tolerance

Record = dict[str, Any]
NOT_TAKEN = 2  # the exit status
_MAX_FILES_NAMED = 5


def watch_command(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file (YAML).", show_default=False)],
    master: Master = None,
    remote: Remote = None,
    on: Annotated[
        str | None, typer.Option("--on", help="Where the rows are kept, instead of what the file says.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Process what the source has now, then stop, whatever the trigger says.")
    ] = False,
    format: Annotated[Format, typer.Option("--format", help="table, or json: a line for each version.")] = Format.TABLE,
    fail_on: FailOn = "error",
) -> None:
    """Follow a source of changes: keep a rulebook up to date and deliver its events to sinks.

    The exit status is 2 if a landing file could not be applied or a sink not be reached; each is named. Ctrl-C ends the
    command after the current batch.
    """
    from holdfast.pipeline.config import load_pipeline
    from holdfast.pipeline.new_book import make_book, place_of
    from holdfast.pipeline.stream import watch
    from holdfast.pipeline.trigger import Trigger
    from holdfast.spark.session import running

    if format not in (Format.TABLE, Format.JSON):
        raise HoldfastError(f"watch prints table or json, not {format}")
    fails(set(), fail_on)
    config = load_pipeline(pipeline)
    if on is not None:
        config = Pipeline.model_validate(config.model_dump() | {"on": on})
    if once:
        config = config.model_copy(update={"trigger": Trigger(every=None)})
    announce()
    _quiet_gateway()
    log = Console(stderr=True)
    log.print(f"starting Spark ({remote or master or 'local[*]'})", highlight=False)
    with running(master, remote=remote) as spark:
        _require_catalog(config, spark)
        place = place_of(config)
        where = "on Spark" if place.place == "spark" else "in this process"
        log.print(f"the rows are kept {where}: {place.reason}", highlight=False)
        with discovery_bar() as show:
            is_new = make_book(config, spark, show)
        if is_new:
            log.print(f"made the rulebook {config.book}", highlight=False)
        rules = {entry.id: entry.rule for entry in Glance.at(config.book).entries}
        printer = VersionPrinter(Console(), format, rules)
        problems = watch(config, spark, printer)
    _report_hidden_files(config, log)
    for problem in problems:
        print(f"holdfast: {problem}", file=sys.stderr)
    if problems:
        raise typer.Exit(NOT_TAKEN)
    if printer.broken and fails(_alerting(config.book, printer.broken), fail_on):
        raise typer.Exit(VIOLATED)


def _alerting(book: str, broken: set[str]) -> set[str]:
    """The severities of rules that got violations which nobody tolerates."""
    with Rulebook.open(book) as opened:
        return {entry.severity for entry in opened.entries if entry.id in broken and _alerts(opened, entry)}


def _require_catalog(config: Pipeline, spark: Any) -> None:
    """Refuses a table sink without a persistent catalog: the tables of the default catalog end with the process."""
    is_persistent = spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory"
    for sink in config.sinks:
        if isinstance(sink, TableSink) and not is_persistent and sink.name.count(".") < 2:
            raise HoldfastError(
                f"sink table {sink.name}: the catalog of this Spark is in memory, so its tables end with it; use "
                f"a persistent catalog (--remote), a name with its catalog (lake.shop.told), or a parquet sink"
            )


def _quiet_gateway() -> None:
    """Silences the gateway to Java, which logs every error and every Ctrl-C with a traceback. We report errors once."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)


def _report_hidden_files(config: Pipeline, log: Console) -> None:
    """Reports files that were ignored because of their names."""
    if isinstance(config.source, FilesSource | DebeziumSource):
        names = landing_at(config.source.path).hidden()
        if names:
            first = ", ".join(names[:_MAX_FILES_NAMED]) + (", ..." if len(names) > _MAX_FILES_NAMED else "")
            text = f"{counted(len(names), 'file')} ignored, hidden by a leading . or _: {first}"
            log.print(text, highlight=False, markup=False)


def _alerts(book: Rulebook, entry: RuleEntry) -> bool:
    """Whether a rule that got violations exceeds its tolerance, with violations that are not in the baseline."""
    baseline = Baseline.of(book)
    if baseline.count(entry.id) and not baseline.new_violations(book, entry.id, 1).num_rows:
        return False
    return entry.tolerance == 0 or is_beyond_tolerance(book, entry)


class VersionPrinter:
    """Prints a line for each version: what was added and removed, how fast, and how far behind the source."""

    def __init__(self, out: Console, format: Format, rules: Mapping[str, str]) -> None:
        """`rules`: the texts of the checked rules, by id."""
        self._out, self._format, self._rules, self._since = out, format, rules, time.monotonic()
        self.broken: set[str] = set()

    def __call__(self, record: Record, progress: Record | None) -> None:
        now = time.monotonic()
        rows = {what: sum(t[what] for t in record["tables"].values()) for what in ("inserted", "deleted", "updated")}
        changed = {rule: counts for rule, counts in record["violations"].items() if counts[0] or counts[1]}
        self.broken |= {rule for rule, counts in changed.items() if counts[0]}
        if self._format is Format.JSON:
            self._out.print(json_text(record), soft_wrap=True, highlight=False, markup=False)
        else:
            self._print(record, rows, changed, sum(rows.values()) / max(now - self._since, 1e-3), _lag(progress))
        self._since = now

    def _print(self, record: Record, rows: dict[str, int], changed: Record, speed: float, lag: str) -> None:
        batch = "no batch" if record["batch"] is None else f"batch {record['batch']}"
        parts = [f"version {record['version']}, {batch}: +{rows['inserted']:,} -{rows['deleted']:,}"]
        parts[0] += f" ~{rows['updated']:,} rows, {speed:,.0f} rows/s{lag}"
        schema = schema_in_words(record.get("altered", {}))
        parts += [f"  columns: {schema}"] if schema else []
        for what, names in (("quarantined", ("row or file", "rows or files")), ("drift", ("row", "rows"))):
            if record[what]:
                parts.append(f"  {what}: {counted(record[what], *names)}")
        parts += [f"  late: rules of {', '.join(kinds)} of {name}" for name, kinds in record.get("late", {}).items()]
        texts = {rule: self._rules.get(rule, rule) for rule in changed}
        parts += [f"  {texts[rule]}: +{c[0]:,} -{c[1]:,} violations, {c[2]:,} now" for rule, c in changed.items()]
        self._out.print("\n".join(parts), highlight=False, markup=False)


def _lag(progress: Record | None) -> str:
    """How far the stream is behind its source, if the source tells."""
    for source in (progress or {}).get("sources", []):
        metrics = source.get("metrics") or {}
        behind = metrics.get("numFilesOutstanding") or metrics.get("maxOffsetsBehindLatest")
        if behind:
            return f", {behind} behind"
    return ""
