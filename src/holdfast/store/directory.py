"""The directory of a rulebook, on a local disk or in an object store. Files are written once and never edited."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

import pyarrow as pa

from holdfast.arrays import map_file
from holdfast.errors import NotAvailable, StoreError
from holdfast.store.disk import Disk
from holdfast.whole_file import open_lock

_LOCK = "lock"
_TEMPORARY = re.compile(r"\..*[0-9]{10}.*\.[0-9a-f]+")  # the name that `put` uses while it writes


class LostPut(OSError):
    """The answer to a put was lost, and the store does not say whether the file is there."""


class Directory(Protocol):
    """Folders with files. `put` is put-if-absent: it raises FileExistsError if the name is taken."""

    def __str__(self) -> str: ...

    def make(self, *folders: str) -> None:
        """Creates the directory with these folders; FileExistsError if it contains anything else."""

    def make_folder(self, folder: str) -> None:
        """Creates one more folder, if it does not exist."""

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder, without hidden ones; an empty list if there is no such folder."""

    def read(self, folder: str, name: str) -> pa.Buffer: ...

    def put(self, folder: str, name: str, data: pa.Buffer | bytes) -> None: ...

    def remove(self, folder: str, name: str) -> None:
        """Removes a file, if it exists."""

    def sweep(self, folder: str) -> None:
        """Removes temporary files of interrupted writers, and nothing else. The caller must hold the lock."""

    def lock(self) -> Lock:
        """Acquires the right to write; StoreError if another process has it."""


class Lock(Protocol):
    """The right to write."""

    def release(self) -> None: ...


class LocalDirectory:
    """A directory of a local file system."""

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self.path, self._disk = Path(path), disk or Disk()

    def __str__(self) -> str:
        return str(self.path)

    def make(self, *folders: str) -> None:
        if self.path.exists() and (not self.path.is_dir() or self._has_other_files(folders)):
            raise FileExistsError(str(self.path))
        for directory in (self.path, *(self.path / folder for folder in folders)):
            self._disk.make_directory(directory)

    def make_folder(self, folder: str) -> None:
        if not (self.path / folder).is_dir():
            self._disk.make_directory(self.path / folder)

    def _has_other_files(self, folders: tuple[str, ...]) -> bool:
        return any(child.name not in (*folders, _LOCK) for child in self.path.iterdir())

    def names(self, folder: str) -> list[str]:
        try:
            names = [path.name for path in (self.path / folder).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in names if not name.startswith("."))

    def read(self, folder: str, name: str) -> pa.Buffer:
        return map_file(self.path / folder / name)

    def put(self, folder: str, name: str, data: pa.Buffer | bytes) -> None:
        self._disk.put(self.path / folder / name, data, secrets.token_hex(4))

    def remove(self, folder: str, name: str) -> None:
        self._disk.remove(self.path / folder / name)

    def sweep(self, folder: str) -> None:
        for path in (self.path / folder).glob(".*"):
            if _TEMPORARY.fullmatch(path.name) and path.is_file():
                self._disk.remove(path)

    def lock(self) -> Lock:
        return FileLock(self.path / _LOCK)


class FileLock:
    """An operating system lock on a file. It ends with the process, however the process ends.

    The lock belongs to the process: several writers of one process share it, and only those at the newest version can
    publish.
    """

    _held: ClassVar[dict[Path, tuple[IO[str], int]]] = {}  # the open file, and its number of users in this process

    def __init__(self, path: Path) -> None:
        self._path: Path | None = None
        resolved = path.parent.resolve() / path.name  # the lock itself must not be a link
        file, users = self._held.get(resolved, (None, 0))
        self._held[resolved] = (file or _locked(resolved), users + 1)
        self._path = resolved

    def release(self) -> None:
        if self._path is None:
            return
        file, users = self._held.pop(self._path)
        if users > 1:
            self._held[self._path] = (file, users - 1)
        else:
            file.close()
        self._path = None

    def __del__(self) -> None:
        self.release()


def _locked(path: Path) -> IO[str]:
    """Opens and locks the file, and writes into it which process holds the lock."""
    file = open_lock(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
    except BlockingIOError:
        owner = file.read().strip() or "another process"
        file.close()
        raise StoreError(
            f"{path.parent}: {owner} is writing to this rulebook; wait until it has closed it, or stop it"
        ) from None
    except OSError as error:
        with contextlib.suppress(OSError):  # close() tries to write the buffer again
            file.close()
        raise StoreError(f"{path} cannot be locked: {error.strerror}") from error
    return file


class RemoteDirectory:
    """A prefix of an object store, through fsspec.

    There is no lock: of two concurrent writers, the second put of the same name is refused. This needs a store with
    conditional puts (`mode="create"`); other stores raise an error. Every error of a store's client is an OSError here.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise NotAvailable(f"{url}: object stores need fsspec: pip install 'holdfast-data[cloud]'") from None
        self._url = url.rstrip("/")
        self._fs: Any
        self._fs, root = fsspec.core.url_to_fs(self._url, use_listings_cache=False)  # others write there too
        self._root = str(root).rstrip("/")

    def __str__(self) -> str:
        return self._url

    def _path(self, folder: str, name: str = "") -> str:
        return "/".join(part for part in (self._root, folder, name) if part)

    def make(self, *folders: str) -> None:
        with _as_os_errors():
            existing = self._fs.ls(self._root, detail=False) if self._fs.exists(self._root) else []
        if any(str(path).rstrip("/").rpartition("/")[2] not in folders for path in existing):
            raise FileExistsError(self._url)

    def make_folder(self, folder: str) -> None:
        """Nothing to do: object stores have no folders."""

    def names(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            with _as_os_errors():
                paths = self._fs.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rpartition("/")[2] for path in paths)

    def read(self, folder: str, name: str) -> pa.Buffer:
        with _as_os_errors():
            return pa.py_buffer(self._fs.cat_file(self._path(folder, name)))

    def put(self, folder: str, name: str, data: pa.Buffer | bytes) -> None:
        """After an error, what is there now decides whether the put was made and only its answer was lost."""
        try:
            with _as_os_errors():
                self._fs.pipe_file(self._path(folder, name), bytes(data), mode="create")
        except FileExistsError:
            raise
        except OSError as error:
            try:
                found = self.read(folder, name)
            except FileNotFoundError:
                raise error from None
            except OSError:
                raise LostPut(f"{error}; nobody knows whether {folder}/{name} was written") from error
            if found.to_pybytes() != bytes(data):
                raise FileExistsError(self._path(folder, name)) from error

    def remove(self, folder: str, name: str) -> None:
        try:
            with _as_os_errors():
                self._fs.rm_file(self._path(folder, name))
        except FileNotFoundError:
            return

    def sweep(self, folder: str) -> None:
        """Nothing to do: a put is atomic and leaves no temporary files."""

    def lock(self) -> Lock:
        return _NoLock()


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """Clients of object stores raise errors of their own when they cannot reach the store."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


class _NoLock:
    def release(self) -> None:
        """Nothing to do."""


def directory_at(path: str | Path, disk: Disk | None = None) -> Directory:
    """The directory at a path, or at a URL such as `s3://bucket/book`."""
    scheme, _, rest = str(path).partition("://") if isinstance(path, str) else ("", "", "")
    if rest and scheme == "file":
        return LocalDirectory(rest, disk)
    return RemoteDirectory(str(path)) if rest else LocalDirectory(path, disk)
