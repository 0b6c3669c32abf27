"""`make bench`: every benchmark, one after the other."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("encode", "violations", "agree", "inclusion", "denial", "budget", "web", "spark")

for name in BENCHMARKS:
    print(f"== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
