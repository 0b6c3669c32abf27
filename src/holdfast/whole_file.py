"""Files that are made or replaced as a whole, survive a crash, and never follow a link that somebody else put there."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import IO

import pyarrow as pa

from holdfast.errors import StoreError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write_new(path: Path, data: pa.Buffer | bytes, mode: int = 0o666) -> None:
    """Makes and syncs a file; FileExistsError where anything has its name, a link too. The umask limits `mode`."""
    with os.fdopen(os.open(path, _NEW, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_whole(path: Path, data: bytes) -> None:
    """Replaces a file, or makes it: whole or not at all, durable, and readable by no more people than before.

    The content is written and synced under a random name, which is then renamed; a link at `path` is replaced, not
    followed.
    """
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}")
    try:
        before = _permissions(path)
        try:
            write_new(temporary, data, 0o666 if before is None else 0o600)
            if before is not None:
                temporary.chmod(before)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}") from error


def _permissions(path: Path) -> int | None:
    """Those of a file that is there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_lock(path: Path) -> IO[str]:
    """The file of a lock, made where it is not there; a link in its place is an error."""
    try:
        return os.fdopen(os.open(path, _LOCK, 0o666), "r+", encoding="utf-8", errors="replace")
    except OSError as error:
        advice = "; it is a symbolic link: remove it" if path.is_symlink() else ""
        raise StoreError(f"{path} cannot be locked: {error.strerror or error}{advice}") from error
