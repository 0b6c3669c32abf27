"""`python -m tests.cluster`: a standalone Spark cluster on loopback, whose executor and worker are killed during a job.

Master and workers are those of the pip wheel. The checks must end with the answer that the process gives.
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

import holdfast as hf
from holdfast.generate import tax
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


def session_on(address: str):
    conf = {"spark.executor.memory": "1g", "spark.executor.cores": "1", "spark.task.maxFailures": "8"}
    return local_session(address, conf)


def _executors() -> list[int]:
    found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True, check=False)
    return [int(text) for text in found.stdout.split()]


def main() -> None:
    rules = ["state -> area", "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)", "key(phone)"]
    table = tax(60_000, 0).tables["tax"]
    expected = hf.check(table, rules)
    with cluster(2) as (address, workers):
        spark = session_on(address)
        frame = spark.createDataFrame(table).repartition(16)
        assert hf.check(frame.limit(1000), rules[2:], on="spark").ok
        killed: list[str] = []

        def kill() -> None:
            time.sleep(2)
            for process in _executors()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append("executor")
            time.sleep(3)
            workers[0].kill()
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


if __name__ == "__main__":
    main()
