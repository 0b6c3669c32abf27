"""Runs the commands that docs/index.md and docs/tutorial.md show, and writes what they print below them. Run by
`make reference`.

A block is run if the line before it is `MARK`: its lines that begin with `$` are the commands, everything else in it is
replaced. A block that begins with `$ cat NAME` is not run: it is the file NAME.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = [_DOCS / "index.md", _DOCS / "tutorial.md"]
MARK = "<!-- made by `make reference` -->"
_FILE = re.compile(r"^```text\n\$ cat (\S+)\n(.*?)^```$", re.M | re.S)
_RUN = re.compile(rf"(?<={re.escape(MARK)}\n```text\n)(.*?)(?=^```$)", re.M | re.S)


def written(page: str) -> str:
    """The page with the output of its commands, which run one after the other in one directory."""
    with tempfile.TemporaryDirectory() as home:
        for name, text in _FILE.findall(page):
            Path(home, name).write_text(text, encoding="utf-8")

        def ran(match: re.Match[str]) -> str:
            commands = [line for line in match[1].splitlines() if line.startswith("$ ")]
            return "".join(f"{command}\n{_output(command[2:], home)}" for command in commands)

        return _RUN.sub(ran, page)


def _output(command: str, home: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    plain = {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "FORCE_COLOR": ""}
    done = subprocess.run(
        command, shell=True, cwd=home, env=os.environ | plain, text=True, capture_output=True, timeout=120, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: exit status {done.returncode}: {done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in (done.stdout + done.stderr).splitlines())


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
