"""How long a search may take, and who asked it to end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Progress = Callable[[str, float], None]  # what is being done, and the share of it that is done


@dataclass
class Budget:
    """A deadline, by the clock. `spent` stays true once it is: what was proven until then is the result.

    >>> Budget(seconds=None).spent(), Budget(seconds=0).spent()
    (False, True)
    """

    seconds: float | None = None
    progress: Progress | None = None
    ended: str | None = None  # by what: the time budget, an interruption
    _start: float = field(default_factory=time.monotonic)

    def spent(self) -> bool:
        if self.ended is None and self.seconds is not None and time.monotonic() - self._start >= self.seconds:
            self.ended = f"time budget of {self.seconds:g} s"
        return self.ended is not None

    def tell(self, what: str, share: float) -> None:
        if self.progress is not None:
            self.progress(what, min(share, 1.0))
