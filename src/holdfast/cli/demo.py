"""The demo: generated orders and customers, a durable rulebook, a stream of changes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from holdfast.generate import Batch, Stream, orders
from holdfast.outcome import Outcome
from holdfast.rulebook import Rulebook


def run_demo(out: Console, log: Console, rows: int, batches: int, seed: int, directory: Path | None) -> None:
    """Creates, changes, closes and reopens a rulebook, and shows each step."""
    with _directory(directory) as place:
        stream = orders(rows, seed)
        log.print(f"creating a rulebook for {rows:,} orders and their customers in {place}")
        started = time.perf_counter()
        with Rulebook.create(place, stream.tables, key=stream.keys, rules=stream.rules) as book:
            _show_schemas(out, book)
            applied = list(_apply_all(book, stream, batches, log))
            _show_batches(out, applied)
        with Rulebook.open(place) as book:
            counts = ", ".join(f"{book.count(name):,} {name}" for name in book.schemas)
            out.print(f"reopened at version {book.version}: {counts}, {len(book.rules())} rules kept")
        log.print(f"done in {time.perf_counter() - started:.1f} s; this version keeps rules, checking them comes next")


@contextmanager
def _directory(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
        yield Path(name) / "book"


def _apply_all(book: Rulebook, stream: Stream, batches: int, log: Console) -> Iterator[tuple[Batch, Outcome]]:
    size = max(10, book.count(stream.moving) // 20)
    for batch in track(stream.batches(batches, size), "applying changes", batches, console=log):
        yield batch, book.apply(batch.changes, batch_id=batch.number, source="demo")


def _show_schemas(out: Console, book: Rulebook) -> None:
    for name, schema in book.schemas.items():
        shown = Table(title=f"{name}: {book.count(name):,} rows", title_justify="left")
        shown.add_column("column")
        shown.add_column("kind")
        for column in schema.columns:
            shown.add_row(column.name, column.type_text)
        out.print(shown)


def _show_batches(out: Console, applied: list[tuple[Batch, Outcome]]) -> None:
    shown = Table(title="changes", title_justify="left")
    for heading in ("batch", "inserted", "deleted", "updated"):
        shown.add_column(heading, justify="right")
    shown.add_column("planted")
    for batch, outcome in applied:
        totals = [sum(counts[what] for counts in outcome.rows.values()) for what in ("inserted", "deleted", "updated")]
        planted = [f"breaks {b.rule}" for b in batch.breaks] + [f"repairs {b.rule}" for b in batch.repairs]
        shown.add_row(str(batch.number), *(f"{n:,}" for n in totals), "; ".join(planted))
    out.print(shown)
