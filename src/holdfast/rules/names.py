"""Names and literals as they are written in rule text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from holdfast.table.kind import LiteralValue

IDENTIFIER = r"[^\W\d]\w*"
RESERVED = frozenset({"and", "in", "not", "key", "is", "null"})
Rank = Callable[[str], tuple[int, str]]  # the sort key of a column


def quoted(name: str) -> str:
    """A name as rule text: unchanged, or in backticks.

    >>> quoted("zip"), quoted("zip code"), quoted("key"), quoted("a`b")
    ('zip', '`zip code`', '`key`', '`a``b`')
    """
    if re.fullmatch(IDENTIFIER, name) and name not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def literal_text(value: LiteralValue) -> str:
    """A literal as rule text.

    >>> from datetime import date
    >>> literal_text(Decimal("-1.50")), literal_text("it's"), literal_text(date(2026, 1, 31))
    ('-1.5', "'it''s'", "date '2026-01-31'")
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"timestamp '{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z'"
    return f"date '{value.isoformat()}'"


def by_name(name: str) -> tuple[int, str]:
    """Ranks columns by name, for rules without a schema."""
    return (0, name)


def by_position(names: Sequence[str]) -> Rank:
    """Ranks columns by their position in a schema; unknown columns come last, by name."""
    places = {name: i for i, name in enumerate(names)}
    return lambda name: (places.get(name, len(places)), name)
