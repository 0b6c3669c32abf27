"""`python -m tests.kills --kills 100 [--spark]`: a stream of 30 batches whose driver is killed again and again.

Without Spark the process dies at a random elementary operation of the disk: between a file and the manifest, inside the
publication, while old versions are removed, between the manifest and a sink, inside a sink. With Spark it is `holdfast
watch`, killed with its JVM when it has made a random number of files. After each kill the rulebook is that of a version
of a run that nothing disturbed, and the rules in its files are those of its rows. At the end rules, violations, history
and sinks must be those of that run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from ruamel.yaml import YAML

from holdfast import Rulebook, discover
from holdfast.generate import orders
from holdfast.pipeline.config import load_pipeline
from holdfast.pipeline.sources import stream_of
from holdfast.pipeline.stream import Follower, make_book
from holdfast.store.disk import Disk

BATCHES = 30
OPERATIONS, FILES = 30, 8  # of a batch, about
STREAM = orders(300, 5)
SIZES = {"key": 2, "fd": 2, "ind": 2}


def prepare(home: Path, batches: int = BATCHES) -> Path:
    """Tables, change files and a pipeline file."""
    (home / "landing").mkdir(parents=True)
    for name, table in STREAM.tables.items():
        pq.write_table(table, home / f"{name}.parquet")
    for batch in STREAM.batches(batches, 40):
        file = home / "landing" / f"{batch.number:03d}.parquet"
        pq.write_table(batch.feed(), file)
        os.utime(file, (1_700_000_000 + batch.number,) * 2)
    record = {
        "name": "kills",
        "book": "book",
        "keep": 3,
        "tables": {name: {"base": f"{name}.parquet", "key": list(key)} for name, key in STREAM.keys.items()},
        "rules": list(STREAM.rules),
        "kinds": ["key", "fd", "ind"],
        "max_size": SIZES,
        "source": {"kind": "files", "path": "landing", "files_per_batch": 1},
        "sinks": [{"kind": "parquet", "path": "told"}],
    }
    with (home / "pipeline.yml").open("w") as file:
        YAML(typ="safe").dump(record, file)
    return home / "pipeline.yml"


def follow(file: Path, die_at: int | None) -> None:
    """The stream without Spark; dies for real at the n-th operation of the disk."""
    if die_at is not None:
        _die_at(die_at)
    pipeline = load_pipeline(file)
    make_book(pipeline, None)
    follower = Follower(pipeline, None)
    take_all(follower, file)
    follower.close()


def take_all(follower: Follower, file: Path) -> None:
    """All files of the landing directory, in order."""
    files = stream_of(follower.pipeline)
    for batch in files.batches(None, 0, follower.book.records()):
        follower.take(batch)


def _die_at(count: int) -> None:
    left = [count]

    def tick() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("write", "link", "remove", "sync_directory", "make_directory"):
        before = getattr(Disk, name)

        def ticking(self, path, *rest, before=before, name=name):
            if name == "write" and left[0] == 0:
                path.write_bytes(bytes(rest[0])[: len(bytes(rest[0])) // 2])
            tick()
            return before(self, path, *rest)

        setattr(Disk, name, ticking)


def answer(home: Path) -> dict:
    """All that must be the same: rules, violations, history, sinks."""
    with Rulebook.open(home / "book") as book:
        history = book.history().drop_columns(["time"]).to_pylist()
        found = {rule: book.violations(rule).to_pylist() for rule in STREAM.rules}
        rows = {name: book.table(name).to_pylist() for name in STREAM.tables}
        ids = {name: book.row_ids(name).to_pylist() for name in STREAM.tables}
        versions, rules = book.versions(), book.rules().texts()
    told = pq.read_table(home / "told" / "violations").drop_columns(["time"]).to_pylist()
    told.sort(key=lambda row: (int(row["version"]), row["sequence"]))
    made = {"history": history, "violations": found, "rows": rows, "ids": ids, "versions": versions}
    return json.loads(json.dumps(made | {"rules": rules, "told": told}, default=str))


def require_whole(home: Path, expected: dict) -> None:
    """Whatever version a kill left is one of the undisturbed run, and its rules are those of its rows."""
    if not (home / "book" / "manifests").exists() or not any((home / "book" / "manifests").glob("[0-9]*")):
        return
    with Rulebook.open(home / "book") as book:
        history = json.loads(json.dumps(book.history().drop_columns(["time"]).to_pylist(), default=str))
        assert history == expected["history"][: len(history)], f"another history after a kill at {book.version}"
        tables = {name: book.table(name) for name in STREAM.tables}
        types = {name: {c.name: c.type_text for c in schema.columns} for name, schema in book.schemas.items()}
        found = discover(tables, ("key", "fd", "ind"), max_size=SIZES, types=types, time_budget=None)
        assert book.found() == found, f"other rules than those of the rows after a kill at {book.version}"


def run_killed(file: Path, choose: random.Random, kills: int, expected: dict, *, spark: bool, batches: int) -> int:
    """Runs until the stream is done, killing at most so often; how often it came to that."""
    killed, most = 0, batches * (FILES if spark else OPERATIONS)
    while True:
        limit = None if killed >= kills else choose.randrange(most)
        done = _run_spark(file, limit) if spark else _run_process(file, limit)
        if done:
            return killed
        killed += 1
        require_whole(file.parent, expected)


def _run_process(file: Path, limit: int | None) -> bool:
    command = [sys.executable, "-m", "tests.kills", "--follow", str(file)]
    done = subprocess.run(command + (["--die-at", str(limit)] if limit is not None else []), check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the follower ended with {done.returncode}")
    return done.returncode == 0


def _run_spark(file: Path, limit: int | None) -> bool:
    """Runs `holdfast watch`; kills it when it has made so many files."""
    command = [
        str(Path(sys.executable).parent / "holdfast"),
        "watch",
        str(file),
        "--master",
        "local[2]",
        "--fail-on",
        "none",
    ]
    before, made = _files(file.parent), set[tuple[str, str]]()
    with (file.parent / "errors.txt").open("w+") as errors:
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            made |= _files(file.parent) - before  # some are removed later
            if limit is not None and len(made) >= limit:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return False
            time.sleep(0.002)
        if process.returncode != 0:
            errors.seek(0)
            raise SystemExit(f"holdfast watch ended with {process.returncode}: {errors.read()}")
    return True


def _files(home: Path) -> set[tuple[str, str]]:
    """The files of a rulebook and its sinks."""
    return {(at, name) for part in ("book", "told") for at, _, names in os.walk(home / part) for name in names}


def check(kills: int, *, spark: bool, seed: int, most_per_stream: int = 12, batches: int = BATCHES) -> tuple[int, int]:
    """Streams are killed until there were enough; every one must end like the undisturbed one: (kills, streams)."""
    choose, done, streams = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        calm = prepare(home / "calm", batches)
        _run_process(calm, None)  # with or without Spark: the same
        expected = answer(home / "calm")
        assert len(expected["history"]) >= batches and expected["told"]
        while done < kills:
            streams += 1
            file = prepare(home / f"stream{streams}", batches)
            most = min(kills - done, most_per_stream)
            done += run_killed(file, choose, most, expected, spark=spark, batches=batches)
            _require_same(answer(file.parent), expected, streams)
            shutil.rmtree(file.parent)
            print(f"{done} kills, {streams} streams: the same", flush=True)
    return done, streams


def _require_same(found: dict, expected: dict, stream: int) -> None:
    for what, wanted in expected.items():
        if found[what] != wanted:
            odd = [pair for pair in zip(found[what], wanted, strict=False) if pair[0] != pair[1]][:3]
            lengths = len(found[what]), len(wanted)
            raise AssertionError(f"stream {stream}: {what} differs, {lengths[0]} for {lengths[1]}: {odd}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--follow", type=Path)
    parser.add_argument("--die-at", type=int)
    given = parser.parse_args()
    if given.follow is not None:
        follow(given.follow, given.die_at)
        return
    started = time.perf_counter()
    kills, streams = check(given.kills, spark=given.spark, seed=given.seed)
    how = "holdfast watch on Spark" if given.spark else "the follower at elementary operations"
    print(f"killed {how} {kills} times in {streams} streams of {BATCHES} batches: identical each time, ", end="")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
