"""What is worth reading about a table, section by section: what identifies a row, what determines what, what rises with
what, what holds in each row. Terminal, report, pages and JSON show the same sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.ranking.rank import Ranked
from holdfast.rules.names import by_position
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Order, Rule
from holdfast.rules.sentence import sentence
from holdfast.rules.wording import counted, percent
from holdfast.table.dictionary import NULL
from holdfast.table.rows import Rows

_MOST_NAMES = 12  # columns in a list
TITLES = {
    "key": "what identifies a row",
    "fd": "what determines what",
    "order": "what rises with what",
    "dc": "what holds in each row",
}
_KINDS_OF = {"dc": ("row", "dc")}  # of a section with several


@dataclass(frozen=True)
class SectionLine:
    """A line about one or more rules: in words, and what disagrees (empty if nothing does)."""

    text: str
    exceptions: str
    rules: tuple[Ranked, ...]

    def __str__(self) -> str:
        return f"{self.text}   ({self.exceptions})" if self.exceptions else self.text

    def record(self) -> dict[str, object]:
        """The fields for JSON."""
        return {"text": self.text, "exceptions": self.exceptions, "rules": [one.text for one in self.rules]}


@dataclass(frozen=True)
class TableSections:
    """What is worth reading about one table. `facts`: columns that are never empty, or always the same."""

    table: str
    columns: int
    rows: int | None  # None: these are some rows of a larger table
    sections: tuple[tuple[str, tuple[SectionLine, ...]], ...]  # titles, and at least one line each
    facts: tuple[str, ...]

    def record(self) -> dict[str, object]:
        """The fields for JSON."""
        sections = [{"title": title, "lines": [line.record() for line in lines]} for title, lines in self.sections]
        return {"table": self.table, "rows": self.rows, "sections": sections, "facts": list(self.facts)}


def sections_of(
    table: str, rows: Rows, ranked: Iterable[Ranked], *, is_sample: bool = False, texts: bool = False
) -> TableSections:
    """The sections of a table. `ranked`: the rules worth reading about it; `texts`: one on each line, as text that
    commands take. O(rows x columns), for the facts."""
    mine = [one for one in ranked if not _is_constant(one.rule)]
    sections = []
    for kind, title in TITLES.items():
        of_kind = [one for of in _KINDS_OF.get(kind, (kind,)) for one in mine if one.kind == of]
        lines = _texts(of_kind, len(rows)) if texts else _lines(of_kind, rows.schema.names, len(rows))
        sections.append((title, tuple(lines)))
    facts = () if is_sample else tuple(_facts(rows))
    filled = tuple((title, lines) for title, lines in sections if lines)
    return TableSections(table, len(rows.schema), None if is_sample else len(rows), filled, facts)


def references_in_words(ranked: Iterable[Ranked], *, texts: bool = False) -> list[SectionLine]:
    """What refers where, a line for each foreign key."""
    return [
        SectionLine(one.text if texts else _reference(one.rule), _missing(one), (one,))
        for one in ranked
        if one.kind == "ind"
    ]


def _is_constant(rule: Rule) -> bool:
    """Whether a rule is among the facts about columns."""
    return isinstance(rule, Fd) and not rule.left


def _texts(ranked: Sequence[Ranked], rows: int) -> Iterator[SectionLine]:
    """A line for each rule, as text."""
    for one in ranked:
        yield SectionLine(one.text, _exceptions([one], rows), (one,))


def _lines(ranked: Sequence[Ranked], columns: Sequence[str], rows: int) -> Iterator[SectionLine]:
    """Lines in words. Dependencies share a line with those that have the same left side, or its mirror image; a
    hierarchy is one line: `type -> category -> sector`."""
    mirrored = _mirrored(ranked)
    said: set[Rule] = set()
    groups = _grouped(ranked)
    below = _hierarchies([[one for one in group if one.rule not in mirrored] for group in groups])
    inner = {step for steps in below.values() for step in steps}
    for group in groups:
        both = [one for one in group if one.rule in mirrored and one.rule not in said]
        if both:
            (left,) = {left for one in both if isinstance(one.rule, Fd) for left in one.rule.left}
            rights = [one.rule.right for one in both if isinstance(one.rule, Fd)]
            of_line = [*both, *(mirrored[one.rule] for one in both)]
            said |= {one.rule for one in of_line}
            yield SectionLine(f"{left} <-> {_names(rights)}", _exceptions(of_line, rows), tuple(of_line))
        rest = [one for one in group if one.rule not in said]
        steps = [step for one in rest[:1] for step in below.get(one.rule, [])]
        if steps:
            last = steps[-1]
            names = [_only_left(rest[0]), *(_only_left(step[0]) for step in steps)]
            text = f"{' -> '.join(names)} -> {_names([_right(one) for one in last])}"
            yield SectionLine(text, "", (*rest, *(one for step in steps for one in step)))
        elif rest and tuple(rest) not in inner:
            yield SectionLine(_in_words(rest, columns), _exceptions(rest, rows), tuple(rest))


def _mirrored(ranked: Sequence[Ranked]) -> dict[Rule, Ranked]:
    """For each dependency between two columns that determine each other, the one in the other direction."""
    by_rule = {one.rule: one for one in ranked}
    found: dict[Rule, Ranked] = {}
    for rule in by_rule:
        if isinstance(rule, Fd) and len(rule.left) == 1:
            (left,) = rule.left
            other = by_rule.get(Fd(frozenset({rule.right}), left, rule.table))
            if other is not None:
                found[rule] = other
    return found


def _grouped(ranked: Sequence[Ranked]) -> list[list[Ranked]]:
    """Dependencies by left side and by whether they hold exactly; each other rule alone."""
    groups: dict[object, list[Ranked]] = {}
    for one in ranked:
        key = (one.rule.left, one.error > 0) if isinstance(one.rule, Fd) else one.rule
        groups.setdefault(key, []).append(one)
    return [*groups.values()]


def _hierarchies(groups: Sequence[Sequence[Ranked]]) -> dict[Rule, list[tuple[Ranked, ...]]]:
    """For the first rule of a group, the groups that follow step by step: all that a column determines is another
    column and what that one determines. Only of one column on the left, and without exceptions."""
    of_left = {
        _only_left(group[0]): tuple(group)
        for group in groups
        if group and isinstance(group[0].rule, Fd) and len(group[0].rule.left) == 1 and not group[0].error
    }

    def step(left: str) -> str | None:
        rights = {_right(one) for one in of_left[left]}
        return next((r for r in of_left if r in rights and {_right(one) for one in of_left[r]} == rights - {r}), None)

    found: dict[Rule, list[tuple[Ranked, ...]]] = {}
    for left, group in of_left.items():
        steps, at = list[tuple[Ranked, ...]](), step(left)
        while at is not None:
            steps.append(of_left[at])
            at = step(at)
        if steps:
            found[group[0].rule] = steps
    return found


def _only_left(one: Ranked) -> str:
    assert isinstance(one.rule, Fd)
    (left,) = one.rule.left
    return left


def _right(one: Ranked) -> str:
    assert isinstance(one.rule, Fd)
    return one.rule.right


def _in_words(group: Sequence[Ranked], columns: Sequence[str]) -> str:
    rule = group[0].rule
    if isinstance(rule, Fd):
        rights = [one.rule.right for one in group if isinstance(one.rule, Fd)]
        return f"{_together(rule.left, columns)} -> {_names(rights)}"
    if isinstance(rule, Calculation):
        return rule.body(by_position(columns))
    if isinstance(rule, Key):
        return _together(rule.columns, columns)
    if isinstance(rule, Dc) and rule.is_one_row:
        return _comparison(rule)
    return _order(rule, columns) if isinstance(rule, Order) else sentence(rule).removesuffix(".")


def _order(rule: Order, columns: Sequence[str]) -> str:
    """`rate rises with salary, for each state`."""
    equal = [mark.column for mark in rule.left if mark.op is Op.EQ]
    moving = [mark for mark in rule.left if mark.op is not Op.EQ]
    if len(moving) != 1 or rule.right.op is Op.EQ:
        return sentence(replace(rule, table=None)).removesuffix(".")
    (mark,) = moving
    rises = (mark.op in (Op.LT, Op.LE)) == (rule.right.op in (Op.LT, Op.LE))
    scope = f", for each {_together(equal, columns)}" if equal else ""
    return (
        f"{rule.right.column} {'rises with' if rises else 'falls as'} {mark.column}{'' if rises else ' rises'}{scope}"
    )


def _together(names: Iterable[str], columns: Sequence[str]) -> str:
    return " + ".join(sorted(names, key=columns.index))


def _names(columns: Sequence[str]) -> str:
    rest = len(columns) - _MOST_NAMES
    return ", ".join(columns) if rest < 2 else f"{', '.join(columns[:_MOST_NAMES])} and {rest} more"


def _comparison(rule: Dc) -> str:
    """`low <= high`, of a constraint that forbids the contrary."""
    (predicate,) = rule.predicates
    if not isinstance(predicate, Compare) or not isinstance(predicate.right, Cell):
        return sentence(rule).removesuffix(".")
    left, op, right = predicate.left.column, predicate.op.inverse, predicate.right.column
    return f"{left} {op} {right}" if str(op)[0] != ">" else f"{right} {op.mirror} {left}"


def _reference(rule: Rule) -> str:
    assert isinstance(rule, Ind)
    return f"{rule.left_table}.{' + '.join(rule.left)} -> {rule.right_table}.{' + '.join(rule.right)}"


def _missing(ranked: Ranked) -> str:
    return f"{percent(ranked.error)} of the values are missing" if ranked.error else ""


def _exceptions(group: Sequence[Ranked], rows: int) -> str:
    """How many rows disagree."""
    errors = [one.error for one in group if one.error]
    if not errors:
        return ""
    if isinstance(group[0].rule, Order):
        return f"{percent(max(errors))} of the pairs of rows disagree"
    least, most = (round(error * rows) for error in (min(errors), max(errors)))
    from_least = f"{least:,} to " if least < most else ""
    return f"{from_least}{counted(most, 'row')} {'disagrees' if most == 1 else 'disagree'}"


def _facts(rows: Rows) -> Iterator[str]:
    """Columns that are never empty, and columns with one value."""
    codes = rows.codes()
    if not codes.shape[1]:
        return
    same = [c for c, values in zip(rows.schema.names, codes, strict=True) if (values == values[0]).all()]
    empty = [c for c in same if codes[rows.schema.position(c), 0] == NULL]
    never_empty = [c for c, values in zip(rows.schema.names, codes, strict=True) if not (values == NULL).any()]
    if len(same) > len(empty):
        yield f"always the same: {_names([c for c in same if c not in empty])}"
    if empty:
        yield f"columns without values: {_names(empty)}"
    if never_empty and len(never_empty) == len(rows.schema):
        yield "no cell is empty"
    elif never_empty:
        yield f"never empty: {_names(never_empty)}"
