"""What a rulebook knows, gathered for a page: numbers, rules by kind, the worst violations, how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import HoldfastError, RuleError
from holdfast.ranking.rank import DEFAULT_MOST, Ranked
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import forms, require_fits
from holdfast.rules.grammar import parse
from holdfast.rules.rule import KINDS, Ind, Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import clash, sentence, standing
from holdfast.rules.sql import violations_sql
from holdfast.violations.look import Look, Violation
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import ACCEPTED, SUGGESTED, Decisions, look_at
from holdfast.workflow.history import Event, History, Point
from holdfast.workflow.masking import Mask

Record = dict[str, Any]
KIND_NAMES = {
    "key": "Keys",
    "fd": "Functional dependencies",
    "ind": "Inclusions and foreign keys",
    "order": "Order dependencies",
    "dc": "Denial constraints",
}
_WORST, _EXAMPLES, _TRENDS, _EVENTS = 10, 3, 6, 40
_MISFIT = "It does not fit"
_ROWS_LOOKED_AT = 200_000  # of all tables, for suggestions of which nothing is known


@dataclass(frozen=True)
class Line:
    """One rule in a list."""

    id: str
    kind: str
    rule: str
    sentence: str
    status: str
    severity: str = ""
    owner: str = ""
    violations: int | None = None
    known: int = 0  # of them, by the baseline
    nulls: str = ""
    filter: str = ""
    error: float = 0.0
    score: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownCell:
    """A column of a violation side by side: the values of both rows, and whether the rule compares them."""

    column: str
    t: str
    s: str | None
    state: str  # clash, same or other


@dataclass(frozen=True)
class Shown:
    """A violation for a page; everything in it is text that is still to be escaped."""

    t: int
    s: int | None
    names: tuple[str, ...]
    words: str
    cells: tuple[ShownCell, ...]


@dataclass(frozen=True)
class Worst:
    """A rule with many violations, and some of them."""

    line: Line
    table: str
    rows: int
    shown: tuple[Shown, ...]
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Everything that a report shows."""

    name: str
    version: int
    time: str
    tables: tuple[tuple[str, int, int], ...]  # name, rows, columns
    lines: tuple[Line, ...]
    counts: dict[str, int]  # of found rules, by kind
    worst: tuple[Worst, ...] = ()
    timeline: tuple[Record, ...] = ()
    trends: dict[str, list[Point]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()

    @property
    def by_kind(self) -> list[tuple[str, list[Line]]]:
        return [(kind, lines) for kind in KINDS if (lines := [line for line in self.lines if line.kind == kind])]

    @property
    def violated(self) -> int:
        return sum(1 for line in self.lines if line.status == ACCEPTED and line.violations)

    @property
    def accepted(self) -> int:
        return sum(1 for line in self.lines if line.status == ACCEPTED)

    @property
    def violations(self) -> int:
        return sum(line.violations or 0 for line in self.lines if line.status == ACCEPTED)


def facts_of(book: Rulebook, name: str, most: int = DEFAULT_MOST) -> Facts:
    """Gathers them. O(rows) for each suggestion that only nearly holds, and for each of the worst rules."""
    history, mask = History(book), Mask.of(book)
    found = book.found()
    decided = lines_of(book)
    known = Decisions.of(book).rule_ids
    lines = [line for line in decided if line.status in (ACCEPTED, SUGGESTED)]
    lines += [line_of_ranked(ranked, book.discovery_nulls) for ranked in book.best(most) if ranked.id not in known]
    lines = [_counted(book, line, found) for line in lines]
    violated = sorted((line for line in lines if line.violations), key=_worst_first)
    chosen = [line for line in violated if line.status == ACCEPTED][:_TRENDS]
    return Facts(
        name=name,
        version=book.version,
        time=book.records()[-1]["time"],
        tables=tuple((table, book.count(table), len(schema)) for table, schema in book.schemas.items()),
        lines=tuple(lines),
        counts={kind: len(found.of(kind)) for kind in KINDS if len(found.of(kind))},
        worst=tuple(_worst(book, line, mask) for line in violated[:_WORST]),
        timeline=tuple(history.counts()),
        trends={line.rule: history.trend(line.id) for line in chosen},
        events=tuple(history.events()[-_EVENTS:][::-1]),
    )


def lines_of(book: Rulebook) -> list[Line]:
    """The rules that people decided about. One that is checked has its violations, and how many of them are known."""
    baseline, checked = Baseline.of(book), {entry.id for entry in book.entries}
    made = []
    for entry in Decisions.of(book).entries:
        count = book.count_violations(entry.id) if entry.id in checked else None
        words = _words(book, entry, count)
        known = baseline.count(entry.id) if count else 0
        made.append(
            Line(
                id=entry.id,
                kind=entry.value.kind,
                rule=entry.rule,
                sentence=words,
                status=entry.status,
                severity=entry.severity,
                owner=entry.owner or "",
                violations=count,
                known=min(known, count or 0),
                nulls=entry.nulls,
                filter=entry.filter or "",
                error=book.error(entry.id) if count is not None else 0.0,
            )
        )
    return made


def _words(book: Rulebook, entry: RuleEntry, count: int | None) -> str:
    try:
        require_fits(entry.value, book.schemas)
    except RuleError as error:
        return f"{_MISFIT} the tables: {error}"
    if count is not None:
        return standing(entry.value, count, where=entry.filter)
    return entry.description or sentence(entry.value, where=entry.filter)


def line_of_ranked(ranked: Ranked, nulls: str) -> Line:
    return Line(
        ranked.id,
        ranked.kind,
        ranked.text,
        ranked.sentence,
        "found",
        nulls=nulls,
        error=ranked.error,
        score=ranked.score,
        reasons=ranked.reasons,
        notes=ranked.notes,
    )


def _counted(book: Rulebook, line: Line, found: RuleSet) -> Line:
    """With its violations, sought now, for a suggestion that may have some: it was found to hold only nearly, or its
    kind is not followed and the table is small enough to look."""
    if line.violations is not None or line.sentence.startswith(_MISFIT):
        return line
    rules = forms(parse(line.rule), book.schemas)
    mine = [b for b in found.blocks if b.kind == line.kind]
    block = next((b for b in mine if any(rule in RuleSet((b,)) for rule in rules)), None)
    if (block is not None and block.errors is None) or (block is None and _rows(book) > _ROWS_LOOKED_AT):
        return line
    look = look_at(book, line.id)
    return replace(line, violations=look.count, error=look.error)


def _rows(book: Rulebook) -> int:
    return sum(book.count(table) for table in book.schemas)


def _worst_first(line: Line) -> tuple[bool, int, int]:
    severity = ("error", "warn", "info", "").index(line.severity)
    return line.status != ACCEPTED, severity, -(line.violations or 0)


def _worst(book: Rulebook, line: Line, mask: Mask) -> Worst:
    look = look_at(book, line.id)
    rule, table = look.item.rule, look.table
    shown = tuple(shown_violation(rule, table, violation, mask) for violation in look.page(0, _EXAMPLES))
    return Worst(line, table, look.count_rows(), shown, causes_of(look, mask))


def query_of(book: Rulebook, look: Look, dialect: str) -> str:
    """SQL to see the violations in the warehouse; an error where there can be none."""
    key, item = book.tables[look.table].key, look.item
    if not key:
        raise HoldfastError(f"{look.table} has no key: SQL has no other way to tell rows apart")
    return violations_sql(item.rule, book.schemas, key=key, nulls=item.nulls, dialect=dialect, where=item.where)


def causes_of(look: Look, mask: Mask, most: int = 5, look_at: int = 10_000) -> tuple[str, ...]:
    """What rows have in common, and what to remove, in words; from the first violations, and said so."""
    if mask.hides_names(look.table):
        return ()
    explained, made = look.explain(most, look_at), []
    for (_, pairs, remove, exact), size in zip(explained.causes, explained.sizes, strict=True):
        names = ", ".join(str(name) for name in remove[:most]) + (" ..." if len(remove) > most else "")
        made.append(
            f"{explained.bounded(size, exact)} rows clash with each other in {explained.bounded(pairs, exact)} pairs; "
            f"{explained.advice(exact)}: {names}"
        )
    return tuple(made)


def shown_violation(rule: Rule, table: str, violation: Violation, mask: Mask) -> Shown:
    """A violation as texts, masked; whether cells clash is decided by their values."""
    rows = [row for row in violation.rows if row is not None]
    hidden = [mask.row(table, row) for row in rows]
    ids = [id_ for id_ in (violation.t, violation.s) if id_ is not None]
    names = [mask.name(table, name, id_) for name, id_ in zip(violation.names, ids, strict=False)]
    same = {c for c in violation.compared if len(rows) > 1 and rows[0][c] == rows[1][c]}
    cells = []
    for column in rows[0]:
        state = "other" if column not in violation.compared else "same" if column in same else "clash"
        texts = [text_of(row[column]) for row in hidden]
        cells.append(ShownCell(column, texts[0], texts[1] if len(texts) > 1 else None, state))
    pairs = {c: (hidden[0][c], hidden[1][c] if len(rows) > 1 else None) for c in violation.compared}
    words = clash(rule, text_of(names[0]), text_of(names[1]) if len(names) > 1 else None, pairs, same)
    return Shown(violation.t, violation.s, tuple(text_of(name) for name in names), words, tuple(cells))


def text_of(value: object) -> str:
    """A cell, or the name of a row, for people."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {text_of(part)}" for name, part in value.items())
    return str(value)


def references_of(book: Rulebook, least: float = 0.3) -> list[tuple[Ind, str]]:
    """Inclusions between tables for a graph, with their status: decided ones, and those that look like foreign keys."""
    entries = [(entry.value, entry.status) for entry in Decisions.of(book).entries]
    decided = {rule: status for rule, status in entries if isinstance(rule, Ind)}
    there = set(book.schemas)
    made: dict[Ind, str] = {
        rule: status
        for rule, status in decided.items()
        if status in (ACCEPTED, SUGGESTED) and {rule.left_table, rule.right_table} <= there
    }
    if len(book.schemas) > 1:
        likely = [key for key in book.encoded.likely_keys if key.score >= least and key.rule not in decided]
        made |= {key.rule: "found" for key in likely}
    return list(made.items())


def require_ui(what: str) -> None:
    """Says how to get what reports and pages need."""
    import importlib.util

    missing = [
        name for name in ("jinja2", "altair", "vl_convert", "fastapi", "uvicorn") if not importlib.util.find_spec(name)
    ]
    if missing:
        raise HoldfastError(f"{what} needs {', '.join(missing)}: pip install 'holdfast-data[ui]'")
