"""Following another process that writes: its versions are merged into the states, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.arrays import Arrays
from holdfast.errors import StoreError
from holdfast.rulebook.engine import Engine
from holdfast.store.store import Store
from holdfast.table.row_change import RowChange


def changes_after(version: int, store: Store, newest: Store) -> list[Mapping[str, Arrays]] | None:
    """The steps of the versions after one; None if rules or columns changed since the version of `store`, or a version
    in between is not kept any more. A refresh that was interrupted may have merged some versions after `store`."""
    try:
        later = [newest.manifest_of(number) for number in range(version + 1, newest.version + 1)]
        if any(manifest.meta != store.manifest.meta for manifest in later):
            return None
        return [newest.change(manifest.version) for manifest in later]
    except (FileNotFoundError, StoreError):
        return None


def catch_up(engine: Engine, change: Mapping[str, Arrays]) -> dict[str, RowChange]:
    """Merges a version of another process into the rows and all that follows from them. Returns what it did to the
    rows. O(size of the change)."""
    state = engine.state
    step = state.read_step(change)
    with engine.guarded():
        changes = {name: RowChange.of(state.rows[name], delta) for name, delta in step.rows.items()}
        if engine.is_indexed:
            engine.detector().apply(changes)
        if engine.discovered.is_searched:
            engine.discovered.update(changes)
        elif step.facts:
            engine.discovered.remember(step.facts)
    state.merge(step)
    return changes
