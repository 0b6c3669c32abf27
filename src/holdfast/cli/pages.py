"""`holdfast report` and `holdfast serve`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import Directory
from holdfast.cli.output import as_csv
from holdfast.cli.progress import announce
from holdfast.report.facts import lines_of, require_ui
from holdfast.report.page import report_html
from holdfast.rulebook import Rulebook
from holdfast.whole_file import replace_whole

_COLUMNS = ["id", "kind", "rule", "status", "severity", "owner", "violations", "known", "sentence"]


def report_command(
    directory: Directory,
    out: Annotated[
        Path | None, typer.Option(help="The file, .html or .csv; <DIR>.html beside the rulebook without it.")
    ] = None,
    safe_cells: Annotated[
        bool, typer.Option(help="In .csv, an apostrophe before what a spreadsheet would take for a formula.")
    ] = True,
) -> None:
    """Write one HTML file about a rulebook: summary, top violations, rules, foreign keys, timeline.

    With a name that ends in .csv, a table of the rules that people decided about: status, violations, sentence.
    """
    announce()
    place = out or directory.resolve().with_suffix(".html")
    with Rulebook.open(directory) as book:
        if place.suffix.lower() == ".csv":
            text = as_csv([vars(line) for line in lines_of(book)], _COLUMNS, safe_cells) + "\n"
        else:
            text = report_html(book, directory.resolve().stem)
    replace_whole(place, text.encode())
    print(place)


def serve_command(
    directory: Directory,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 for any that is free.")] = 8733,
) -> None:
    """Show a rulebook in the browser, on this machine only; also while a stream writes it. Ctrl-C ends it.

    The printed address has a token, without which rules cannot be accepted or rejected.
    """
    require_ui("serve")
    from holdfast.web.server import serve

    announce()
    serve(directory, port)


COMMANDS: dict[str, Callable[..., Any]] = {"report": report_command, "serve": serve_command}
