"""Which versions a rulebook directory keeps, and how their manifests are named."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.store.directory import Directory, LocalDirectory
from holdfast.store.manifest import Manifest

MANIFESTS, FILES = "manifests", "files"
_MANIFEST = re.compile(r"([0-9]{10,})\.json")
_MARK = re.compile(r"whole-from-([0-9]{10,})")


@dataclass
class KeptVersions:
    """The versions that have a manifest. All files exist from `whole_from` on; older ones have only their change."""

    versions: list[int]
    oldest: int
    whole_from: int
    marks: list[int]

    @property
    def whole(self) -> list[int]:
        return [version for version in self.versions if version >= self.whole_from]


def list_versions(directory: Directory) -> KeptVersions:
    """Lists the manifests and marks of a directory. Files with other names are ignored."""
    names = directory.names(MANIFESTS)
    versions = sorted(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))
    marks = sorted(int(match[1]) for name in names if (match := _MARK.fullmatch(name)))
    oldest = versions[0] if versions else 0
    return KeptVersions(versions, oldest, max([oldest, *marks]), marks)


def not_kept(directory: Directory, version: int, kept: KeptVersions) -> StoreError:
    whole = kept.whole
    listed = f"{whole[0]} to {whole[-1]}" if len(whole) > 1 else ", ".join(map(str, whole))
    if version in kept.versions:
        return StoreError(f"{directory} keeps of version {version} only what it changed; it keeps {listed} in full")
    return StoreError(f"{directory} has no version {version} (any more); it keeps {listed}")


def no_rulebook(directory: Directory) -> StoreError:
    """An error that says how to make a rulebook, or which one was probably meant."""
    similar = _similar_rulebook(directory.path) if isinstance(directory, LocalDirectory) else None
    advice = f"`holdfast init {directory} FILE...` makes one" if similar is None else f"did you mean {similar}?"
    return StoreError(f"{directory} is not a rulebook: it has no {MANIFESTS}/ with a version; {advice}")


def _similar_rulebook(path: Path) -> Path | None:
    """The rulebook that contains this path, or one beside it with a similar name."""
    if path.name in (MANIFESTS, FILES) and list_versions(LocalDirectory(path.parent)).versions:
        return path.parent
    try:
        names = [child.name for child in path.parent.iterdir() if (child / MANIFESTS).is_dir()]
    except OSError:
        return None
    return next((path.with_name(name) for name in difflib.get_close_matches(path.name, names, 1)), None)


def manifest_name(version: int) -> str:
    return f"{version:010d}.json"


def mark_name(version: int) -> str:
    return f"whole-from-{version:010d}"


def read_manifest(directory: Directory, version: int) -> Manifest:
    name = manifest_name(version)
    return Manifest.from_bytes(directory.read(MANIFESTS, name).to_pybytes(), f"{directory}/{MANIFESTS}/{name}")
