"""Encoding a table, the memory of the key map, and a rule set of a million FDs: `python -m benchmarks.encode`.

Limits (from the foundation issue): encoding a 1M x 15 table with 5 text columns takes at most 3 times the CPU of
Arrow's dictionary_encode on the text columns plus one pass over the numeric ones; a RuleSet of 1M FDs is built,
filtered and counted in under 1 s.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import cpu, machine
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.keys import KeyMap
from holdfast.table.read import read, schema_of
from holdfast.table.schema import is_string

ROWS = 1_000_000


def sample(rows: int) -> pa.Table:
    """Fifteen columns: five of text with ten to a million distinct values, ten of the other kinds, some with nulls."""
    rng = np.random.default_rng(0)
    columns: dict[str, pa.Array] = {}
    for i, distinct in enumerate((10, 1000, 50_000, 300_000, 10**9)):
        columns[f"text{i}"] = pa.array(rng.integers(0, distinct, rows)).cast(pa.string())
    for i in range(4):
        columns[f"integer{i}"] = pa.array(rng.integers(-(10**6), 10**6, rows), mask=rng.random(rows) < 0.05 * i)
    for i in range(3):
        columns[f"float{i}"] = pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.05 * i)
    columns["decimal"] = pa.array(rng.integers(0, 10**6, rows)).cast(pa.decimal128(21, 2))
    columns["day"] = pa.array(rng.integers(0, 20_000, rows).astype(np.int32)).view(pa.date32())
    columns["flag"] = pa.array(rng.random(rows) < 0.5)
    return pa.table(columns)


def baseline(table: pa.Table) -> None:
    """dictionary_encode on the text columns and one pass (a sum) over the others."""
    for column in table.columns:
        if is_string(column.type):
            column.dictionary_encode()
        elif pa.types.is_date(column.type):
            pc.sum(column.cast(pa.int32()))
        else:
            pc.sum(column)


def encoding() -> None:
    pa.set_cpu_count(1)
    table = sample(ROWS)
    schema = schema_of(read(table))
    encode_table(schema, table.slice(0, 1000), TextDictionary())  # kernels are compiled
    base = cpu(lambda: baseline(table))
    ours = cpu(lambda: encode_table(schema, table, TextDictionary()))
    print(
        f"encode {ROWS:,} x {len(schema)} (5 text): {ours:.2f} s; "
        f"Arrow's baseline {base:.2f} s; ratio {ours / base:.2f} (at most 3)"
    )


def key_map() -> None:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.permutation(ROWS), rng.integers(0, 1000, ROWS)]).astype(np.int64)
    for name, columns in (("single", [0]), ("composite", [0, 1])):
        keys = KeyMap(np.array(columns))
        added = cpu(lambda keys=keys: keys.add(codes, np.arange(ROWS)), repeat=1)
        found = cpu(lambda keys=keys: keys.find(codes, codes))
        print(
            f"key map, {name} key, {ROWS:,} rows: {keys.nbytes / ROWS:.1f} bytes per row; "
            f"{added / ROWS * 1e9:.0f} ns to add a row, {found / ROWS * 1e9:.0f} ns to find one"
        )


def rule_set() -> None:
    rng = np.random.default_rng(2)
    columns = [f"c{i}" for i in range(60)]
    masks = [rng.integers(0, 2**60, ROWS, dtype=np.uint64) for _ in range(2)]
    left = (masks[0] & masks[1]).reshape(-1, 1)
    right = rng.integers(0, 60, ROWS)

    def work() -> int:
        rules = RuleSet.fds(columns, left, right)
        few = rules.where(lambda block: block.sizes() <= 12).mentioning("c7")
        return len(few) + len(rules - few)

    seconds = cpu(work)
    size = RuleSet.fds(columns, left, right).nbytes / 1e6
    print(f"rule set of {ROWS:,} FDs: {size:.0f} MB; built, filtered, subtracted, counted in {seconds:.2f} s (under 1)")


if __name__ == "__main__":
    print(machine())
    encoding()
    key_map()
    rule_set()
