"""How long a search may take, and why it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from holdfast.executors.executor import Cancelled

Progress = Callable[[str, float], None]  # the current step, and the share of it that is done

_MAX_SHARES = 4  # one of several like searches gets up to so many equal shares
_GRACE_SHARE, _LEAST_GRACE, _MOST_GRACE = 0.05, 0.5, 2.0  # a share of the budget; bounds in seconds


@dataclass
class Budget:
    """A deadline. Once `spent` is true it stays true, and the result is what was proven until then. `divided`: each of
    several searches gets a share, so that none uses up the time of the others.

    >>> Budget(seconds=None).spent(), Budget(seconds=0).spent()
    (False, True)
    """

    seconds: float | None = None
    progress: Progress | None = None
    ended: str | None = None  # why: the time budget, an interruption
    divided: bool = False
    clock: Callable[[], float] = time.monotonic
    whole: Budget | None = None  # the budget that this one is a part of
    title: str | None = None  # its name in messages, if it is the rest of another budget
    skipped: list[str] = field(default_factory=list)  # notes on work that was skipped because the time ran out
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    def spent(self) -> bool:
        if self.ended is None and self.whole is not None and self.whole.spent():
            self.ended = self.whole.ended
        if self.ended is None and self.seconds is not None and self.clock() - self._start >= self.seconds:
            self.ended = self._name
        return self.ended is not None

    def check(self) -> None:
        """Raises `Cancelled` if the budget is spent, for work that has no partial result."""
        if self.spent():
            raise Cancelled(f"the {self.ended} is spent")

    def left(self) -> float | None:
        """The seconds that are left; None: no limit."""
        own = None if self.seconds is None else self.seconds - (self.clock() - self._start)
        of_whole = self.whole.left() if self.whole is not None else None
        limits = [seconds for seconds in (own, of_whole) if seconds is not None]
        return max(0.0, min(limits)) if limits else None

    def part(self, share: float = 1.0, reserve: float = 0.0) -> Budget:
        """A share of the time left, minus a reserve, for one of several searches. The others can use what remains."""
        left = self.left() if self.divided else None
        seconds = None if left is None else max(0.0, left - reserve) * share
        return replace(self, seconds=seconds, ended=None, whole=self)

    def at_most(self, seconds: float) -> Budget:
        """So many seconds of the time left, for work that others can do instead."""
        return replace(self, seconds=seconds, ended=None, whole=self)

    def for_one_of(self, count: int) -> Budget:
        """The part of the next of `count` like searches. It is several equal shares: most searches need little, and it
        is better to finish some than none."""
        return self.part(min(1.0, _MAX_SHARES / count))

    def rest(self) -> Budget:
        """The time left, for the work that follows, even after an interruption."""
        return replace(self, seconds=self.left(), ended=None, whole=None, title=self._name)

    def grace(self) -> Budget:
        """The time left and a little more, to build the result."""
        top, left = self._top, self.left()
        if left is None and self.ended is None:
            return Budget(clock=self.clock)
        share = _MOST_GRACE if top.seconds is None else _GRACE_SHARE * top.seconds
        more = min(_MOST_GRACE, max(_LEAST_GRACE, share))
        return Budget((left or 0.0) + more, clock=self.clock)

    def skip(self, what: str) -> None:
        """Notes work that is skipped because the time ran out."""
        if what not in self.skipped:
            self.skipped.append(what)

    def report(self, step: str, share: float) -> None:
        """Reports progress: the current step and the share of it that is done."""
        if self.progress is not None:
            self.progress(step, min(share, 1.0))

    @property
    def _name(self) -> str:
        seconds = self._top.seconds
        if self._top.title is not None:
            return self._top.title
        return "time budget" if seconds is None else f"time budget of {seconds:g} s"

    @property
    def _top(self) -> Budget:
        return self if self.whole is None else self.whole._top


def spans(count: int, size: int, budget: Budget | None) -> Iterator[tuple[int, int]]:
    """(first, stop) of the slices of long work, with a budget check between slices; raises `Cancelled` if it is
    spent."""
    for first in range(0, count, size):
        if first and budget is not None:
            budget.check()
        yield first, min(first + size, count)
