"""The `holdfast` command: its subcommands and exit statuses. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import holdfast
from holdfast.cli import exchange, pages, stewards
from holdfast.cli.apply import apply_command
from holdfast.cli.check import check_command
from holdfast.cli.discover import discover_command
from holdfast.cli.doctor import EXTRAS
from holdfast.cli.init import init_command
from holdfast.cli.options import Master, Remote
from holdfast.cli.terminal import Console, plain
from holdfast.cli.violations import violations_command
from holdfast.cli.watch import watch_command
from holdfast.errors import HoldfastError, concealed
from holdfast.plain_text import plain_text

OK, BAD_INPUT, INTERNAL, INTERRUPTED, CUT_OFF = 0, 2, 3, 130, 141
_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}
_ADVICE = {
    errno.ENOSPC: "free some space, then repeat the command",
    errno.EDQUOT: "free some space, then repeat the command",
    errno.EROFS: "choose a directory that is not read-only",
    errno.EACCES: "check the permissions of the file and its directory",
    errno.EPERM: "check the permissions of the file and its directory",
    errno.ENOENT: "check the path; directories above it must exist",
    errno.ENOTDIR: "check the path: one of its directories is a file",
    errno.EISDIR: "name a file, not a directory",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Find the rules that hold on your data, and keep them true while the data changes.",
)


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
@plain
def doctor(
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
        raise typer.Exit(BAD_INPUT)


@app.command()
@plain
def demo(
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


_COMMANDS: dict[str, Callable[..., Any]] = {
    "discover": discover_command,
    "check": check_command,
    "init": init_command,
    "apply": apply_command,
    "violations": violations_command,
    **stewards.COMMANDS,
    **exchange.COMMANDS,
    **pages.COMMANDS,
    "watch": watch_command,
}
for _name, _command in _COMMANDS.items():
    app.command(name=_name)(plain(_command))


def run(arguments: list[str] | None = None) -> None:
    """The console script: runs a command and exits with its status."""
    signal.signal(signal.SIGINT, _first_interrupt)
    status = status_of(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left that an interrupt could end
    sys.exit(status)


_has_reported_interrupt = False


def _first_interrupt(*_: object) -> None:
    """Interrupts the command, which then cleans up. A second Ctrl-C ends the process at once."""
    signal.signal(signal.SIGINT, _second_interrupt)
    raise KeyboardInterrupt


def _second_interrupt(*_: object) -> None:
    if not _has_reported_interrupt:
        os.write(2, b"holdfast: interrupted\n")
    os._exit(INTERRUPTED)


def _interrupted() -> int:
    global _has_reported_interrupt
    _has_reported_interrupt = True
    print("holdfast: interrupted", file=sys.stderr, flush=True)
    return INTERRUPTED


def status_of(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    try:
        code: Any = app(args=arguments, standalone_mode=False)
    except HoldfastError as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:  # the reader has stopped: `holdfast rules book | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    except OSError as error:
        return _refused(_system_message(error))
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            return _unexpected(error)
        return _refused(f"this needs {(error.name or '').partition('.')[0]}: pip install 'holdfast-data[{extra}]'")
    except Exception as error:
        return _unexpected(error)
    if code == INTERRUPTED:  # the option parser caught the interrupt
        return _interrupted()
    return code if isinstance(code, int) else OK


def _refused(message: str) -> int:
    print(f"holdfast: {plain_text(concealed(message))}", file=sys.stderr)
    return BAD_INPUT


def _system_message(error: OSError) -> str:
    """The message of the operating system, with the file and advice."""
    place = f"{error.filename}: " if error.filename is not None else ""
    advice = _ADVICE.get(error.errno or 0)
    return f"{place}{error.strerror or error}{f'; {advice}' if advice else ''}"


def _unexpected(error: Exception) -> int:
    """Shows a usage error of the option parser; anything else is an internal error."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if type(error).__name__ == "Abort":
        return _interrupted()
    if callable(show) and isinstance(code, int):
        if isinstance(message := getattr(error, "message", None), str):
            error.message = plain_text(message)  # type: ignore[attr-defined]
        show()
        return BAD_INPUT
    print(plain_text(concealed("".join(traceback.format_exception(error)))), end="", file=sys.stderr)
    print("holdfast: internal error; please report it with the lines above", file=sys.stderr)
    return INTERNAL


if __name__ == "__main__":
    run()
