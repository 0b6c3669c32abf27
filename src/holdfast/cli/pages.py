"""`holdfast report` and `holdfast serve`: a rulebook as HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
        Path | None, typer.Option(help="The file to write, .html or .csv. Default: <DIR>.html beside the rulebook.")
    ] = None,
    safe_cells: Annotated[
        bool, typer.Option(help="In .csv, put an apostrophe before text that a spreadsheet would run as a formula.")
    ] = True,
) -> None:
    """Write a report about a rulebook as one HTML file: summary, top violations, rules, foreign keys, timeline.

    If the name ends in .csv, the report is a table of the accepted, suggested, rejected and retired rules.
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
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0: any free port.")] = 8733,
) -> None:
    """Show a rulebook in the browser, on this machine only. Ctrl-C ends it.

    The pages follow a stream that writes the rulebook. To accept or reject rules, open the printed address: it has a
    token that this needs.
    """
    require_ui("serve")
    from holdfast.web.server import serve

    announce()
    serve(directory, port)
