"""`holdfast export` and `holdfast import`: exchange rules with other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Directory
from holdfast.cli.terminal import print_exact
from holdfast.errors import HoldfastError
from holdfast.exchange.contract import Contract
from holdfast.exchange.dc_files import read_dcs
from holdfast.exchange.file_names import write_files
from holdfast.exchange.forms import FORMS, export
from holdfast.rulebook import Rulebook
from holdfast.rules.rulefile import RuleFile
from holdfast.rules.sentence import sentence
from holdfast.rules.sql import DIALECTS
from holdfast.rules.wording import counted
from holdfast.workflow.decisions import ACCEPTED


def export_command(
    directory: Directory,
    to: Annotated[str, typer.Option(help=f"The target: {', '.join(FORMS)}.", show_default=False)],
    dialect: Annotated[str, typer.Option(help=f"The SQL dialect: {', '.join(DIALECTS)}.")] = "duckdb",
    out: Annotated[
        Path | None, typer.Option(help="Write the files to this directory. Default for a single file: stdout.")
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option(help="Which rules: accepted (default) or suggested. Repeatable.")
    ] = None,
) -> None:
    """Export rules to other tools: SQL, dbt, Great Expectations, DQX, Soda, an ODCS data contract, Metanome."""
    with Rulebook.open(directory) as book:
        contract = Contract.of(book, directory.resolve().stem, status or [ACCEPTED])
    if not contract.entries:
        raise HoldfastError(f"{directory} has no {' or '.join(status or [ACCEPTED])} rules: holdfast rules {directory}")
    files = export(contract, to, dialect)
    for line in dict.fromkeys(contract.dropped):
        print(f"holdfast: left out: {line}", file=sys.stderr)
    if out is None and len(files) == 1:
        print_exact(next(iter(files.values())), end="")
        return
    if out is None:
        raise HoldfastError(f"the export has {len(files)} files ({', '.join(files)}): add --out DIR")
    for place in write_files(files, out):
        print(place)


def import_command(
    file: Annotated[Path, typer.Argument(help="A file with one denial constraint per line.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The rule file to write. Default: stdout.")] = None,
) -> None:
    """Convert the denial constraints of other programs to a rule file for --rules."""
    rule_file = RuleFile.empty()
    for rule in read_dcs(file):
        rule_file.add(rule, description=sentence(rule))
    if out is None:
        print_exact(rule_file.text(), end="")
        return
    if out.exists():
        raise HoldfastError(f"{out} exists already")
    rule_file.save(out)
    print(f"{out}: {counted(len(rule_file.entries), 'rule')}")
