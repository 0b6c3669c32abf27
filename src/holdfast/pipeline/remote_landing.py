"""A landing directory in an object store, or wherever fsspec reads: a prefix instead of a directory.

Spark's file source only wakes the stream, so this process lists and reads the files, with credentials of its own. The
store's tag of an object (its ETag) changes with its content, so an applied file need not be read again.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.errors import NotAvailable, ReadError, detail
from holdfast.pipeline.landing import Landing, LandingFile, is_hidden
from holdfast.places import is_url

_TAGS = ("ETag", "etag", "md5Hash", "checksum")
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
_MARKER = "_landing"  # an object that makes the directory exist for Spark before the first file arrives


@dataclass(frozen=True)
class RemoteFile(LandingFile):
    """An object below the prefix; `path` is its URL. The stamp ends with its tag, if the store has one."""

    store: Any  # the file system of fsspec
    key: str  # its name there

    def digest(self) -> str:
        with self._reading(), self.store.open(self.key, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def identity(self) -> str:
        record: dict[str, Any] = {"sha256": self.digest()}
        if isinstance(self.stamp[-1], str):
            record["stamp"] = self.stamp
        return json.dumps(record)

    def require_unchanged(self) -> None:
        with self._reading():
            self.store.invalidate_cache()
            stamp = _stamp(self.store.info(self.key))
        if stamp != self.stamp:
            raise ReadError(f"{self.path}: was written while it was read; give new content a new name")

    @contextmanager
    def local(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="holdfast-landing-") as folder:
            copy = Path(folder) / self.name.rpartition("/")[2]
            with self._reading():
                self.store.get_file(self.key, str(copy))
            yield copy

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # clients of object stores raise errors of their own
            raise ReadError(f"{self.path}: cannot be read: {detail(error)}") from error


class RemoteLanding(Landing):
    """The files below a URL such as `s3://bucket/landing`. Names that begin with a dot or an underscore are hidden."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise NotAvailable(f"{url}: object stores need fsspec: pip install 'holdfast-data[cloud]'") from None
        self.url = url.rstrip("/")
        self._store: Any
        try:
            self._store, prefix = fsspec.core.url_to_fs(self.url.replace("s3a://", "s3://", 1))
        except (ImportError, ValueError) as error:
            raise NotAvailable(f"{url}: this process cannot read there: {detail(error)}") from None
        self._prefix = str(prefix).rstrip("/")

    @property
    def spark_path(self) -> str:
        return self.url.replace("s3://", "s3a://", 1)

    def make(self) -> None:
        if not self._objects():
            try:
                self._store.pipe_file(f"{self._prefix}/{_MARKER}", b"")
            except Exception as error:
                raise ReadError(f"{self.url}: there is nothing, and nothing can be written: {detail(error)}") from error

    def files(self) -> list[LandingFile]:
        files = [self._file(name, info) for name, info in self._objects().items() if not is_hidden(name)]
        return sorted(files, key=lambda file: (file.changed, file.name))

    def hidden(self) -> list[str]:
        return [name for name in self._objects() if is_hidden(name) and name != _MARKER]

    def left_out(self) -> list[str]:
        """None: objects are neither links nor pipes, and their names are text."""
        return []

    def _objects(self) -> dict[str, dict[str, Any]]:
        """What the store says about each object below the prefix, by relative name."""
        self._store.invalidate_cache()
        try:
            found = self._store.find(self._prefix, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise ReadError(f"{self.url}: cannot be listed: {detail(error)}") from error
        named = {str(key).removeprefix(self._prefix).lstrip("/"): info for key, info in sorted(found.items())}
        return {name: info for name, info in named.items() if name and not name.endswith("/")}

    def _file(self, name: str, info: dict[str, Any]) -> RemoteFile:
        stamp = _stamp(info)
        key = f"{self._prefix}/{name}"
        return RemoteFile(name, f"{self.url}/{name}", int(stamp[0]), int(stamp[1]), stamp, self._store, key)


def _stamp(info: dict[str, Any]) -> tuple[Any, ...]:
    """Length and time of an object, and its tag, if the store has one."""
    tag = next((str(info[name]) for name in _TAGS if info.get(name)), None)
    time = next((info[name] for name in _TIMES if info.get(name)), 0)
    return (int(info.get("size") or 0), _nanoseconds(time), *([tag] if tag is not None else []))


def _nanoseconds(time: Any) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return int(float(time) * 1e9)


def landing_at(place: str) -> Landing:
    """The landing directory at a path, or at a URL."""
    return RemoteLanding(place) if is_url(place) else Landing(place)
