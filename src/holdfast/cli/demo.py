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
            _show_last_break(out, book, applied)
        with Rulebook.open(place) as book:
            counts = ", ".join(f"{book.count(name):,} {name}" for name in book.schemas)
            standing = sum(book.count_violations(entry.id) > 0 for entry in book.entries)
            out.print(f"reopened at version {book.version}: {counts}; {standing} of {len(book.entries)} rules violated")
        log.print(f"done in {time.perf_counter() - started:.1f} s")


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
    shown.add_column("found")
    for batch, outcome in applied:
        totals = [sum(counts[what] for counts in outcome.rows.values()) for what in ("inserted", "deleted", "updated")]
        planted = [f"breaks {b.rule}" for b in batch.breaks] + [f"repairs {b.rule}" for b in batch.repairs]
        shown.add_row(str(batch.number), *(f"{n:,}" for n in totals), "; ".join(planted), _found(outcome))
    out.print(shown)


def _found(outcome: Outcome) -> str:
    """`+3 -1 product -> price` for each rule whose violations changed."""
    names, made = outcome.violations.names, []
    for number, found in outcome.violations.by_rule.items():
        if found.count_added or found.count_removed:
            made.append(f"+{found.count_added} -{found.count_removed} {names.checked[number].rule}")
    return "; ".join(made)


def _show_last_break(out: Console, book: Rulebook, applied: list[tuple[Batch, Outcome]]) -> None:
    """The pairs that came with the last planted break."""
    for batch, outcome in reversed(applied):
        for planted in batch.breaks:
            pairs = outcome.violations.added(planted.rule)
            out.print(f"batch {batch.number} broke {planted.rule}: {pairs.num_rows} violations came, the first of them")
            for pair in pairs.slice(0, 3).to_pylist():
                out.print(f"  {' with '.join(f'{planted.table} {name}' for name in pair.values())}")
            return
