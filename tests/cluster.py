"""`python -m tests.cluster --kills 20`: a standalone Spark cluster on loopback, whose executors and workers are killed.

Master and workers are those of the pip wheel. First a check must end with the answer that the process gives. Then a
rulebook on Spark gets batches while executors and workers are killed at random; a batch that fails is applied again.
After each batch it must have the rows and violations of a rulebook in the process.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import holdfast as hf
from holdfast.generate import tax
from holdfast.java import find_java
from holdfast.spark.session import local_session


@dataclass
class Cluster:
    """A master and one-core workers on this machine."""

    address: str
    home: str
    workers: list[subprocess.Popen] = field(default_factory=list)

    def start(self, role: str, *arguments: str) -> subprocess.Popen:
        """A process of the cluster."""
        import pyspark

        java = find_java()
        assert java is not None
        environment = os.environ | {"JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_WORKER_DIR": self.home, "PYSPARK_PYTHON": sys.executable, "SPARK_LOG_DIR": self.home}
        command = [Path(pyspark.__file__).parent / "bin" / "spark-class", f"org.apache.spark.deploy.{role}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        return subprocess.Popen([*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments], **quiet)

    def add_worker(self) -> None:
        self.workers.append(self.start("worker.Worker", "-c", "1", "-m", "2g", self.address))


@contextmanager
def cluster(workers: int) -> Iterator[Cluster]:
    """A master and so many workers, until the end."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        made = Cluster(f"spark://127.0.0.1:{port}", home)
        master = made.start("master.Master", "--port", str(port))
        try:
            _wait_for(port)
            for _ in range(workers):
                made.add_worker()
            yield made
        finally:
            for process in (master, *made.workers):
                process.kill()
                process.wait()


def _wait_for(port: int) -> None:
    for _ in range(240):
        with socket.socket() as some:
            if some.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.25)
    raise TimeoutError("the master does not answer")


def session_on(address: str):
    conf = {"spark.executor.memory": "1g", "spark.executor.cores": "1", "spark.task.maxFailures": "8"}
    return local_session(address, conf)


def _executors() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True, check=False)
    return [int(text) for text in found.stdout.split()]


def check_while_killing() -> None:
    rules = ["state -> area", "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)", "key(phone)"]
    table = tax(60_000, 0).tables["tax"]
    expected = hf.check(table, rules)
    with cluster(2) as running:
        spark = session_on(running.address)
        frame = spark.createDataFrame(table).repartition(16)
        hf.check(frame.limit(1000), rules[2:], on="spark")  # starts the executors
        killed: list[str] = []

        def kill() -> None:
            time.sleep(2)
            for process in _executors()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append("executor")
            time.sleep(3)
            running.workers[0].kill()
            killed.append("worker")

        killer = threading.Thread(target=kill)
        killer.start()
        started, answers = time.perf_counter(), []
        while not answers or killer.is_alive():
            found = hf.check(frame, rules, on="spark")
            answers.append([found.count(rule) for rule in rules])
        seconds = time.perf_counter() - started
        killer.join()
        spark.stop()
    assert killed == ["executor", "worker"], killed
    assert all(answer == [expected.count(rule) for rule in rules] for answer in answers)
    print(f"an executor and a worker were killed; {len(answers)} checks ended in {seconds:.1f} s with the same answer")


# --- a rulebook while executors and workers are killed --------------------------------------------------------

RULES = ["people: key(name)", "people: name -> city", "people.city in cities.city", "people: {age <} -> rank <="]
KEYS = {"people": "id", "cities": "city"}


class Killer(threading.Thread):
    """Kills an executor, or a worker and with it its executor, at random moments. Lost workers are replaced."""

    def __init__(self, running: Cluster, kills: int, choose: random.Random) -> None:
        super().__init__(daemon=True)
        self._cluster, self._choose, self.left = running, choose, kills
        self.killed: Counter[str] = Counter()

    def run(self) -> None:
        while self.left:
            time.sleep(self._choose.uniform(0.2, 6))
            executors = _executors()
            if self._choose.random() < 0.25:
                worker = self._cluster.workers.pop(self._choose.randrange(len(self._cluster.workers)))
                worker.kill()
                worker.wait()
                self._cluster.add_worker()
                self.killed["workers"] += 1
            elif executors:
                with suppress(ProcessLookupError):
                    os.kill(self._choose.choice(executors), signal.SIGKILL)
                self.killed["executors"] += 1
            else:
                continue
            self.left -= 1


def people(choose: random.Random, ids: list[int]) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "name": [choose.choice("abcdefgh") + str(choose.randrange(40)) for _ in ids],
            "city": [choose.choice("uvwxyz") for _ in ids],
            "age": [choose.randrange(90) for _ in ids],
            "rank": [choose.randrange(5) for _ in ids],
        }
    )


def a_change(choose: random.Random, ids: list[int], rows: pa.Table) -> hf.Change:
    """Some rows are deleted, some updated, some new."""
    chosen = choose.sample(ids, min(len(ids), 20))
    new = [max(ids, default=0) + 1 + i for i in range(12)]
    before = rows.filter(pc.is_in(rows["id"], pa.array(chosen[:10], pa.int64()))).sort_by("id")
    gone = pa.table({"id": pa.array(chosen[10:], pa.int64())})
    return hf.Change(people(choose, new), gone, (before, people(choose, before["id"].to_pylist())), "people")


def batches_while_killing(kills: int, seed: int) -> None:
    choose = random.Random(seed)
    base = {"people": people(choose, [*range(400)]), "cities": pa.table({"city": list("uvwx")})}
    with cluster(2) as running, tempfile.TemporaryDirectory() as home:
        spark = session_on(running.address)
        frames = {name: spark.createDataFrame(table).repartition(4) for name, table in base.items()}
        book = hf.Rulebook.create(f"{home}/book", frames, key=KEYS, rules=RULES, on="spark")
        twin = hf.Rulebook.create(None, base, key=KEYS, rules=RULES)
        killer, started, failed, number = Killer(running, kills, choose), time.perf_counter(), 0, 0
        killer.start()
        while killer.is_alive():
            rows = twin.table("people")
            change, number = a_change(choose, rows["id"].to_pylist(), rows), number + 1
            expected = twin.apply(change, number)
            while True:
                try:
                    out = book.apply(change, number)
                    break
                except Exception as error:  # of a job that lost too many executors
                    failed += 1
                    print(f"batch {number} failed: {str(error).splitlines()[0][:120]}", flush=True)
                    book.close()
                    book = hf.Rulebook.open(f"{home}/book")
                    assert book.version in (number - 1, number)
            assert out.skipped or [*map(out.violations.count_added, RULES)] == [
                *map(expected.violations.count_added, RULES)
            ]
            assert [*map(book.count_violations, RULES)] == [*map(twin.count_violations, RULES)]
        rows = book.table("people").toArrow().sort_by("id")
        assert rows.to_pylist() == twin.table("people").sort_by("id").to_pylist()
        assert book.version == twin.version == number
        spark.stop()
    dead = " and ".join(f"{n} {what}" for what, n in killer.killed.items())
    seconds = time.perf_counter() - started
    print(
        f"{dead} were killed in {number} batches of a rulebook on Spark, {failed} of which were applied again: the same"
    )
    print(f"as in the process after each batch, {seconds:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    check_while_killing()
    batches_while_killing(asked.kills, asked.seed)


if __name__ == "__main__":
    main()
