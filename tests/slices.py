"""Long work in its smallest slices, so that a ticking clock can end it anywhere."""

from __future__ import annotations

from contextlib import contextmanager

from holdfast.discovery import pair_sets, slices
from holdfast.discovery.dc import denial, evidence
from holdfast.discovery.hitting_sets import minimal, weighted
from holdfast.discovery.witness import predicate_space


@contextmanager
def small_slices():
    """Everything that is done in slices, in the smallest ones."""
    changed = {
        pair_sets: {"_FIRST_PAIRS": 4, "_SLICE_SECONDS": 1e-12, "_TILES": 1, "AT_ONCE": 3},
        minimal: {
            "_STEPS": 3,
            "_FEWEST_STEPS": 1,
            "_EDGES": 8,
            "_COMPARED": 8,
            "_TRIED": 8,
            "_TRANSPOSED": 64,
            "_MANY": 4,
            "_SAMPLE": 2,
        },
        denial: {"_AT_ONCE": 2, "_ASKED": 1},
        evidence: {"AT_ONCE": 3},
        weighted: {"_PAIRS": 8, "AT_ONCE": 3},
        slices: {"AT_ONCE": 3},
        predicate_space: {"AT_ONCE": 3, "_PAIRS_AT_ONCE": 2},
    }
    before = {module: {name: getattr(module, name) for name in names} for module, names in changed.items()}
    try:
        for module, names in changed.items():
            vars(module).update(names)
        yield
    finally:
        for module, names in before.items():
            vars(module).update(names)
