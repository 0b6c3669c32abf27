"""`holdfast demo`: a stream of generated changes on embedded Spark, and a rulebook that follows it."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.progress import track
from rich.table import Table
from ruamel.yaml import YAML

from holdfast.cli.terminal import Console
from holdfast.errors import HoldfastError
from holdfast.generate import GeneratedBatch, GeneratedStream, orders
from holdfast.rulebook import Rulebook
from holdfast.rules.rule import SEARCHED_KINDS
from holdfast.rules.sentence import sentence

Record = dict[str, Any]
_MAX_SIZES = {"key": 2, "fd": 2, "order": 1, "dc": 2}  # columns of a key or left side; column pairs of a DC
_FIRST_FILE_TIME = 1_700_000_000  # the landing files are one second apart, in order


def run_demo(out: Console, log: Console, rows: int, batches: int, seed: int, directory: Path | None) -> None:
    """Loads base tables, streams change files through Structured Streaming, and prints what was found."""
    from holdfast.pipeline.config import load_pipeline
    from holdfast.pipeline.new_book import make_book
    from holdfast.pipeline.stream import watch
    from holdfast.spark.session import running

    with _directory(directory) as place:
        started = time.perf_counter()
        stream = orders(rows, seed)
        changes = list(_write(stream, place, batches, max(10, rows // 20), log))
        pipeline = load_pipeline(place / "pipeline.yml")
        log.print("starting Spark in this process", highlight=False)
        with running() as spark:
            log.print(f"loading {rows:,} orders and their customers; checking {len(stream.rules)} rules")
            make_book(pipeline, spark)
            with Rulebook.open(pipeline.book) as book:
                _show_tables(out, book)
                _show_found(out, book)
            progress = Progress(out, changes, {entry.id: entry.rule for entry in book.entries})
            log.print(f"following {batches} change files through Structured Streaming", highlight=False)
            watch(pipeline, spark, progress)
        progress.require_all()
        _show_last_break(out, pipeline.book, changes)
        _show_summary(out, pipeline.book, place)
        _write_report(out, pipeline.book, None if directory is None else place)
        log.print(f"done in {time.perf_counter() - started:.1f} s", highlight=False)


@contextmanager
def _directory(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        if chosen.exists() and any(chosen.iterdir()):
            raise HoldfastError(f"{chosen} is not empty; give a new directory")
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
        yield Path(name)


def _write(stream: GeneratedStream, place: Path, batches: int, size: int, log: Console) -> Iterator[GeneratedBatch]:
    """Writes base tables, change files and the pipeline file; yields the batches."""
    (place / "base").mkdir()
    (place / "landing").mkdir()
    for name, table in stream.tables.items():
        pq.write_table(table, place / "base" / f"{name}.parquet")
    for batch in track(stream.batches(batches, size), "writing change files", batches, console=log, transient=True):
        file = place / "landing" / f"{batch.number:04d}.parquet"
        pq.write_table(batch.feed(), file)
        os.utime(file, (_FIRST_FILE_TIME + batch.number,) * 2)
        yield batch
    pipeline = {
        "name": "demo",
        "book": "book",
        "tables": {n: {"base": f"base/{n}.parquet", "key": list(key)} for n, key in stream.keys.items()},
        "rules": list(stream.rules),
        "kinds": list(SEARCHED_KINDS),
        "max_size": _MAX_SIZES,
        "source": {"kind": "files", "path": "landing", "files_per_batch": 1},
        "keep": batches + 1,
        "sinks": [{"kind": "parquet", "path": "told"}],
    }
    YAML(typ="safe").dump(pipeline, place / "pipeline.yml")


def _show_tables(out: Console, book: Rulebook) -> None:
    table = Table()
    for heading in ("table", "rows", "columns"):
        table.add_column(heading)
    for name, schema in book.schemas.items():
        columns = ", ".join(f"{column.name} {column.type_text}" for column in schema.columns)
        table.add_row(name, f"{book.count(name):,}", columns)
    out.print(table)


def _show_found(out: Console, book: Rulebook, most: int = 3) -> None:
    """Prints some of the rules that discovery found by itself."""
    found = book.found()
    names = {
        "key": "keys",
        "fd": "functional dependencies",
        "ind": "inclusions",
        "order": "order dependencies",
        "dc": "denial constraints",
    }
    counts = ", ".join(f"{len(found.of(kind)):,} {name}" for kind, name in names.items())
    out.print(f"found {counts}, with up to 2 columns; for example:")
    for block in found.blocks:
        for rule, text, error, _ in block.shortest(most).with_details():
            out.print(f"  {text}: {sentence(rule, block.rank, error)}", highlight=False, markup=False)


class Progress:
    """Prints a line for each applied batch: which breaks were planted in it, and which were found."""

    def __init__(self, out: Console, changes: list[GeneratedBatch], rules: dict[str, str]) -> None:
        self._out, self._rules = out, rules
        self._expected = {batch.number: batch for batch in changes}
        self._missed: list[str] = []

    def __call__(self, record: Record, _: Record | None) -> None:
        batch = self._expected.pop(record["version"])
        rows = {what: sum(t[what] for t in record["tables"].values()) for what in ("inserted", "deleted", "updated")}
        changed = {self._rules[i]: counts for i, counts in record["violations"].items() if counts[0] or counts[1]}
        lines = [f"batch {batch.number:>3}: +{rows['inserted']:,} -{rows['deleted']:,} ~{rows['updated']:,} rows"]
        for planted in batch.breaks:
            added = changed.get(planted.rule, [0])[0]
            lines.append(f"  planted a break of `{planted.rule}`: found {added:,} violations")
            if not added:
                self._missed.append(planted.rule)
        for repaired in batch.repairs:
            removed = changed.get(repaired.rule, [0, 0])[1]
            lines.append(f"  repaired `{repaired.rule}`: {removed:,} violations went away")
        rules_added, rules_removed = (sum(counts[i] for counts in record["rules"].values()) for i in (0, 1))
        if rules_added or rules_removed:
            lines.append(f"  found rules: {rules_added:,} added, {rules_removed:,} removed")
        self._out.print("\n".join(lines), highlight=False, markup=False)

    def require_all(self) -> None:
        if self._expected or self._missed:
            missing = [str(number) for number in self._expected] + self._missed
            raise HoldfastError(f"the demo did not find what it planted: {', '.join(missing)}; please report this")


def _show_last_break(out: Console, book: str, changes: list[GeneratedBatch]) -> None:
    """Explains the violations of the last planted break, as of its batch."""
    for batch in reversed(changes):
        for planted in batch.breaks:
            with Rulebook.open(book, version=batch.number) as old_book:
                out.print(f"as of batch {batch.number}:", highlight=False)
                out.print(str(old_book.explain(planted.rule, limit=3)), highlight=False, markup=False)
            return


def _write_report(out: Console, book: str, place: Path | None) -> None:
    """Writes the HTML report to a directory that is kept."""
    if any(importlib.util.find_spec(name) is None for name in ("jinja2", "altair", "vl_convert")):
        out.print("no report: pip install 'holdfast-data[ui]'", highlight=False, markup=False)
        return
    from holdfast.report.page import report_html

    if place is None:
        place = Path(tempfile.mkdtemp(prefix="holdfast-report-"))
    with Rulebook.open(book) as opened:
        (place / "demo.html").write_text(report_html(opened, "demo"), encoding="utf-8")
    out.print(f"report: {place / 'demo.html'}", highlight=False, markup=False, soft_wrap=True)


def _show_summary(out: Console, path: str, place: Path) -> None:
    with Rulebook.open(path) as book:
        counts = ", ".join(f"{book.count(name):,} {name}" for name in book.schemas)
        violated = sum(book.count_violations(entry.id) > 0 for entry in book.entries)
        out.print(f"reopened at version {book.version}: {counts}; {violated} of {len(book.entries)} rules violated")
        changes = book.rule_history().to_pylist()
        out.print(
            f"{len(book.found()):,} found rules hold; {len(changes):,} were added or removed so far, the last ones:"
        )
        for change in changes[-3:]:
            why = f" (rows {change['t']} and {change['s']})" if change["t"] else ""
            why = why or (f" (value {change['value']})" if change["value"] else "")
            out.print(f"  version {change['version']}: {change['change']} {change['rule']}{why}", highlight=False)
    sink = place / "told" / "violations"
    delivered = pq.read_table(sink).num_rows if sink.exists() else 0
    out.print(f"{delivered:,} added and removed violations were told to the Parquet sink, each once")
