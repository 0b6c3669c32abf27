"""How commands end when something is missing, or somebody presses Ctrl-C: in one line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import Rulebook

WITHOUT = """
import json, os, sys
import numba, pyarrow.parquet, pydantic, rich, sqlglot, typer  # once for all cases; each has a process of its own
for number, (missing, command) in enumerate(json.load(sys.stdin)):
    if not os.fork():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(f"{sys.argv[1]}/{number}", os.O_WRONLY | os.O_CREAT), 2)
        sys.modules[missing] = None
        from holdfast.cli.main import status_of
        os._exit(status_of(command))
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
PIPELINE = """
name: p
book: other
tables: {t: {base: t.parquet}}
rules: ["a -> b"]
source: {kind: files, path: landing}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    home = tmp_path_factory.mktemp("endings")
    table = pa.table({"a": ["1"], "b": ["2"]})
    pq.write_table(table, home / "t.parquet")
    (home / "landing").mkdir()
    (home / "p.yml").write_text(PIPELINE)
    Rulebook.create(home / "book", table).close()
    return home


MISSING = [
    ("pyspark", ["watch", "p.yml", "--once"], "spark"),
    ("pyspark", ["check", "t.parquet", "--rule", "a -> b", "--on", "spark"], "spark"),
    ("pyspark", ["demo", "--rows", "100", "--batches", "1"], "spark"),
    ("uvicorn", ["serve", "book", "--port", "0"], "ui"),
    ("fastapi", ["serve", "book", "--port", "0"], "ui"),
    ("jinja2", ["report", "book"], "ui"),
    ("altair", ["report", "book"], "ui"),
]


@pytest.fixture(scope="module")
def endings(place, tmp_path_factory) -> list[tuple[int, str]]:
    """Exit status and stderr of each command without what it needs."""
    errors = tmp_path_factory.mktemp("errors")
    cases = [(missing, command) for missing, command, _ in MISSING]
    run = [sys.executable, "-c", WITHOUT, str(errors)]
    done = subprocess.run(run, input=json.dumps(cases), cwd=place, capture_output=True, text=True, check=True)
    return [(int(line), (errors / str(number)).read_text()) for number, line in enumerate(done.stdout.split())]


@pytest.mark.parametrize(
    ("number", "extra"),
    [(number, extra) for number, (_, _, extra) in enumerate(MISSING)],
    ids=[f"{command[0]} without {missing}" for missing, command, _ in MISSING],
)
def test_a_missing_extra_is_one_line_with_the_command_that_brings_it(endings, number, extra):
    status, errors = endings[number]
    lines = [line for line in errors.splitlines() if "compiling the kernels" not in line]
    assert status == 2 and len(lines) == 1, errors
    assert lines[0].startswith("holdfast: ") and lines[0].endswith(f"pip install 'holdfast-data[{extra}]'")


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("watched", [False, True], ids=["alone", "with a page open"])
def test_ctrl_c_ends_a_server_in_one_line(place, times, watched):
    command = [sys.executable, "-m", "holdfast.cli.main", "serve", str(place / "book"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        address = re.search(r"http://[^?]+", server.stdout.readline())[0]
        page = urllib.request.urlopen(f"{address}api/events", timeout=60) if watched else None
        for _ in range(times):
            server.send_signal(signal.SIGINT)
        _, told = server.communicate(timeout=60)
        if page is not None:
            page.close()
    assert server.returncode in (0, 130)
    assert [line for line in told.splitlines() if "compiling the kernels" not in line] == ["holdfast: interrupted"]


EARLY = """
import signal, sys, uvicorn
serve = uvicorn.Server.serve

def early(self, sockets=None):
    made = serve(self, sockets=sockets)
    signal.raise_signal(signal.SIGINT)
    return made

uvicorn.Server.serve = early
from holdfast.cli.main import run
run(["serve", sys.argv[1], "--port", "0"])
"""


def test_ctrl_c_while_a_server_starts(place):
    """Between the printed address and the moment in which the server itself listens to signals."""
    run = [sys.executable, "-c", EARLY, str(place / "book")]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=60)
    told = [line for line in done.stderr.splitlines() if "compiling the kernels" not in line]
    assert done.returncode == 130 and told == ["holdfast: interrupted"]


STUBBORN = """
import signal, sys
from holdfast.spark import session

class Conf(dict):
    set = dict.__setitem__

class Spark:
    conf = Conf()
    def stop(self):
        signal.raise_signal(signal.SIGINT)
        print("stopped")

session.local_session = lambda *_, **__: Spark()
try:
    with session.running():
        signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_second_ctrl_c_lets_spark_stop():
    done = subprocess.run([sys.executable, "-c", STUBBORN], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["stopped", "interrupted"] and not done.stderr
