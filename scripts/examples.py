"""Runs the notebooks under `examples/` and writes their outputs into them. Run by `make examples`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))
OPTIONS = {
    "timeout": 120,  # seconds for a cell
    "kernel_name": "python3",
    "record_timing": False,
    "coalesce_streams": True,
}


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook as a real kernel of this Python runs it, in an empty directory; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    programs = str(Path(sys.executable).parent)
    with tempfile.TemporaryDirectory() as home:
        private = {name: f"{home}/{name}" for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
        wanted = private | {"PATH": os.pathsep.join([programs, os.environ.get("PATH", "")])}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            sockets = Config(KernelManager={"transport": "ipc", "ip": f"{home}/kernel"})  # no open port
            NotebookClient(notebook, config=sockets, **OPTIONS).execute(cwd=home)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                os.environ.update({} if value is None else {name: value})
    notebook.metadata["language_info"] = {"name": "python"}  # without the version of this Python
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[list[nbformat.NotebookNode]]:
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def main() -> None:
    for path in NOTEBOOKS:
        path.write_text(nbformat.writes(executed(path)) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
