"""Builds the wheel and the source archive into `dist/`, then tries the wheel as a user gets it. Run by `make wheel`.

The wheel is installed with its dependencies into an environment of its own, `.tools/wheel`. There `holdfast --version`,
`doctor` and a small `discover`, `init` and `apply` run outside the repository, without the extras.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
BUILD, TRIAL = ROOT / ".tools" / "build", ROOT / ".tools" / "wheel"
PACKAGES = ("build==1.6.1",)
PEOPLE = "id,zip,city\n1,10115,Berlin\n2,20095,Hamburg\n3,10115,Berlin\n"
CHANGE = "_change_type,id,zip,city\ninsert,4,10115,Bonn\n"


def say(text: str) -> None:
    print(f"wheel: {text}", file=sys.stderr, flush=True)


def environment(home: Path) -> list[str]:
    """A new environment; how to install into it."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    return [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def build() -> Path:
    """The wheel that was built, from the source archive, as the index would build it."""
    subprocess.run([*environment(BUILD), *PACKAGES], check=True)
    for old in DIST.glob("holdfast_data-*"):
        old.unlink()
    subprocess.run([str(BUILD / "bin" / "python"), "-m", "build", "--outdir", str(DIST), str(ROOT)], check=True)
    (wheel,) = DIST.glob("holdfast_data-*.whl")
    return wheel


def require_whole(wheel: Path) -> None:
    """What is not Python is easily forgotten in a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    here = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    missing = sorted(name for name in here - set(names) if "__pycache__" not in name)
    strange = [name for name in names if not name.startswith(("holdfast/", "holdfast_data-"))]
    if missing or strange:
        raise SystemExit(f"the wheel lacks {missing}, and has {strange}")


def try_out(wheel: Path) -> None:
    """The installed program on three rows and a change; every answer is compared with the known one."""
    subprocess.run([*environment(TRIAL), str(wheel)], check=True)
    with tempfile.TemporaryDirectory() as home:
        Path(home, "people.csv").write_text(PEOPLE, encoding="utf-8")
        Path(home, "monday.csv").write_text(CHANGE, encoding="utf-8")
        expect(wheel.name.split("-")[1] in run(home, "--version"), "the version")
        run(home, "doctor")
        profile = json.loads(run(home, "discover", "people.csv", "--type", "zip=text", "--all", "--format", "json"))
        texts = {rule["text"] for rule in profile["rules"]}
        expect({"key(id)", "zip -> city"} <= texts, "the rules")
        run(home, "init", "people.book", "people.csv", "--key", "id", "--type", "zip=text", "--rule", "zip -> city")
        applied = json.loads(run(home, "apply", "people.book", "monday.csv", "--format", "json", status=1))
        expect([change["added"] for change in applied["violations"]] == [4], "the violations")


def run(home: str, *arguments: str, status: int = 0) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(TRIAL / "bin" / "holdfast"), *arguments]
    done = subprocess.run(command, cwd=home, env=clean, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != status:
        raise SystemExit(f"{' '.join(arguments)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    say(f"holdfast {' '.join(arguments)}: as expected")
    return done.stdout


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"wheel: {what} of the installed program are not as expected")


if __name__ == "__main__":
    built = build()
    require_whole(built)
    try_out(built)
    say(f"{built.relative_to(ROOT)} works")
