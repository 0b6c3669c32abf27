"""Disks for tests that prove nothing about power cuts."""

from __future__ import annotations

from holdfast.store.disk import Disk


class UnsyncedDisk(Disk):
    """A disk that never waits for the device. A killed process loses nothing; only a power cut would."""

    def write(self, path, data):
        with path.open("xb") as file:
            file.write(data)

    def sync_directory(self, path):
        pass


UNSYNCED = UnsyncedDisk()
