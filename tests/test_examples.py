"""The notebooks under examples/ run, and their outputs are what they give."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
nbformat = pytest.importorskip("nbformat", reason="the notebooks need nbformat, nbclient and ipykernel")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


@pytest.fixture(scope="module")
def examples():
    spec = importlib.util.spec_from_file_location("examples", ROOT / "scripts" / "examples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's event loops
@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_gives_its_outputs(path, examples):
    """`executed` raises what a cell raises."""
    written = examples.outputs(nbformat.read(path, as_version=4))
    assert examples.outputs(examples.executed(path)) == written, "run `make examples`"


def test_notebooks_say_nothing_of_the_machine():
    paths = sorted(ROOT.glob("examples/*.ipynb"))
    assert len(paths) >= 3
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert "/tmp/" not in text and str(ROOT) not in text and "\\u001b" not in text
        assert nbformat.reads(text, as_version=4).metadata.language_info == {"name": "python"}
