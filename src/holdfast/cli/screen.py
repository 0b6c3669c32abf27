"""One screen for each table: what identifies a row, what determines what, what rises with what, what holds in each row;
and between tables, what refers where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

from holdfast.cli.found_rules import not_found
from holdfast.cli.terminal import Console
from holdfast.profile import Profile
from holdfast.ranking.rank import Ranked
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Dc, Fd, Ind, Key, Order, Rule
from holdfast.rules.sentence import sentence
from holdfast.rules.wording import counted, percent
from holdfast.table.dictionary import NULL
from holdfast.table.rows import Rows

_MOST_NAMES = 12  # columns in a list
_SECTIONS = {
    "key": "what identifies a row",
    "fd": "what determines what",
    "order": "what rises with what",
    "dc": "what holds in each row",
}


def print_screen(
    rules: Profile,
    shown: Sequence[Ranked],
    files: str,
    search: str = "",
    *,
    texts: bool = False,
    why: bool = False,
    whole: bool = False,
) -> None:
    """Prints what is worth reading, table by table. `files`, and the options of the `search`: as on the command line.
    `texts`: as rules that other commands take, not in words. `whole`: all rules of the kinds were searched."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    kinds = rules.options.kinds if rules.options is not None else ()
    tables = rules.data.rows if rules.data is not None else {}
    for number, (name, rows) in enumerate(tables.items()):
        if number:
            console.print()
        is_sample = rules.data is not None and rules.data.is_sample
        size = "" if is_sample else f"{counted(len(rows), 'row')}, "
        console.print(f"{name}: {size}{counted(len(rows.schema), 'column')}", style="bold")
        label = None if rules.data is not None and rules.data.is_lone else name
        mine = [r for r in shown if r.kind != "ind" and r.table == label]
        for kind in (kind for kind in _SECTIONS if kind in kinds):
            of_kind = [r for r in mine if r.kind == kind and not _is_constant(r.rule)]
            lines = _texts(of_kind, len(rows)) if texts else _lines(of_kind, rows.schema.names, len(rows))
            _print_section(console, _SECTIONS[kind], [*lines], why)
        for line in () if is_sample else _facts(rows):
            console.print(f"  {line}")
        if not mine and {*kinds} != {"ind"}:
            console.print("  nothing is credible beyond chance")
    references = [r for r in shown if r.kind == "ind"]
    if references:
        console.print("\nwhat refers where", style="bold")
        for ranked in references:
            line = ranked.text if texts else _reference(ranked.rule)
            _print_lines(console, [(f"{line}{_missing(ranked)}", [ranked])], why, "  ")
    near = next((one for one in shown if one.error and one.kind != "ind"), None)
    if near is not None:
        console.print(f"\nrows that disagree: holdfast check {_checked(rules, files, near)}")
    for line in not_found(rules):
        console.print(line)
    counts = [f"{len(rules.of(kind)):,} {kind}" for kind in kinds if len(rules.of(kind))]
    if whole and rules.complete and not counts:
        console.print("no rules hold")
    else:
        held = f" ({', '.join(counts)})" if counts and whole else ""
        if near is None:
            console.print()
        console.print(f"every rule that holds{held}: holdfast discover {files}{search} --all")


def _checked(rules: Profile, files: str, near: Ranked) -> str:
    """The arguments of the command that lists the rows that disagree with a rule."""
    nulls = rules.options.nulls if rules.options is not None else "sql"
    return f"{files} --rule {quote(near.text)}{'' if nulls == 'sql' else f' --nulls {nulls}'}"


def _is_constant(rule: Rule) -> bool:
    """Whether a rule is among the facts about columns."""
    return isinstance(rule, Fd) and not rule.left


def _print_section(console: Console, title: str, lines: Sequence[tuple[str, list[Ranked]]], why: bool) -> None:
    if lines:
        console.print(f"  {title}")
    _print_lines(console, lines, why, "    ")


def _print_lines(console: Console, lines: Sequence[tuple[str, list[Ranked]]], why: bool, indent: str) -> None:
    """Prints lines, with the reasons for each of their rules."""
    for line, of_line in lines:
        console.print(f"{indent}{line}")
        for ranked in of_line if why else ():
            about = f"{ranked.text}: " if len(of_line) > 1 else ""
            for reason in ranked.reasons:
                console.print(f"{indent}  {about}{reason}")


def _texts(ranked: Sequence[Ranked], rows: int) -> Iterator[tuple[str, list[Ranked]]]:
    """A line for each rule, as text."""
    for one in ranked:
        yield f"{one.text}{_exceptions([one], rows)}", [one]


def _lines(ranked: Sequence[Ranked], columns: Sequence[str], rows: int) -> Iterator[tuple[str, list[Ranked]]]:
    """Lines in words. Dependencies share a line with those that have the same left side, or its mirror image."""
    mirrored = _mirrored(ranked)
    said: set[Rule] = set()
    for group in _grouped(ranked):
        both = [one for one in group if one.rule in mirrored and one.rule not in said]
        if both:
            (left,) = {left for one in both if isinstance(one.rule, Fd) for left in one.rule.left}
            rights = [one.rule.right for one in both if isinstance(one.rule, Fd)]
            of_line = [*both, *(mirrored[one.rule] for one in both)]
            said |= {one.rule for one in of_line}
            yield f"{left} <-> {_names(rights)}{_exceptions(of_line, rows)}", of_line
        rest = [one for one in group if one.rule not in said]
        if rest:
            yield f"{_in_words(rest, columns)}{_exceptions(rest, rows)}", rest


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


def _in_words(group: Sequence[Ranked], columns: Sequence[str]) -> str:
    rule = group[0].rule
    if isinstance(rule, Fd):
        rights = [one.rule.right for one in group if isinstance(one.rule, Fd)]
        return f"{_together(rule.left, columns)} -> {_names(rights)}"
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
    return f"   ({percent(ranked.error)} of the values are missing)" if ranked.error else ""


def _exceptions(group: Sequence[Ranked], rows: int) -> str:
    """How many rows disagree."""
    errors = [one.error for one in group if one.error]
    if not errors:
        return ""
    if isinstance(group[0].rule, Order):
        return f"   ({percent(max(errors))} of the pairs of rows disagree)"
    least, most = (round(error * rows) for error in (min(errors), max(errors)))
    from_least = f"{least:,} to " if least < most else ""
    return f"   ({from_least}{counted(most, 'row')} {'disagrees' if most == 1 else 'disagree'})"


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
