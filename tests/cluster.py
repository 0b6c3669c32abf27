"""`python -m tests.cluster`: a standalone Spark cluster on loopback, whose executor and worker are killed during a job.

Master and workers are those of the pip wheel. The job must end with the answer that threads give.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.executors.executor import Executor
from holdfast.executors.spark import SparkExecutor
from holdfast.executors.threads import ThreadExecutor
from holdfast.java import find_java
from holdfast.spark.session import local_session


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """A master and one-core workers: its address, and the workers' processes."""
    import pyspark

    java = find_java()
    assert java is not None
    start = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {
            "JAVA_HOME": str(java.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": home,
        }
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOG_DIR": home}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        deploy = "org.apache.spark.deploy"
        processes = [subprocess.Popen([start, f"{deploy}.master.Master", *place, "--port", str(port)], **quiet)]
        try:
            _wait_for(port)
            address = f"spark://127.0.0.1:{port}"
            for _ in range(workers):
                command = [start, f"{deploy}.worker.Worker", *place, "-c", "1", "-m", "2g", address]
                processes.append(subprocess.Popen(command, **quiet))
            yield address, processes[1:]
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _wait_for(port: int) -> None:
    for _ in range(240):
        with socket.socket() as some:
            if some.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.25)
    raise TimeoutError("the master does not answer")


def _wait_for_results(shared: Path, count: int) -> None:
    """Until a job has written so many results; it has more to write."""
    for _ in range(6000):
        if len(list(shared.glob("job-*/out-*"))) >= count:
            return
        time.sleep(0.01)
    raise TimeoutError("the job writes nothing")


def session_on(address: str):
    conf = {"spark.executor.memory": "1g", "spark.executor.cores": "1", "spark.task.maxFailures": "8"}
    return local_session(address, conf)


def _executors() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True, check=False)
    return [int(text) for text in found.stdout.split()]


def counts_of(codes: np.ndarray, executor: Executor) -> dict[int, int]:
    """How many pairs of rows agree on which columns."""
    pairs = AgreeSets(len(codes), executor=executor, few_pairs=0, pairs_per_tile=2048 * 2048)
    tally = pairs.pairs(np.arange(codes.shape[1]), codes)
    return dict(zip(tally.sets[:, 0].tolist(), tally.counts.tolist(), strict=True))


def main() -> None:
    codes = np.random.default_rng(0).integers(0, 50, (15, 40_000))
    expected = counts_of(codes, ThreadExecutor(2))
    with cluster(2) as (address, workers), tempfile.TemporaryDirectory() as shared:
        spark = session_on(address)
        killed: list[str] = []

        def kill() -> None:
            _wait_for_results(Path(shared), 1)
            for process in _executors()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append("executor")
            _wait_for_results(Path(shared), 4)
            workers[0].kill()
            killed.append("worker")

        executor = SparkExecutor(spark, Path(shared), tasks=16)
        assert counts_of(codes[:, :2000], executor) == counts_of(codes[:, :2000], ThreadExecutor(1))
        killer = threading.Thread(target=kill)
        killer.start()
        started = time.perf_counter()
        found = counts_of(codes, executor)
        seconds = time.perf_counter() - started
        killer.join()
        spark.stop()
    assert killed == ["executor", "worker"], killed
    assert found == expected
    print(f"an executor and a worker were killed; the job ended after {seconds:.1f} s with the same answer")


if __name__ == "__main__":
    main()
