"""How long a search may take, and who asked it to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from holdfast.executors.executor import Cancelled

Progress = Callable[[str, float], None]  # what is being done, and the share of it that is done

_MAX_OF_ONE = 4  # times the equal share
_MORE, _LEAST_GRACE, _GRACE = 0.05, 0.5, 2.0  # of a budget, but at least and at most so many seconds


@dataclass
class Budget:
    """A deadline, by the clock. `spent` stays true once it is: what was proven until then is the result. `divided`:
    whether each of several searches has its share, so that one does not take the time of the others.

    >>> Budget(seconds=None).spent(), Budget(seconds=0).spent()
    (False, True)
    """

    seconds: float | None = None
    progress: Progress | None = None
    ended: str | None = None  # by what: the time budget, an interruption
    divided: bool = False
    clock: Callable[[], float] = time.monotonic
    whole: Budget | None = None  # that this one is a part of
    title: str | None = None  # in words, where it is the rest of one
    skipped: list[str] = field(default_factory=list)  # what was left out for want of time, in words
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
        """Ends work of which nothing counts before it is done."""
        if self.spent():
            raise Cancelled(f"the {self.ended} is spent")

    def left(self) -> float | None:
        """The seconds that are left; None where there is no limit."""
        own = None if self.seconds is None else self.seconds - (self.clock() - self._start)
        rest = [some for some in (own, self.whole.left() if self.whole is not None else None) if some is not None]
        return max(0.0, min(rest)) if rest else None

    def part(self, share: float = 1.0, reserve: float = 0.0) -> Budget:
        """A share of what is left beside a reserve, for one of several searches; what it does not use, others can."""
        left = self.left() if self.divided else None
        seconds = None if left is None else max(0.0, left - reserve) * share
        return replace(self, seconds=seconds, ended=None, whole=self)

    def for_one_of(self, count: int) -> Budget:
        """A share for the next of so many searches that are alike. It is larger than that of all: most need little, and
        it is better to finish some than none."""
        return self.part(min(1.0, _MAX_OF_ONE / count))

    def rest(self) -> Budget:
        """What is left, for what follows: also where this one was interrupted."""
        return replace(self, seconds=self.left(), ended=None, whole=None, title=self._name)

    def grace(self) -> Budget:
        """Time to tell what was proven: what is left, and a little more where that is nothing."""
        top, left = self._top, self.left()
        if left is None and self.ended is None:
            return Budget(clock=self.clock)
        more = _GRACE if top.seconds is None else min(_GRACE, max(_LEAST_GRACE, _MORE * top.seconds))
        return Budget((left or 0.0) + more, clock=self.clock)

    def skip(self, what: str) -> None:
        """Notes what is left out for want of time."""
        if what not in self.skipped:
            self.skipped.append(what)

    def tell(self, what: str, share: float) -> None:
        if self.progress is not None:
            self.progress(what, min(share, 1.0))

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
    """(first, stop) of the slices of long work; between two of them the budget is looked at, and ends it."""
    for first in range(0, count, size):
        if first and budget is not None:
            budget.check()
        yield first, min(first + size, count)
