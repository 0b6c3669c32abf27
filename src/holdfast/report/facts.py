"""What a rulebook knows, gathered for a page: numbers, rules by kind, the worst violations, how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.discovery.rank import DEFAULT_MOST, Ranked
from holdfast.errors import HoldfastError
from holdfast.rulebook import Rulebook
from holdfast.rules.rule import KINDS, Ind
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.sentence import clash, sentence, standing
from holdfast.violations.look import Look, Violation
from holdfast.workflow.decisions import ACCEPTED, SUGGESTED, Decisions
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
    error: float = 0.0
    score: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
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
    cells: tuple[Cell, ...]


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
    decisions, history = Decisions.of(book), History(book)
    found = book.found()
    lines = [line_of(book, entry) for entry in decisions.with_status(ACCEPTED, SUGGESTED)]
    known = {line.id for line in lines} | {entry.value.id for entry in decisions.entries}
    lines += [line_of_ranked(ranked) for ranked in book.best(most) if ranked.id not in known]
    lines = [_counted(book, line) for line in lines]
    violated = sorted(
        (line for line in lines if line.violations), key=lambda line: (line.status != ACCEPTED, -_weight(line))
    )
    mask = Mask(decisions.masked, book.tables)
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


def line_of(book: Rulebook, entry: RuleEntry) -> Line:
    """A rule that somebody gave, or that was suggested. One that is checked has its violations."""
    checked = next((e for e in book.entries if e.id == entry.id), None)
    count = book.count_violations(entry.id) if checked is not None else None
    error = book.error(entry.id) if checked is not None else 0.0
    words = standing(entry.value, count) if count is not None else entry.description or sentence(entry.value)
    return Line(
        entry.id, entry.value.kind, entry.rule, words, entry.status, entry.severity, entry.owner or "", count, error
    )


def line_of_ranked(ranked: Ranked) -> Line:
    return Line(
        ranked.id,
        ranked.kind,
        ranked.text,
        ranked.sentence,
        "found",
        error=ranked.error,
        score=ranked.score,
        reasons=ranked.reasons,
        notes=ranked.notes,
    )


def _counted(book: Rulebook, line: Line) -> Line:
    """With its violations, sought now, for a suggestion that only nearly holds."""
    if line.violations is not None or "nearly always" not in line.sentence:
        return line
    look = book.look(line.rule, book.discovery_nulls)
    return Line(**{**vars(line), "violations": look.count, "error": look.error})


def _weight(line: Line) -> float:
    return {"error": 3, "warn": 2}.get(line.severity, 1) * 1e15 + (line.violations or 0)


def _worst(book: Rulebook, line: Line, mask: Mask) -> Worst:
    look = book.look(line.rule, None if line.status == ACCEPTED else book.discovery_nulls)
    shown = tuple(shown_violation(look, violation, mask) for violation in look.page(0, _EXAMPLES))
    return Worst(line, look.table, look.count_rows(), shown, causes_of(look, mask))


def causes_of(look: Look, mask: Mask, most: int = 5, look_at: int = 10_000) -> tuple[str, ...]:
    """What rows have in common, and what to remove, in words; from the first violations."""
    if mask.hides_names(look.table):
        return ()
    made = [f"of the first {look_at:,} violations:"] if look.count > look_at else []
    explained = look.explain(most, look_at)
    for (_, pairs, remove, exact), size in zip(explained.causes, explained.sizes, strict=True):
        names = ", ".join(str(name) for name in remove[:most]) + (" ..." if len(remove) > most else "")
        how = "the fewest rows to remove" if exact else "a few rows to remove, found greedily"
        made.append(f"{size} rows clash with each other in {pairs:,} pairs; {how}: {names}")
    return tuple(made)


def shown_violation(look: Look, violation: Violation, mask: Mask) -> Shown:
    """A violation as texts, masked."""
    table = look.table
    rows = [mask.row(table, row) for row in violation.rows if row is not None]
    ids = [violation.t] if violation.s is None else [violation.t, violation.s]
    names = [mask.name(table, name, id_) for name, id_ in zip(violation.names, ids, strict=False)]
    cells = []
    for column in rows[0]:
        values = [row[column] for row in rows]
        compared = column in violation.compared
        clashes = compared and len(rows) > 1 and violation.rows[0][column] != violation.rows[1][column]  # type: ignore[index]
        state = "clash" if clashes or (compared and len(rows) == 1) else "same" if compared else "other"
        cells.append(Cell(column, text_of(values[0]), text_of(values[1]) if len(rows) > 1 else None, state))
    pairs = {c: (rows[0][c], rows[1][c] if len(rows) > 1 else None) for c in violation.compared}
    words = clash(look.item.rule, names[0], names[1] if len(names) > 1 else None, pairs)
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
    made: dict[Ind, str] = {rule: status for rule, status in decided.items() if status in (ACCEPTED, SUGGESTED)}
    if len(book.schemas) > 1:
        likely = [key for key in book.loaded.likely_keys if key.score >= least and key.rule not in decided]
        made |= {key.rule: "found" for key in likely}
    return list(made.items())


def require_ui(what: str) -> None:
    """Says how to get what reports and pages need."""
    import importlib.util

    missing = [
        name for name in ("jinja2", "altair", "vl_convert", "fastapi", "uvicorn") if not importlib.util.find_spec(name)
    ]
    if missing:
        raise HoldfastError(f"{what} needs {', '.join(missing)}: pip install 'holdfast[ui]'")
