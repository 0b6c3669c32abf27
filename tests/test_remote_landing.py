"""A landing directory behind a URL: the same files as on a disk, through fsspec. S3 itself: tests/connectors."""

from __future__ import annotations

import json

import fsspec
import pytest

from holdfast.errors import ReadError
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.landing import Applied, Standing
from holdfast.pipeline.remote_landing import landing_at
from holdfast.pipeline.sources import stream_of

URL = "memory://landing/here"
MONDAY = "_change_type,id,city\ninsert,1,x\ninsert,2,y\n"


@pytest.fixture
def put():
    store = fsspec.filesystem("memory")

    def put(name: str, text: str) -> None:
        store.pipe_file(f"/landing/here/{name}", text.encode())

    yield put
    store.rm("/landing", recursive=True)


def batches(records=()):
    record = {"book": "book", "tables": {"t": {"types": {"id": "integer", "city": "text"}, "key": "id"}}}
    source = {"kind": "files", "path": URL}
    return stream_of(Pipeline.model_validate(record | {"source": source})).batches(None, 0, records)


def test_files_are_found_in_their_order_and_read(put):
    put("b/monday.csv", MONDAY)
    put("a/tuesday.jsonl", '{"_change_type": "delete", "id": 1, "city": "x"}\n')
    put("a/_part.csv", "half")
    put(".hidden/file.csv", "half")
    landing = landing_at(URL)
    assert [file.name for file in landing.files()] == ["b/monday.csv", "a/tuesday.jsonl"]
    assert sorted(landing.hidden()) == [".hidden/file.csv", "a/_part.csv"] and landing.left_out() == []
    monday, tuesday = batches()
    assert (monday.id, monday.place) == ("b/monday.csv", f"{URL}/b/monday.csv")
    (feed,) = monday.read({}, False).feeds
    assert feed.part.source.table.to_pylist() == [{"id": "1", "city": "x"}, {"id": "2", "city": "y"}]
    assert feed.part.source.place.row(1) == f"{URL}/b/monday.csv, row 2"
    assert tuesday.read({}, False).feeds[0].part.count == 1


def test_an_applied_file_is_known_by_its_content(put):
    put("monday.csv", MONDAY)
    (batch,) = batches()
    applied = [{"source": "pipeline", "batch": batch.id, "offsets": batch.offsets}]
    assert json.loads(batch.offsets)["sha256"] and batches(applied) == []
    put("monday.csv", MONDAY)  # again, with the same content
    landing = landing_at(URL)
    assert [s for _, s in Applied(applied, "pipeline").standings(landing.files())] == [Standing.APPLIED]
    put("monday.csv", MONDAY + "insert,3,z\n")
    assert batches(applied) == []
    (problem,) = landing.problems(Applied(applied, "pipeline"))
    assert problem.startswith(f"{URL}/monday.csv: was written again after it was applied")


def test_messages_name_the_url(put):
    put("broken.jsonl", "{")
    (batch,) = batches()
    with pytest.raises(ReadError, match=rf"^{URL}/broken\.jsonl, line 1: not JSON"):
        batch.read({}, False)
    put("monday.csv", MONDAY)
    _, batch = batches()
    put("monday.csv", MONDAY + "insert,3,z\n")
    with pytest.raises(ReadError, match=rf"^{URL}/monday\.csv: was written while it was read"):
        batch.read({}, False)


def test_a_place_without_files_is_made_for_spark(put):
    landing = landing_at(URL)
    landing.make()
    assert fsspec.filesystem("memory").exists("/landing/here/_landing")
    assert landing.files() == landing.hidden() == []
    put("monday.csv", MONDAY)
    assert len(landing.files()) == 1
