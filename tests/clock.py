"""A clock for tests of time budgets: how long something takes is how often it looks at the clock."""

from __future__ import annotations


class Ticking:
    """A clock on which each look takes some seconds."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.looks, self._seconds = 0, seconds

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * self._seconds
