"""Rules in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.rules.names import Rank, by_name
from holdfast.rules.rule import Fd, Ind, Key, Rule


def sentence(rule: Rule, rank: Rank = by_name, error: float = 0.0) -> str:
    """A rule as a sentence; one that holds only nearly says so.

    >>> from holdfast.rules.grammar import parse
    >>> sentence(parse("key(area, phone)"))
    'No two rows have the same area and phone.'
    >>> sentence(parse("zip -> city"), error=0.004)
    'Rows with the same zip have the same city, nearly always (error 0.4 %).'
    """
    doubt = f", nearly always (error {100 * error:.2g} %)" if error else ""
    return f"{_claim(rule, rank)}{doubt}."


def _claim(rule: Rule, rank: Rank) -> str:
    if isinstance(rule, Key):
        return f"No two rows have the same {_listed(sorted(rule.columns, key=rank))}"
    if isinstance(rule, Fd) and not rule.left:
        return f"{rule.right} is the same in every row"
    if isinstance(rule, Fd):
        return f"Rows with the same {_listed(sorted(rule.left, key=rank))} have the same {rule.right}"
    if isinstance(rule, Ind):
        left, right = _listed(rule.left), _listed(rule.right)
        return f"Every {left} of {rule.left_table} occurs as {right} of {rule.right_table}"
    return f"It holds that {rule.text(rank)}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
