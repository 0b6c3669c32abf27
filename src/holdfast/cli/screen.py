"""One screen for each table, and what refers where between tables."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from holdfast.cli.found_rules import not_found
from holdfast.cli.terminal import Console
from holdfast.profile import Profile
from holdfast.ranking.in_words import SectionLine
from holdfast.ranking.rank import Ranked
from holdfast.rules.wording import counted


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
    tables, references = ([], []) if rules.data is None else rules.data.in_words(shown, texts=texts)
    for number, table in enumerate(tables):
        if number:
            console.print()
        size = "" if table.rows is None else f"{counted(table.rows, 'row')}, "
        console.print(f"{table.table}: {size}{counted(table.columns, 'column')}", style="bold")
        for title, lines in table.sections:
            console.print(f"  {title}")
            _print_lines(console, lines, why, "    ")
        for fact in table.facts:
            console.print(f"  {fact}")
        if not table.sections and {*kinds} != {"ind"}:
            console.print("  nothing is credible beyond chance")
    if references:
        console.print("\nwhat refers where", style="bold")
        _print_lines(console, references, why, "  ")
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


def _print_lines(console: Console, lines: Sequence[SectionLine], why: bool, indent: str) -> None:
    """Prints lines, with the reasons for each of their rules."""
    for line in lines:
        console.print(f"{indent}{line}")
        for ranked in line.rules if why else ():
            about = f"{ranked.text}: " if len(line.rules) > 1 else ""
            for reason in ranked.reasons:
                console.print(f"{indent}  {about}{reason}")
