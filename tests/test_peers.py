"""Answers of other programs beside ours: `make test-tools`. They run in an environment of their own (.tools/peers)."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

import holdfast as hf
from benchmarks import peers

FASTADC = """
import json, pathlib, sys, desbordante
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.csv")):
    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=(str(path), ",", True))
    algorithm.execute(threads=1, allow_cross_columns=False, evidence_threshold=0.0, shard_length=0)
    print(json.dumps([path.stem, [str(rule) for rule in algorithm.get_dcs()]]))
"""


def constraints_of_fastadc(place: Path) -> dict[str, set[hf.Rule]]:
    """The rules of each CSV file of a directory, as ours."""
    if not peers.available():
        pytest.skip("the peers cannot be installed")
    answer = peers.run(FASTADC, str(place), seconds=600)
    assert answer is not None
    found = {}
    for line in answer.splitlines():
        name, rules = json.loads(line)
        texts = (rule.strip("¬{} ").replace("∧", "and").replace("==", "=") for rule in rules)
        found[name] = {hf.parse(f"not({text})") for text in texts}
    return found


def ours(path: Path) -> set[hf.Rule]:
    rules = hf.discover(path, ("dc",), cross_columns=False, max_size=None)
    assert rules.complete
    return set(rules)


@pytest.mark.tools
def test_the_constraints_of_random_tables(tmp_path):
    """50 tables of integers, decimals and words: the same minimal constraints. FastADC refuses nulls, and a constant
    column says nothing to it, so there are none."""
    rng = np.random.default_rng(7)
    for number in range(50):
        rows, columns = int(rng.integers(4, 60)), int(rng.integers(2, 6))
        made = {}
        for i in range(columns):
            values = rng.integers(0, int(rng.integers(2, 12)), rows)
            values[:2] = 0, 1
            kind = rng.integers(0, 3)
            made[f"c{i}"] = values if kind == 0 else values + 0.5 if kind == 1 else np.array([f"w{v}" for v in values])
        pyarrow.csv.write_csv(pyarrow.table(made), tmp_path / f"{number:02}.csv")
    theirs = constraints_of_fastadc(tmp_path)
    assert len(theirs) == 50
    for name, rules in theirs.items():
        assert ours(tmp_path / f"{name}.csv") == rules, name


@pytest.mark.tools
@pytest.mark.data
def test_the_constraints_of_adult(real_data, tmp_path):
    for columns, rows in ((12, 2000), (13, 1000)):
        with (real_data / "uci" / "adult.csv").open() as lines, (tmp_path / f"{columns}.csv").open("w") as out:
            writer = csv.writer(out)
            for line, _ in zip(csv.reader(lines), range(rows + 1), strict=False):
                writer.writerow([value or "none" for value in line[:columns]])
    theirs = constraints_of_fastadc(tmp_path)
    assert {name: len(rules) for name, rules in theirs.items()} == {"12": 1312, "13": 9233}
    for name, rules in theirs.items():
        differ = sorted(map(str, ours(tmp_path / f"{name}.csv") ^ rules))
        assert not differ, differ[:3]
