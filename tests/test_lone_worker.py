"""A worker that shares no directory with the driver, in short; `python -m tests.lone_worker --cases` tries more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

NOT_PERMITTED = 77


@pytest.mark.long
def test_a_lone_worker_follows_the_definition():
    command = [sys.executable, "-m", "tests.lone_worker", "--cases", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode == NOT_PERMITTED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("follow the definition") == 4
