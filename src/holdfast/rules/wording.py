"""Lists, counts and percentages for sentences."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def percent(share: float) -> str:
    """A share in percent: two significant digits, whole numbers from ten percent on.

    >>> percent(0.0042), percent(0.314), percent(0)
    ('0.42 %', '31 %', '0 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.1 or not share else f"{100 * share:.2g} %"
