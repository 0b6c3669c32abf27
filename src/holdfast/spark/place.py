"""The places of a rulebook on Spark: where this process puts manifests, and where Spark writes data.

Spark's writer cannot put a file only if it is absent, so this process puts the manifests, with credentials of its own.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from holdfast.errors import StoreError
from holdfast.places import is_url
from holdfast.spark.state_files import StateFiles
from holdfast.store.directory import Directory, LocalDirectory
from holdfast.store.kept_versions import FILES, MANIFESTS

log = logging.getLogger("holdfast")
DATA, PROBES = "data", "probes"  # folders of Spark, and of the attempts to see it


def root_of(directory: Directory, state: str | None) -> str:
    """Where Spark writes: the place that a user named, or beside the manifests."""
    if state is not None:
        return (state if is_url(state) else Path(state).absolute().as_uri()).rstrip("/")
    if isinstance(directory, LocalDirectory):
        return f"{directory.path.absolute().as_uri()}/{DATA}"
    return f"{str(directory).replace('s3://', 's3a://', 1)}/{DATA}"


def require_new(directory: Directory) -> None:
    """Makes the directory; an error if there is a rulebook, or anything else."""
    try:
        taken = bool(directory.names(MANIFESTS))
        directory.make(MANIFESTS, FILES, DATA, PROBES)
    except FileExistsError:
        taken = True
    if taken:
        raise StoreError(f"{directory} exists already; give a new directory, or open it")


def require_shared(directory: Directory, files: StateFiles, *, apart: bool) -> None:
    """Tries that manifests are put only once, and that Spark sees what this process writes there."""
    name, text = f"probe-{secrets.token_hex(6)}", b"holdfast"
    directory.make_folder(PROBES)
    try:
        directory.put(PROBES, name, text)
        _require_second_put_fails(directory, name, text)
        if not apart:
            place = f"{files.root.removesuffix(DATA)}{PROBES}/{name}"
            try:
                seen = [row[0] for row in files.spark.read.text(place).collect()]
            except PySparkException:
                seen = []
            if seen != [text.decode()]:
                raise StoreError(
                    f"{directory}: Spark does not see what this process writes there; give a place for the rows that "
                    f"Spark can write to (state=)"
                )
    finally:
        directory.remove(PROBES, name)


def _require_second_put_fails(directory: Directory, name: str, text: bytes) -> None:
    try:
        directory.put(PROBES, name, text)
    except FileExistsError:
        return
    raise StoreError(f"{directory}: a file can be written twice there, so two writers could overwrite each other")


def remove_unlisted(root: str, listed: Collection[str], before: int) -> None:
    """Removes folders of versions before `before` that no kept version lists: old pieces, intermediate results, and
    what dead attempts left. If this process cannot remove them, they stay."""
    try:
        names, remove = _file_system(root)
        for state in names(""):
            for folder in names(state):
                version = folder.partition("-")[0]
                if version.isdigit() and int(version) < before and f"{state}/{folder}" not in listed:
                    remove(f"{state}/{folder}")
    except Exception as error:  # clients of object stores raise errors of their own; the version is published already
        log.warning("%s: files of old versions could not be removed: %s", root, error)


def _file_system(root: str) -> tuple[Callable[[str], list[str]], Callable[[str], Any]]:
    """Two functions that list a folder below the root, and remove one."""
    if root.startswith("file:"):
        home = Path(root.removeprefix("file://").removeprefix("file:"))

        def names(folder: str) -> list[str]:
            return (
                [path.name for path in (home / folder).iterdir() if path.is_dir()] if (home / folder).is_dir() else []
            )

        return names, lambda folder: shutil.rmtree(home / folder, ignore_errors=True)
    import fsspec

    fs, start = fsspec.core.url_to_fs(root.replace("s3a://", "s3://", 1))

    def remote_names(folder: str) -> list[str]:
        fs.invalidate_cache()
        place = f"{start}/{folder}".rstrip("/")
        if not fs.exists(place):
            return []
        return [str(path).rstrip("/").rpartition("/")[2] for path in fs.ls(place, detail=False)]

    return remote_names, lambda folder: fs.rm(f"{start}/{folder}", recursive=True)
