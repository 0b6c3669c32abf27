"""What a command leaves out of a process that is its own."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

_state = {"is_own": False}


class _NotThere(MetaPathFinder):
    """Hides pandas from everybody who asks whether it is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


def begins() -> None:
    """Notes that the process runs one command, and ends with it."""
    _state["is_own"] = True


def without_pandas() -> None:
    """Hides pandas from a command that reads files and prints text. Arrow imports pandas, if it is installed, with the
    first Python value that it converts; that takes longer than a small check. Commands on Spark need it."""
    if _state["is_own"] and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NotThere())
        _state["is_own"] = False
