"""What the searches for rules worth reading return."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.rules.rule import Calculation, Dc, Fd, Key, Order

MAX_EXCEPTIONS = 0.01  # the share of rows that may disagree with a rule that is shown


@dataclass(frozen=True)
class Credible:
    """A rule of one table, how credible it is (0 to 1), its error, and the reasons."""

    rule: Key | Fd | Order | Dc | Calculation
    score: float
    error: float = 0.0
    reasons: tuple[str, ...] = ()
