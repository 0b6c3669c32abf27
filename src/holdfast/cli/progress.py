"""Progress on stderr: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast.cli.terminal import Console
from holdfast.discovery.budget import Progress as SearchProgress
from holdfast.kernels.compiled import is_warm
from holdfast.plain_text import plain_text
from holdfast.violations.detect import Progress

_SECONDS_PER_LINE = 3.0

Show = Callable[[str, float, float], None]  # the current step, how much is done, of how much (0: unknown)


def announce() -> None:
    """Announces that the first run compiles."""
    if not is_warm():
        print(
            "holdfast: compiling the kernels for the first run, about half a minute",
            file=sys.stderr,
            flush=True,
        )


@dataclass
class ProgressLines:
    """Progress as lines of text. Nothing is printed in the first seconds.

    >>> ticks = iter([0.0, 2.0, 4.0, 5.0])
    >>> lines = ProgressLines("tasks", print, lambda: next(ticks))
    >>> lines.show("reading", 1, 4); lines.show("reading", 3, 4); lines.show("comparing", 1, 4)
    holdfast: 4 s: reading, 3 of 4 tasks
    """

    unit: str | None  # what is counted; None: shares are shown in percent
    write: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    _start: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self._last = self.clock()

    def show(self, step: str, done: float, total: float) -> None:
        """Prints a line, unless there was one a moment ago."""
        now = self.clock()
        if now - self._last < _SECONDS_PER_LINE:
            return
        self._last = now
        amount = f"{done / total:.0%}" if self.unit is None and total else f"{done:,.0f} of {total:,.0f} {self.unit}"
        self.write(f"holdfast: {now - self._start:.0f} s: {plain_text(step)}{f', {amount}' if total else ''}")


@contextmanager
def _shown(first: str, unit: str | None) -> Iterator[Show]:
    """Shows the progress of one piece of work."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(unit, lambda line: print(line, file=sys.stderr, flush=True)).show
        return
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    counted = (TaskProgressColumn(),) if unit is None else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn("{task.description}"), BarColumn(), *counted, TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(first, total=None)

        def show(step: str, done: float, total: float) -> None:
            bar.update(task, description=escape(plain_text(step)), completed=done, total=total or None)

        yield show


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Progress of indexing rows."""
    with _shown(what, "rows indexed") as show:
        yield lambda done, total: show(what, done, total)


@contextmanager
def stage_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Progress of jobs of Spark: what is being done, and how many tasks of the running stages are done."""
    with _shown("Spark: starting", "tasks") as show:
        yield lambda work, done, tasks: show(f"Spark: {work}", done, tasks)


@contextmanager
def discovery_bar() -> Iterator[SearchProgress]:
    """Progress of a search: the current step and how far it is."""
    with _shown("reading", None) as show:
        yield lambda step, share: show(step, share, 1.0)


def as_step(what: str, show: SearchProgress) -> Progress:
    """Shows how many rows are done as a step of a search."""
    return lambda done, total: show(f"{what}, {done:,} of {total:,} rows", done / max(1, total))
