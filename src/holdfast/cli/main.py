"""The `holdfast` command: its subcommands and exit statuses. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

import holdfast
from holdfast.cli import own_process
from holdfast.cli.extras import EXTRAS
from holdfast.cli.terminal import plain
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

_COMMANDS = {  # module and function; the module is imported when its command is needed
    "doctor": "first_steps doctor_command",
    "demo": "first_steps demo_command",
    "discover": "discover discover_command",
    "check": "check check_command",
    "init": "init init_command",
    "apply": "apply apply_command",
    "violations": "violations violations_command",
    "rules": "stewards rules_command",
    "history": "stewards history_command",
    "explain": "explain explain_command",
    "export": "exchange export_command",
    "import": "exchange import_command",
    "report": "pages report_command",
    "serve": "pages serve_command",
    "watch": "watch watch_command",
}


@cache
def app_of(names: tuple[str, ...] = tuple(_COMMANDS)) -> typer.Typer:
    """The command line with these commands; all of them by default."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Find the rules that hold on your data, and keep them true while the data changes.",
    )
    app.callback()(_main)
    for name in names:
        module, function = _COMMANDS[name].split()
        app.command(name=name)(plain(getattr(import_module(f"holdfast.cli.{module}"), function)))
    return app


def _app_for(arguments: list[str]) -> typer.Typer:
    """The command line with the command that the arguments name, so that no other has to be imported."""
    first = arguments[0] if arguments else ""
    if first in _COMMANDS:
        return app_of((first,))
    return app_of(()) if first == "--version" else app_of()


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def run(arguments: list[str] | None = None) -> None:
    """The console script: runs a command and exits with its status."""
    signal.signal(signal.SIGINT, _first_interrupt)
    if arguments is None:
        own_process.begins()
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
        arguments = sys.argv[1:] if arguments is None else arguments
        code: Any = _app_for(arguments)(args=arguments, standalone_mode=False)
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
