"""The newest version of a rulebook for pages, while another process may write it.

Pages read an immutable `View`. A thread follows the rulebook and replaces the view when a version appears. Requests
that need rows (violations, explanations) take a lock, one at a time.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, StoreError
from holdfast.ranking.rank import Ranked
from holdfast.report.charts import overview_charts
from holdfast.report.facts import FOUND, Facts, Line, line_of_ranked, lines_of, references_of, trends_of
from holdfast.report.graph import graph_svg
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import require_fits
from holdfast.rules.grammar import parse, parse_filter
from holdfast.rules.names import quoted
from holdfast.rules.rule import KINDS, Rule
from holdfast.rules.sentence import sentence
from holdfast.store.kept_versions import MANIFESTS
from holdfast.violations.look import Look
from holdfast.web.table_page import TablePage, columns_of
from holdfast.workflow.decisions import RETIRED, SUGGESTED, Decisions, adopt, decided_at, deciding
from holdfast.workflow.history import Event, History, Point
from holdfast.workflow.masking import Mask
from holdfast.workflow.suggestions import best_survivors, of_all_kinds
from holdfast.workflow.survival import Survivals

log = logging.getLogger("holdfast")
Made = TypeVar("Made")

STATUS = ("accepted", "suggested", "rejected", "retired", FOUND)
_MAX_LOOKS = 8  # rules whose violations are cached
_MAX_EVENTS = 500
_POLL = 0.3  # seconds


@dataclass(frozen=True)
class View:
    """A version of a rulebook, as lists and overviews show it."""

    facts: Facts
    lines: tuple[Line, ...]  # rules with a decision, then the best found rules, then all other found rules
    by_id: dict[str, Line]
    events: tuple[Event, ...]
    columns: tuple[tuple[str, tuple[str, ...]], ...]  # of each table
    number: int  # of the view, from 0

    @property
    def version(self) -> int:
        return self.facts.version


class Snapshot:
    """The newest view of a rulebook."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._book = Rulebook.open(directory)
        self._looks: OrderedDict[tuple[str, str, str], Look] = OrderedDict()  # by rule, null policy and filter
        self._found: tuple[Line, ...] | None = None
        self._events: list[Event] = []
        self._best: list[Ranked] = []
        self._made: tuple[int, dict[str, Any]] = (-1, {})  # the number of a view, and what was made of it
        self._mask = Mask.of(self._book)
        self._seen = self._state()
        self._newest = self._view(0)
        self._thread: threading.Thread | None = None

    @property
    def view(self) -> View:
        """The newest view. Reads new decisions at once, because they may mask a column."""
        if decided_at(self.directory) != self._seen[1]:
            try:
                self.look_again()
            except HoldfastError as error:
                log.warning("the rulebook could not be read: %s", error)
        return self._newest

    # --- following ------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Starts a thread that looks for new versions and decisions until `close`."""
        self._thread = threading.Thread(target=self._run, name="holdfast-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._book.close()

    def _run(self) -> None:
        while not self._stop.wait(_POLL):
            try:
                self.look_again()
            except Exception as error:  # such as a mistake in rules.yml: keep the pages, and try again
                log.warning("the rulebook could not be read: %s", error)

    def _state(self) -> tuple[str, tuple[int, int]]:
        """Changes with every version and decision: the newest manifest, and the state of the decision file."""
        newest = max((path.name for path in (self.directory / MANIFESTS).glob("[0-9]*.json")), default="")
        return newest, decided_at(self.directory)

    def look_again(self) -> bool:
        """Updates the view to the newest version and decisions. Returns whether there was something new."""
        state = self._state()
        if state == self._seen:
            return False
        with self._lock:
            before = self._book.version
            changes = self._book.refresh()
            mask = Mask.of(self._book)
            if changes is None or mask != self._mask:  # nothing that was made under another mask may be shown
                self._looks.clear()
                self._found, self._events, self._mask = None, [], mask
            for change in changes or ():
                for look in self._looks.values():
                    look.follow(change)
            if any(record.get("rules") and any(map(any, record["rules"].values())) for record in self._since(before)):
                self._found = None
            self._newest = self._view(self._newest.number + 1)
            self._seen = state
        return True

    def _since(self, version: int) -> Iterator[dict[str, Any]]:
        return (record for record in self._book.records() if record["version"] > version)

    def _view(self, number: int) -> View:
        book = self._book
        decided_ids = Decisions.of(book).rule_ids
        if self._found is None:
            self._best = best_survivors(book)
            self._found = tuple(_found_lines(book, self._best))
        decided = _with_scores(lines_of(book), self._best)
        lines = (*decided, *(line for line in self._found if line.id not in decided_ids))
        history = History(book)
        last_version = self._events[-1].version if self._events else -1
        self._events = (self._events + history.events(after=last_version))[-_MAX_EVENTS:]
        facts = Facts(
            name=self.directory.resolve().stem,
            version=book.version,
            time=book.records()[-1]["time"],
            tables=tuple((table, book.count(table), len(schema)) for table, schema in book.schemas.items()),
            lines=tuple(decided),
            counts={kind: len(book.found().of(kind)) for kind in KINDS if len(book.found().of(kind))},
            timeline=tuple(history.counts()),
        )
        by_id = {line.id: line for line in reversed(lines)}
        columns = tuple((table, schema.names) for table, schema in book.schemas.items())
        return View(facts, lines, by_id, tuple(self._events[::-1]), columns, number)

    # --- lists ----------------------------------------------------------------------------------------------

    def rules(
        self, search: str = "", kind: str = "", column: str = "", status: str = "", page: int = 1, size: int = 50
    ) -> tuple[int, list[Line]]:
        """The number of matching rules, and a page of them. Each word of the search is the name of a column that the
        rule mentions, in any case, or else a part of its text. O(rules)."""
        words = search.lower().split()
        tests: list[Callable[[Line], bool]] = []
        if kind:
            tests.append(lambda line: line.kind == kind)
        if status:
            tests.append(lambda line: line.status == status)
        named = {name.lower(): name for _, names in self.view.columns for name in names}
        if search.lower().strip() in named:  # also a name of several words
            column, words = column or named[search.lower().strip()], []
        for word in words:
            tests.append(self._mentions(named[word]) if word in named else _contains(word))
        if column:
            tests.append(self._mentions(column))
        matching = [line for line in self.view.lines if all(test(line) for test in tests)] if tests else self.view.lines
        on_page = matching[(page - 1) * size : page * size]
        return len(matching), [_with_sentence(line) for line in on_page]

    def _mentions(self, column: str) -> Callable[[Line], bool]:
        """A test whether a rule mentions a column: as a whole word of its text, and not only as the name of a table."""
        name = re.compile(rf"(?<![\w`]){re.escape(quoted(column))}(?![\w`])")
        text = quoted(column).strip("`")  # a quick test first
        if column in {table for table, _, _ in self.view.facts.tables}:
            return lambda line: name.search(line.rule) is not None and self._has(parse(line.rule), column)
        return lambda line: text in line.rule and name.search(line.rule) is not None

    def _has(self, rule: Rule, column: str) -> bool:
        return any(column in columns_of(rule, table, self._book) for table, _ in self.view.columns)

    def line(self, rule_id: str) -> Line | None:
        line = self.view.by_id.get(rule_id)
        return None if line is None else _with_sentence(line)

    # --- rows -----------------------------------------------------------------------------------------------

    @contextmanager
    def looking(self, line: Line) -> Iterator[tuple[Rulebook, Look, Mask]]:
        """The violations of a rule. Holds the lock."""
        with self._lock:
            key = (line.rule, line.nulls, line.filter)
            if key not in self._looks:
                where = parse_filter(line.filter) if line.filter else frozenset()
                self._looks[key] = self._book.look_alone(line.rule, line.nulls, where)
            self._looks.move_to_end(key)
            while len(self._looks) > _MAX_LOOKS:
                self._looks.popitem(last=False)
            yield self._book, self._looks[key], Mask.of(self._book)

    @contextmanager
    def book(self) -> Iterator[tuple[Rulebook, Mask]]:
        """The rulebook. Holds the lock."""
        with self._lock:
            yield self._book, Mask.of(self._book)

    def of_view(self, name: str, make: Callable[[Rulebook, Mask], Made]) -> Made:
        """What is made of the newest view, once for each view. Holds the lock."""
        with self._lock:
            number = self._newest.number
            if self._made[0] != number:
                self._made = number, {}
            made = self._made[1]
            if name not in made:
                made[name] = make(self._book, Mask.of(self._book))
            found: Made = made[name]
            return found

    def graph(self) -> str:
        """The graph of tables and foreign keys. O(rows) for each view."""
        return self.of_view("graph", lambda book, _: graph_svg(list(book.schemas), references_of(book)))

    def charts(self) -> list[tuple[str, str]]:
        """Charts of the history, with titles. O(versions) for each view."""
        facts = self._newest.facts
        return self.of_view("charts", lambda book, _: overview_charts(facts.timeline, trends_of(book, facts.lines)))

    def table_page(self, table: str) -> TablePage:
        """A table and its columns. O(rows x columns) for each view."""
        view, best = self._newest, self._best
        tables = self.of_view("tables", lambda book, _: book.encoded.in_words(of_all_kinds(book))[0])
        said = next(said for said in tables if said.table == table)
        return self.of_view(f"table {table}", lambda book, mask: TablePage.of(book, said, mask, view.lines, best))

    def history_of(self, line: Line) -> tuple[list[Event], list[Point], str]:
        """The events of a rule, newest first; its trend if it is checked; what it survived, in words."""
        with self._lock:
            survivals = Survivals(self._book)
            events = survivals.history.events(line.rule)[::-1]
            if any(entry.id == line.id for entry in self._book.entries):
                return events, survivals.history.trend(line.id), str(survivals.of_checked(line.id) or "")
            return events, [], str(survivals.of(parse(line.rule)) or "")

    # --- deciding -------------------------------------------------------------------------------------------

    def decide(self, line: Line, status: str, **fields: Any) -> tuple[str, str]:
        """Saves a decision, or takes one back with the status `found`. Returns the new status, and when it takes
        effect: now, or with the next batch if the rulebook cannot be written now."""
        with self._lock:
            require_fits(parse(line.rule), self._book.schemas)
            with deciding(self._book) as decisions:
                if status == FOUND and len(decisions.entries) == 1:
                    status = RETIRED  # a file without rules looks like a damaged one
                if status == FOUND:
                    decisions.forget(line.id)
                else:
                    decisions.decide(line.rule if line.status == FOUND else line.id, status, book=self._book, **fields)
            with Rulebook.open(self.directory) as writer:
                try:
                    writer.hold()
                except StoreError as error:
                    said = f"saved; takes effect with the next batch (the rulebook cannot be written now: {error})"
                else:
                    adopt(writer)
                    said = "counts from now on"
            self.look_again()
        return status, said


def _with_scores(lines: Iterable[Line], best: Sequence[Ranked]) -> list[Line]:
    """Rules with a decision: suggestions, the best first, with what is known of them now; then all others."""
    known = {one.id: one for one in best}
    told = [
        replace(line, sentence=one.sentence, score=one.score, reasons=one.reasons, survived=one.survived)
        if line.status == SUGGESTED and (one := known.get(line.id)) is not None
        else line
        for line in lines
    ]
    return sorted(told, key=lambda line: -(line.score or 0) if line.status == SUGGESTED else -2)


def _found_lines(book: Rulebook, best: Sequence[Ranked]) -> Iterator[Line]:
    """The best rules with their reasons, then all others, whose sentences are made when they are shown."""
    best_texts = {ranked.text for ranked in best}
    yield from (line_of_ranked(ranked, book.discovery_nulls) for ranked in best)
    for block in book.found().blocks:
        for rule, text, error, _ in block.with_details():
            if text not in best_texts:
                yield Line(rule.id, block.kind, text, "", FOUND, nulls=book.discovery_nulls, error=error)


def _contains(word: str) -> Callable[[Line], bool]:
    return lambda line: word in line.rule.lower()


def _with_sentence(line: Line) -> Line:
    return line if line.sentence else replace(line, sentence=sentence(parse(line.rule), error=line.error))
