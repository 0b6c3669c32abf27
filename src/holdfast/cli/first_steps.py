"""`holdfast doctor` and `holdfast demo`: what is installed, and an example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Master, Remote
from holdfast.cli.terminal import Console

_BAD_INPUT = 2  # the exit status


def doctor_command(
    directory: Annotated[
        Path | None, typer.Argument(help="A rulebook, to show also how far its sinks are.", show_default=False)
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and show what a worker has.")] = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Show what is installed on this machine, and how to get what is missing."""
    from holdfast.cli.doctor import examine, examine_book, examine_spark

    findings = examine() if directory is None else [*examine(), *examine_book(directory)]
    findings += examine_spark(directory, master, remote) if spark else []
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{'ok ' if finding.ok else '-- '} {finding.what:<{width}}  {finding.found}")
        if finding.advice:
            print(f"    {'':<{width}}  {finding.advice}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(_BAD_INPUT)


def demo_command(
    rows: Annotated[int, typer.Option(min=100, help="The number of orders to begin with.")] = 20_000,
    batches: Annotated[int, typer.Option(min=1, help="The number of change batches.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same data.")] = 0,
    directory: Annotated[
        Path | None, typer.Option(help="Keep all files in this directory. Default: a temporary one.")
    ] = None,
) -> None:
    """Run an example on embedded Spark: generated tables, a stream of change files, and the violations they cause."""
    from holdfast.cli.demo import run_demo

    run_demo(Console(), Console(stderr=True), rows, batches, seed, directory)
