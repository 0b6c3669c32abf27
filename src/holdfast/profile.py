"""The rules that hold on some data, with the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from holdfast.discovery.budget import Budget
from holdfast.discovery.database import Searched
from holdfast.discovery.search_options import SearchOptions
from holdfast.encoded_tables import EncodedTables
from holdfast.html_table import html_table
from holdfast.ranking.foreign_keys import ForeignKey
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import WORTH_READING, Ranked
from holdfast.rules.rule import KINDS
from holdfast.rules.ruleset import RuleSet


@dataclass(frozen=True, eq=False, repr=False)
class Profile(RuleSet):
    """The rules that hold on some data, with the data: so that it can say which are worth reading, and why.

    `searched` are the searches that finished: their rules are all there are. Of an `unfinished` one rules may be
    missing, so that it says nothing of what does not hold. `left`: how many seconds of the time budget are left for
    each further question; what it does not finish is told in `limits`. Questions on one `clock` share that time.
    """

    data: EncodedTables | None = field(default=None)
    options: SearchOptions | None = field(default=None)
    searched: tuple[Searched, ...] = ()
    unfinished: tuple[Searched, ...] = ()
    left: float | None = None
    clock: Budget | None = None

    @contextmanager
    def timed(self) -> Iterator[Budget]:
        """The time for a question; what it skips becomes a limit."""
        budget = self.clock or Budget(self.left, divided=True)
        yield budget
        new = tuple(text for text in budget.skipped if text not in self.limits)
        object.__setattr__(self, "limits", (*self.limits, *new))  # which questions are asked later is not known before

    def best(self, most: int | None = DEFAULT_MOST, least: float = WORTH_READING) -> list[Ranked]:
        """The rules of each kind that a person finds worth reading, the best first, each with its reasons; also rules
        with which up to 1 % of the rows disagree."""
        if self.data is None or self.options is None:
            return []
        with self.timed() as budget:
            return self.data.best(self, self.options, most, least, budget)

    def __str__(self) -> str:
        """The rules worth reading, as a text table, under a line that counts all rules."""
        best = self.best()
        lines = [f"{ranked.score:5.2f}  {ranked.kind:5}  {ranked.text}" for ranked in best]
        counts = ", ".join(f"{len(self.of(kind)):,} {kind}" for kind in KINDS if len(self.of(kind))) or "no rules"
        shown = f"{len(best)} worth reading:" if best else "none of them worth reading"
        return "\n".join([f"{counts}{'' if self.complete else ' (not complete)'}; {shown}", *lines])

    def _repr_html_(self) -> str:
        best = self.best()
        rows = [(r.kind, r.score, r.text, r.sentence, "; ".join(r.reasons)) for r in best]
        shown = html_table(["kind", "score", "rule", "sentence", "why"], rows, len(rows), most=len(rows))
        return f"<p>{escape(repr(self))}; those worth reading:</p>{shown}"

    @property
    def foreign_keys(self) -> list[ForeignKey]:
        """Inclusions between tables that look like foreign keys, the likeliest first; also some that nearly hold."""
        if self.data is None or self.options is None or "ind" not in self.options.kinds:
            return []
        with self.timed() as budget:
            return self.data.keys_within(budget)

    @cached_property
    def row_rules(self) -> RuleSet:
        """Rules about single rows, where denial constraints were asked for."""
        if self.data is None or self.options is None or "dc" not in self.options.kinds:
            return RuleSet()
        with self.timed() as budget:
            return self.data.row_rules(self.options.nulls, self.options.max_error, budget=budget)
