"""Kills, full disks and lost workers, in short; the long forms are commands of `make test-long`."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from holdfast import HoldfastError
from holdfast.pipeline.config import load_pipeline
from holdfast.pipeline.stream import Follower, make_book
from holdfast.store.disk import Disk
from tests import kills


def test_three_kills():
    done, _ = kills.check(3, spark=False, seed=1, batches=9)
    assert done == 3


@pytest.mark.long
def test_a_kill_with_spark():
    done, _ = kills.check(1, spark=True, seed=3, most_per_stream=1, batches=9)
    assert done == 1


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The answer of a stream that nothing disturbs."""
    home = tmp_path_factory.mktemp("calm") / "calm"
    kills.follow(kills.prepare(home), None)
    return kills.answer(home)


@pytest.mark.parametrize("at", [3, 8, 21, 34])
def test_a_full_disk_stops_the_stream_which_goes_on_when_there_is_room(calm, tmp_path, monkeypatch, at):
    """ENOSPC at one write of the stream, of whichever file that is."""
    full = kills.prepare(tmp_path / "full")
    write, left = Disk.write, [at]

    def failing(self, path, data):
        left[0] -= 1
        if left[0] == 0:
            path.write_bytes(bytes(data)[: len(bytes(data)) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, path, data)

    pipeline = load_pipeline(full)
    make_book(pipeline, None)
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "write", failing)
        follower = Follower(pipeline, None)
        with pytest.raises(HoldfastError, match="No space left"):
            kills.take_all(follower, full)
        follower.book.close()
    kills.follow(full, None)
    assert kills.answer(tmp_path / "full") == calm


@pytest.mark.long
def test_an_executor_and_a_worker_are_lost():
    done = subprocess.run([sys.executable, "-m", "tests.cluster"], check=False, capture_output=True, text=True)
    assert done.returncode == 0 and "the same answer" in done.stdout, done.stdout + done.stderr
