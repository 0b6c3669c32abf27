"""`python -m tests.spark_kills --kills 100`: `holdfast watch` with the rows on Spark is killed again and again.

The process and its JVM are killed when they have made a random number of files: inside a write of Spark, between a
state and the manifest, between the manifest and a sink. At the end history, rows, violations and sinks must be those of
a run in the process that nothing disturbed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from ruamel.yaml import YAML

from holdfast import Rulebook
from holdfast.spark.session import local_session
from tests.kills import STREAM, _run_process, _run_spark, prepare

BATCHES, FILES = 6, 18  # of a batch, about: Spark makes many small files


def prepared(home: Path, place: str, batches: int) -> Path:
    """The pipeline of `tests.kills` with its rows in this place, without discovery."""
    file = prepare(home, batches)
    record = YAML(typ="safe").load(file.read_text())
    record |= {"kinds": [], "on": place}
    with file.open("w") as out:
        YAML(typ="safe").dump(record, out)
    return file


def answer(home: Path) -> dict:
    """All that must be the same, whatever the order of rows."""
    with Rulebook.open(home / "book") as book:
        tables = {name: _rows(book.table(name)) for name in STREAM.tables}
        found = {rule: _rows(book.violations(rule)) for rule in STREAM.rules}
        counts = {rule: book.count_violations(rule) for rule in STREAM.rules}
        history = book.history().drop_columns(["time"]).to_pylist()
    told = pq.read_table(home / "told" / "violations").drop_columns(["time", "sequence"]).to_pylist()
    made = {"tables": tables, "violations": found, "counts": counts, "history": history}
    return json.loads(json.dumps(made | {"told": sorted(map(_text, told))}, default=str))


def _rows(table) -> list[str]:
    table = table if hasattr(table, "num_rows") else table.toArrow()
    return sorted(map(_text, table.to_pylist()))


def _text(row: dict) -> str:
    return json.dumps({name: row[name] for name in sorted(row)}, default=str)


def check(kills: int, seed: int, batches: int = BATCHES, most_per_stream: int = 8) -> tuple[int, int]:
    """Streams are killed until there were enough kills: (kills, streams)."""
    choose, done, streams = random.Random(seed), 0, 0
    local_session("local[2]")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        _run_process(prepared(home / "calm", "process", batches), None)
        expected = answer(home / "calm")
        assert len(expected["history"]) >= batches and expected["told"]
        while done < kills:
            streams += 1
            file, killed = prepared(home / f"stream{streams}", "spark", batches), 0
            while not _run_spark(file, choose.randrange(batches * FILES) if killed < most_per_stream else None):
                killed += 1
                if done + killed >= kills:
                    most_per_stream = killed
            done += killed
            found = answer(file.parent)
            for part in expected:
                assert found[part] == expected[part], f"stream {streams}: other {part}"
            shutil.rmtree(file.parent)
            print(f"{done} kills, {streams} streams: the same", flush=True)
    return done, streams


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    started = time.perf_counter()
    kills, streams = check(asked.kills, asked.seed)
    seconds = time.perf_counter() - started
    print(f"killed watch with rows on Spark {kills} times in {streams} streams: identical each time, {seconds:.0f} s")


if __name__ == "__main__":
    main()
