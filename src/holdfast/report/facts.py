"""The content of a report or web page: numbers, rules by kind, the worst violations, and their history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import HoldfastError, RuleError
from holdfast.ranking.foreign_keys import best_targets
from holdfast.ranking.in_words import SectionLine, TableSections
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import LIKELY_KEY, Ranked
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import forms, require_fits
from holdfast.rules.grammar import parse
from holdfast.rules.rule import KINDS, Ind, Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import clash, sentence, standing, unordered, violations_in_words
from holdfast.rules.sql import violations_sql
from holdfast.violations.look import Look, Violation
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import ACCEPTED, SUGGESTED, Decisions, look_at
from holdfast.workflow.history import Event, History, Point
from holdfast.workflow.masking import Mask
from holdfast.workflow.suggestions import best_survivors, of_all_kinds

Record = dict[str, Any]
KIND_NAMES = {
    "key": "Keys",
    "fd": "Functional dependencies",
    "ind": "Inclusions and foreign keys",
    "order": "Order dependencies",
    "dc": "Denial constraints",
    "row": "Calculations in each row",
}
_MAX_WORST, _MAX_EXAMPLES, _MAX_EVENTS = 10, 3, 40
_MAX_GROUPS = 5  # of rows that clash, for a rule
FOUND = "found"  # and nobody has decided about it
_MISFIT = "It does not fit"
_MAX_ROWS_CHECKED = 200_000  # of all tables together, to count the violations of a suggestion


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
    known: int = 0  # violations in the baseline
    nulls: str = ""
    filter: str = ""
    error: float = 0.0
    score: float | None = None
    reasons: tuple[str, ...] = ()
    survived: str = ""  # `held through 51 batches`


@dataclass(frozen=True)
class ShownCell:
    """A column of a violation: the values of both rows, and whether the rule compares them."""

    column: str
    t: str
    s: str | None
    state: str  # clash, same or other


@dataclass(frozen=True)
class Shown:
    """A violation as unescaped texts for a page."""

    t: int
    s: int | None
    names: tuple[str, ...]
    words: str
    cells: tuple[ShownCell, ...]


@dataclass(frozen=True)
class Worst:
    """A rule with many violations, and examples of them: of keys and FDs the largest groups of rows that clash, in
    words, unless the table has masked columns; else pairs or rows."""

    line: Line
    table: str
    rows: int
    shown: tuple[Shown, ...]
    causes: tuple[str, ...]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """The content of a report."""

    name: str
    version: int
    time: str
    tables: tuple[tuple[str, int, int], ...]  # name, rows, columns
    lines: tuple[Line, ...]
    counts: dict[str, int]  # found rules by kind
    worst: tuple[Worst, ...] = ()
    timeline: tuple[Record, ...] = ()
    trends: dict[str, list[Point]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    said: tuple[TableSections, ...] = ()  # what is worth reading about each table
    references: tuple[SectionLine, ...] = ()

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

    @property
    def disagreeing(self) -> int:
        """The violations of accepted rules, a pair of rows that disagree once."""
        accepted = [line for line in self.lines if line.status == ACCEPTED and line.violations]
        return sum(unordered(parse(line.rule), line.violations or 0) for line in accepted)


def facts_of(book: Rulebook, name: str, most: int = DEFAULT_MOST) -> Facts:
    """The content of a report about a rulebook. O(rows) for each suggestion that nearly holds and each worst rule."""
    history, mask = History(book), Mask.of(book)
    found = book.found()
    decided = lines_of(book)
    decided_ids = Decisions.of(book).rule_ids
    lines = [line for line in decided if line.status in (ACCEPTED, SUGGESTED)]
    best = best_survivors(book, most)
    lines += [line_of_ranked(ranked, book.discovery_nulls) for ranked in best if ranked.id not in decided_ids]
    said, references = book.encoded.in_words(of_all_kinds(book, most))
    lines = [_counted(book, line, found) for line in lines]
    violated = sorted((line for line in lines if line.violations), key=_worst_first)
    return Facts(
        name=name,
        version=book.version,
        time=book.records()[-1]["time"],
        tables=tuple((table, book.count(table), len(schema)) for table, schema in book.schemas.items()),
        lines=tuple(lines),
        counts={kind: len(found.of(kind)) for kind in KINDS if len(found.of(kind))},
        worst=tuple(_worst(book, line, mask) for line in violated[:_MAX_WORST]),
        timeline=tuple(history.counts()),
        trends=trends_of(book, lines),
        events=tuple(history.events()[-_MAX_EVENTS:][::-1]),
        said=tuple(said),
        references=tuple(references),
    )


def trends_of(book: Rulebook, lines: Iterable[Line]) -> dict[str, list[Point]]:
    """How the violations of accepted rules changed with the versions, in pairs or rows: of the rules that ever had
    some, those with most violations now first."""
    accepted = sorted(
        (line for line in lines if line.status == ACCEPTED and line.violations is not None), key=_worst_first
    )
    history, trends = History(book), {}
    for line in accepted:
        points = history.trend(line.id)
        if any(point.violations for point in points):
            rule = parse(line.rule)
            trends[line.rule] = [replace(p, violations=unordered(rule, p.violations)) for p in points]
    return trends


def amount(line: Line) -> str:
    """The violations of a rule in people's units: `3 pairs`, `2 rows`."""
    if line.violations is None:
        return "–"
    words = violations_in_words(parse(line.rule), line.violations)
    return words.removesuffix(" of rows") if line.violations else "none"


def lines_of(book: Rulebook) -> list[Line]:
    """The rules of the decision file. A checked rule has its violations, and how many of them the baseline has."""
    baseline, checked = Baseline.of(book), {entry.id for entry in book.entries}
    lines = []
    for entry in Decisions.of(book).entries:
        count = book.count_violations(entry.id) if entry.id in checked else None
        known = baseline.count(entry.id) if count else 0
        lines.append(
            Line(
                id=entry.id,
                kind=entry.value.kind,
                rule=entry.rule,
                sentence=_sentence(book, entry, count),
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
    return lines


def _sentence(book: Rulebook, entry: RuleEntry, count: int | None) -> str:
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
        FOUND,
        nulls=nulls,
        error=ranked.error,
        score=ranked.score,
        reasons=ranked.reasons,
        survived=ranked.survived,
    )


def _counted(book: Rulebook, line: Line, found: RuleSet) -> Line:
    """The line with its violations, counted now if the rule may have some.

    It may if it was found to hold only nearly, or if the book does not search its kind and the tables are small enough.
    """
    if line.violations is not None or line.sentence.startswith(_MISFIT):
        return line
    rules = forms(parse(line.rule), book.schemas)
    of_kind = [b for b in found.blocks if b.kind == line.kind]
    block = next((b for b in of_kind if any(rule in RuleSet((b,)) for rule in rules)), None)
    if (block is not None and block.errors is None) or (block is None and _rows(book) > _MAX_ROWS_CHECKED):
        return line
    look = _look_at(book, line)
    return replace(line, violations=look.count, error=look.error)


def _look_at(book: Rulebook, line: Line) -> Look:
    """The violations of a rule; of one that nobody has decided about, under the null policy of discovery."""
    return book.look_alone(line.rule, line.nulls) if line.status == FOUND else look_at(book, line.id)


def _rows(book: Rulebook) -> int:
    return sum(book.count(table) for table in book.schemas)


def _worst_first(line: Line) -> tuple[bool, int, int]:
    severity = ("error", "warn", "info", "").index(line.severity)
    return line.status != ACCEPTED, severity, -(line.violations or 0)


def _worst(book: Rulebook, line: Line, mask: Mask) -> Worst:
    look = _look_at(book, line)
    rule, table = look.item.rule, look.table
    shown = tuple(shown_violation(rule, table, violation, mask) for violation in look.page(0, _MAX_EXAMPLES))
    found = None if mask.hides_any(table) else look.groups(_MAX_GROUPS)
    groups = () if found is None else tuple(map(str, found.groups))
    return Worst(line, table, look.count_rows(), shown, causes_of(look, mask), groups)


def query_of(book: Rulebook, look: Look, dialect: str) -> str:
    """An SQL query for the violations. Raises an error if the table has no key."""
    key, item = book.tables[look.table].key, look.item
    if not key:
        raise HoldfastError(f"{look.table} has no key, and SQL has no other way to identify rows")
    return violations_sql(item.rule, book.schemas, key=key, nulls=item.nulls, dialect=dialect, where=item.where)


def causes_of(look: Look, mask: Mask, most: int = 5, look_at: int = 10_000) -> tuple[str, ...]:
    """The causes of the first violations in words: groups of rows that clash, and which rows to remove."""
    if mask.hides_names(look.table):
        return ()
    explanation, causes = look.explain(most, look_at), []
    for (_, pairs, remove, exact), size in zip(explanation.causes, explanation.sizes, strict=True):
        names = ", ".join(str(name) for name in remove[:most]) + (" ..." if len(remove) > most else "")
        rows, clashes = explanation.bounded(size, exact), explanation.bounded(pairs, exact)
        causes.append(f"{rows} rows clash with each other in {clashes} pairs; {explanation.advice(exact)}: {names}")
    return tuple(causes)


def shown_violation(rule: Rule, table: str, violation: Violation, mask: Mask) -> Shown:
    """A violation as masked texts. Whether cells clash is decided by their real values."""
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
    """A cell or the name of a row as text."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {text_of(part)}" for name, part in value.items())
    return str(value)


def references_of(book: Rulebook) -> list[tuple[Ind, str]]:
    """Inclusions between tables with their status: accepted, suggested, or found and likely a foreign key. Of found
    ones, one for each left side that has no other."""
    decided = {e.value: e.status for e in Decisions.of(book).entries if isinstance(e.value, Ind)}
    shown = {
        rule: status
        for rule, status in decided.items()
        if status in (ACCEPTED, SUGGESTED) and {rule.left_table, rule.right_table} <= {*book.schemas}
    }
    lefts = {(rule.left_table, rule.left) for rule in shown}
    keys = [key for key in book.encoded.likely_keys if key.score >= LIKELY_KEY and not key.missing]
    likely = (key.rule for key in best_targets(keys) if key.rule not in decided)
    return [*shown.items(), *((rule, FOUND) for rule in likely if (rule.left_table, rule.left) not in lefts)]


def require_ui(what: str) -> None:
    """Refuses with advice if a package that reports and pages need is missing."""
    import importlib.util

    missing = [
        name for name in ("jinja2", "altair", "vl_convert", "fastapi", "uvicorn") if not importlib.util.find_spec(name)
    ]
    if missing:
        raise HoldfastError(f"{what} needs {', '.join(missing)}: pip install 'holdfast-data[ui]'")
