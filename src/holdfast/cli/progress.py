"""Progress bars on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from holdfast.cli.terminal import Console
from holdfast.discovery.budget import Progress as SearchProgress
from holdfast.kernels.compiled import is_warm
from holdfast.plain_text import plain_text
from holdfast.violations.detect import Progress


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """A bar for indexing rows. Shows nothing if stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows indexed"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def announce() -> None:
    """Announces that the first run compiles."""
    if not is_warm():
        print(
            "holdfast: compiling the kernels for the first run, about half a minute",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def stage_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for jobs of Spark: what is being done, and how many tasks of the running stages are done. Shows nothing if
    stderr is not a terminal."""
    columns = (TextColumn("Spark: {task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
    console = Console(stderr=True)
    with Bar(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def show(work: str, done: int, tasks: int) -> None:
            bar.update(task, description=escape(plain_text(work)), completed=done, total=tasks)

        yield show


@contextmanager
def discovery_bar() -> Iterator[SearchProgress]:
    """A bar for a search: the current step and how far it is. Shows nothing if stderr is not a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=1.0)

        def show(step: str, share: float) -> None:
            bar.update(task, description=escape(plain_text(step)), completed=share)

        yield show


def as_step(what: str, show: SearchProgress) -> Progress:
    """Shows how many rows are done as a step of a search."""
    return lambda done, total: show(f"{what}, {done:,} of {total:,} rows", done / max(1, total))
