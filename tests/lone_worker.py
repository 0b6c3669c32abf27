"""`python -m tests.lone_worker`: Spark == the definition, on a worker that shares no directory with the driver.

The worker and its tasks run in a mount namespace of their own: temporary directories, the home and the checkout of the
driver are empty there. Only the place of the rows and states is in both; it stands for HDFS or S3. First our package is
on the worker, for rules that need kernels. Then the worker has Spark and a bare Python, for all other rules. Each runs
in a classic session, and through Spark Connect. Needs root, or leave to mount.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyspark
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import holdfast as hf
from holdfast.java import find_java
from holdfast.spark import pair_tiles, tiles
from tests.cluster import cluster
from tests.test_full_check import RULES, frame_of, random_table, same
from tests.test_spark_book import follows_the_definition, stories

NOT_PERMITTED = 77  # exit status
ROOT = Path(__file__).resolve().parent.parent
SPARK_HOME = Path(pyspark.__file__).parent
NAMESPACE = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
WITHOUT_KERNELS = ["key(a)", "a, w -> b", "a -> v", "not(t.b < 1)", "not(t.a = t.b and t.w is null)"]
DRIVER = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",  # to compile a query takes longer than to run it on a few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Worker:
    """What a worker has: Python, and with `kernels` our package; `shared` is the one directory of both."""

    kernels: bool
    home: Path

    @property
    def shared(self) -> Path:
        return self.home / "shared"

    @property
    def package(self) -> Path:
        return self.home / "package"

    @property
    def python(self) -> str:
        return sys.executable if self.kernels else str(self.home / "bare" / "bin" / "python")

    @property
    def hidden(self) -> set[Path]:
        """The directories that are empty on the worker, wherever the driver may leave files."""
        found = {Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home(), Path.cwd()}
        return {path.resolve() for path in (found | {ROOT} | (set() if self.kernels else {Path(sys.prefix)}))}

    @property
    def kept(self) -> list[Path]:
        """The directories that the worker sees nevertheless."""
        own = [Path(sys.prefix), self.package] if self.kernels else [SPARK_HOME, self.home / "bare"]
        return [Path(sys.base_prefix), *own, self.shared]

    def prepare(self) -> None:
        """Makes what the worker is to have."""
        self.shared.mkdir()
        if self.kernels:  # a copy, with the kernels that are compiled already
            shutil.copytree(Path(hf.__file__).parent, self.package / "holdfast")
        else:
            venv.create(self.home / "bare")

    def script(self, command: list[str]) -> str:
        """Hides directories, mounts again those that are kept, and becomes the worker."""
        kept, q = [path.absolute() for path in self.kept], shlex.quote
        ours = [Path(entry).resolve() / "holdfast" for entry in sys.path if entry]
        lines = ["set -e", "cd /"]
        lines += [f"exec {i}<{q(str(path))}" for i, path in enumerate(kept, 3)]
        lines += [f"mkdir -p {q(str(p))}; mount -t tmpfs -o mode=1777 none {q(str(p))}" for p in sorted(self.hidden)]
        lines += [
            f"mkdir -p {q(str(path))}; mount --no-canonicalize --bind /proc/self/fd/{i} {q(str(path))}; exec {i}<&-"
            for i, path in enumerate(kept, 3)
        ]
        lines += [f"[ ! -d {q(str(path))} ] || mount -t tmpfs none {q(str(path))}" for path in ours]
        return "\n".join([*lines, f"exec {shlex.join(command)}"])

    @contextmanager
    def running(self, address: str) -> Iterator[None]:
        """The worker of a master, until the end."""
        java = find_java()
        assert java is not None
        place = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "2", "-m", "2g", "-d", "/tmp/worker", address]
        command = [str(SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker", *place]
        environment = {"PATH": os.defpath, "JAVA_HOME": str(java.home), "SPARK_HOME": str(SPARK_HOME)}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "LANG": "C.UTF-8", "HOME": str(Path.home())}
        environment |= {"PYTHONPATH": str(self.package)} if self.kernels else {}
        with (self.home / "worker.log").open("wb") as log:
            process = subprocess.Popen(
                [*NAMESPACE, "sh", "-c", self.script(command)], env=environment, stdout=log, stderr=log
            )
            try:
                yield
            finally:
                process.kill()  # and all in its namespace
                process.wait()


def refusal() -> str | None:
    """Why there can be no such worker here; None if there can."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    if sys.prefix == sys.base_prefix:
        return "Python is not in a virtual environment, so that it cannot be hidden"
    tried = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/tmp"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return f"a mount namespace is not permitted: {done.stderr.strip()}" if done.returncode else None


# --- sessions -------------------------------------------------------------------------------------------------


@contextmanager
def session(address: str, python: str, home: Path, *, connect: bool) -> Iterator[SparkSession]:
    """A session of the cluster, whose tasks run this Python."""
    java = find_java()
    assert java is not None
    os.environ |= {"JAVA_HOME": str(java.home), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    os.environ.pop("PYTHONPATH", None)  # of the driver, which it would send along
    log4j = Path(hf.__file__).parent / "spark" / "log4j2.properties"
    conf = DRIVER | {
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
    }
    if connect:
        with connect_server(address, conf, home) as url:
            spark = SparkSession.builder.remote(url).getOrCreate()
            try:
                yield spark
            finally:
                spark.stop()  # before the server, for which the client would wait
        return
    builder = SparkSession.builder.master(address)
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def connect_server(address: str, conf: dict[str, str], home: Path) -> Iterator[str]:
    """A Spark Connect server whose tasks run on the cluster: its URL."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    conf = conf | {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", address]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    with (home / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(480):
                with socket.socket() as some:
                    if some.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None:
                    break
                time.sleep(0.25)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


# --- what is tried --------------------------------------------------------------------------------------------


def require_lone(spark: SparkSession, worker: Worker) -> None:
    """Tasks see no file of the driver, but those in the shared directory; and our package only with kernels."""

    def seen(path: str) -> bool:
        return Path(path).exists()

    def imports(module: str) -> bool:
        import importlib

        try:
            importlib.import_module(module)
        except ImportError:
            return False
        return True

    def asked(question, values: list[str]) -> list[bool]:
        frame = spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)
        answer = udf(question, "boolean", useArrow=False)
        return [row[0] for row in frame.select(answer("value")).collect()]

    places = [*sorted(worker.hidden - {Path(sys.prefix)}), worker.shared]
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.NamedTemporaryFile(dir=place)) for place in places]
        assert asked(seen, [file.name for file in files]) == [False] * (len(files) - 1) + [True]
    assert not any(asked(seen, [str(ROOT / "tests"), str(ROOT / "src"), str(Path.home() / ".profile")]))
    modules = ["holdfast.spark.pair_tasks", "pyarrow", "tests.naive"]
    assert asked(imports, modules) == [worker.kernels, worker.kernels, False]


def check_equals_the_process(spark: SparkSession, *, kernels: bool, chosen: int) -> None:
    """`check` of random tables, with a foreign key between them."""
    rng = np.random.default_rng(chosen)
    tables = {"left": random_table(rng, 90), "right": random_table(rng, 40)}
    rules = [f"left: {rule}" for rule in (RULES if kernels else WITHOUT_KERNELS)]
    rules += ["left.c in right.d", "left(a, w) in right(b, v)"]
    frames = {name: frame_of(spark, table, int(rng.integers(1, 9))) for name, table in tables.items()}
    with patch.object(tiles, "ROWS_PER_TILE", 40), patch.object(pair_tiles, "ROWS_PER_TILE", 40):
        same(hf.check(frames, rules, key="id", on="spark"), hf.check(tables, rules, key="id"), rules)


def book_follows_the_definition(spark: SparkSession, worker: Worker, *, cases: int, chosen: int) -> int:
    """Random rulebooks, whose manifests only the driver sees. Returns how many."""
    done = 0

    @seed(chosen)
    @settings(max_examples=cases, deadline=None, suppress_health_check=[*HealthCheck], database=None, phases=_PHASES)
    @given(keyed=st.booleans(), data=st.data())
    def law(keyed: bool, data: st.DataObject) -> None:
        nonlocal done
        case = data.draw(stories(keyed=keyed, kernels=worker.kernels))
        with tempfile.TemporaryDirectory(dir=worker.shared) as state:
            follows_the_definition(spark, case, keyed=keyed, state=state)
        done += 1

    law()
    return done


_PHASES = (Phase.explicit, Phase.generate)  # to shrink a case takes very long here


def try_one(*, kernels: bool, connect: bool, cases: int, chosen: int) -> None:
    """Everything, on one worker and in one session."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="holdfast-lone-") as home, cluster(0) as running:
        worker = Worker(kernels, Path(home).resolve())
        worker.prepare()
        with (
            worker.running(running.address),
            session(running.address, worker.python, worker.home, connect=connect) as spark,
        ):
            try:
                require_lone(spark, worker)
                check_equals_the_process(spark, kernels=kernels, chosen=chosen)
                done = book_follows_the_definition(spark, worker, cases=cases, chosen=chosen)
            except BaseException:
                print((worker.home / "worker.log").read_text(errors="replace")[-2000:], file=sys.stderr)
                raise
    has = "with our package" if kernels else "with Spark and a bare Python"
    through = "Spark Connect" if connect else "a classic session"
    seconds = time.perf_counter() - started
    print(
        f"a lone worker {has}, {through}: check and {done} rulebooks follow the definition, {seconds:.0f} s", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=3, help="rulebooks on each worker and session")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", choices=["kernels", "bare"], help="only this one")
    parser.add_argument("--session", choices=["classic", "connect"], help="only this one")
    told = parser.parse_args()
    reason = refusal()
    if reason is not None:
        print(f"skipped: {reason}")
        sys.exit(NOT_PERMITTED)
    if told.worker and told.session:
        try_one(kernels=told.worker == "kernels", connect=told.session == "connect", cases=told.cases, chosen=told.seed)
        return
    for way in [told.session] if told.session else ["classic", "connect"]:  # a process has sessions of one sort
        for which in [told.worker] if told.worker else ["kernels", "bare"]:
            chosen = ["--worker", which, "--session", way, "--cases", str(told.cases), "--seed", str(told.seed)]
            subprocess.run([sys.executable, "-m", "tests.lone_worker", *chosen], check=True)


if __name__ == "__main__":
    main()
