"""Creates and replaces files atomically and durably, without following symbolic links."""

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
    """Creates a file and syncs it. Raises FileExistsError if anything has this path. The umask limits `mode`."""
    with os.fdopen(os.open(path, _NEW, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_whole(path: Path, data: bytes) -> None:
    """Replaces or creates a file: atomically, durably, and with the permissions of the file it replaces.

    The content is written and synced under a random name, then renamed. A link at `path` is replaced, not followed.
    """
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}")
    try:
        permissions = _permissions(path)
        try:
            write_new(temporary, data, 0o666 if permissions is None else 0o600)
            if permissions is not None:
                temporary.chmod(permissions)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}") from error


def _permissions(path: Path) -> int | None:
    """The permissions of a regular file; None if there is no such file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


def sync_directory(path: Path) -> None:
    """Makes creations, renames and deletions in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_lock(path: Path) -> IO[str]:
    """Opens a lock file, and creates it if necessary. Raises StoreError if the path is a link."""
    try:
        return os.fdopen(os.open(path, _LOCK, 0o666), "r+", encoding="utf-8", errors="replace")
    except OSError as error:
        advice = "; it is a symbolic link: remove it" if path.is_symlink() else ""
        raise StoreError(f"{path} cannot be locked: {error.strerror or error}{advice}") from error
