"""A rulebook on Spark in an object store: this process puts the manifests (s3://), Spark writes the rows (s3a://).

`make test-connectors` brings a server, the clients and a Spark session of its own.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.errors import StoreError
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.stream import watch
from holdfast.store.directory import LostPut, directory_at
from tests.conftest import CONF
from tests.connectors.s3_server import Fate, S3Server, answered

pytestmark = [
    pytest.mark.connectors,
    pytest.mark.skipif("HOLDFAST_OBJECT_STORE" not in os.environ, reason="run by `make test-connectors`"),
]
PEOPLE = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "a", None], "city": ["x", "y", "z", "x"]})
CITIES = pa.table({"city": ["x", "y"], "size": [10, 20]})
BASE, KEYS = {"people": PEOPLE, "cities": CITIES}, {"people": "id", "cities": "city"}
RULES = [
    "people: key(name)",
    "people: name -> city",
    "people.city in cities.city",
    "people: not(t.name = s.name and t.id < s.id and t.city != s.city)",
]
NAMES = count(1)


@pytest.fixture(scope="module")
def server():
    """An S3 server with a bucket, and an environment in which clients find it."""
    import boto3

    running = S3Server()
    names = {"AWS_ENDPOINT_URL": running.url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (names | {"AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1"}).items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="bucket")
        yield running
    running.stop()


@pytest.fixture(autouse=True)
def whole_network(server):
    yield
    server.fate = answered


@pytest.fixture(scope="module")
def spark(server):
    """The session of this process, with Hadoop's client of S3."""
    from holdfast.spark.session import local_session

    jars = (Path(os.environ["HOLDFAST_JARS"]) / "object_store").glob("*.jar")
    s3a = {
        "endpoint": server.url,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "test",
        "secret.key": "test",
    }
    conf = CONF | {"spark.jars": ",".join(map(str, sorted(jars)))}
    session = local_session("local[2]", conf | {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()})
    for name, table in BASE.items():
        session.createDataFrame(table).write.parquet(f"s3a://bucket/base/{name}")
    yield session
    session.stop()


def create(spark, state: str | None = None):
    """A rulebook at a new place over tables that Spark reads from the store; and its twin in this process."""
    place = f"s3://bucket/book{next(NAMES)}"
    frames = {name: spark.read.parquet(f"s3a://bucket/base/{name}") for name in BASE}
    book = hf.Rulebook.create(place, frames, key=KEYS, rules=RULES, on="spark", state=state)
    twin = hf.Rulebook.create(None, BASE, key=KEYS, rules=RULES)
    agree(book, twin)
    return place, book, twin


def person(number: int, name: str, city: str) -> hf.Change:
    return hf.Change(inserts=pa.table({"id": [number], "name": [name], "city": [city]}), table="people")


def agree(book, twin) -> None:
    """Both have the same version, rows and violations."""
    assert book.version == twin.version
    for name, key in KEYS.items():
        rows = book.table(name).toArrow().sort_by(key)
        assert rows.to_pylist() == twin.table(name).sort_by(key).to_pylist() and book.count(name) == rows.num_rows
    found = {rule: book.count_violations(rule) for rule in RULES}
    assert found == {rule: twin.count_violations(rule) for rule in RULES}


# --- a rulebook's life ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [None, "s3a://bucket/rows"])
def test_a_rulebook_in_an_object_store(spark, state):
    place, book, twin = create(spark, state)
    changes = [
        [person(5, "b", "w"), hf.Change(deletes=CITIES.slice(0, 1), table="cities")],
        [hf.Change(updates=(PEOPLE.slice(2, 1), PEOPLE.slice(2, 1).set_column(2, "city", [["x"]])), table="people")],
    ]
    for change in changes:
        told, expected = book.apply(change), twin.apply(change)
        assert [told.violations.count_added(rule) for rule in RULES] == [
            expected.violations.count_added(rule) for rule in RULES
        ]
        agree(book, twin)
    book.close()
    book = hf.Rulebook.open(place)
    agree(book, twin)
    assert book.compact() == 3
    assert [book.violations(rule).count() for rule in RULES] == [twin.count_violations(rule) for rule in RULES]
    with hf.Rulebook.open(place) as again:
        assert again.version == 3 and again.table("people").count() == twin.count("people")
        again.apply(person(6, "c", "x"))
        twin.apply(person(6, "c", "x"))
        assert [again.count_violations(rule) for rule in RULES] == [twin.count_violations(rule) for rule in RULES]
    with pytest.raises(StoreError, match="exists already"):
        hf.Rulebook.create(place, spark.read.parquet("s3a://bucket/base/people"), key="id", rules=[], on="spark")


def test_a_bucket_that_does_not_exist(spark):
    frame = spark.read.parquet("s3a://bucket/base/people")
    with pytest.raises(StoreError, match=r"s3://nowhere/book cannot be written to: .*bucket does not exist"):
        hf.Rulebook.create("s3://nowhere/book", frame, key="id", rules=[], on="spark")


def test_a_pipeline_in_an_object_store(spark):
    """Base, landing directory, checkpoint, rulebook, state and sink are in the store."""
    import boto3

    client, place = boto3.client("s3"), f"s3://bucket/pipeline{next(NAMES)}"
    prefix = place.removeprefix("s3://bucket/")

    def put(name: str, text: str) -> None:
        client.put_object(Bucket="bucket", Key=f"{prefix}/landing/{name}", Body=text.encode())

    record = {
        "book": f"{place}/book",
        "state": f"{place.replace('s3:', 's3a:')}/state",
        "checkpoint": f"{place.replace('s3:', 's3a:')}/checkpoint",
        "tables": {name: {"base": f"s3a://bucket/base/{name}", "key": KEYS[name]} for name in BASE},
        "rules": RULES,
        "on": "spark",
        "source": {"kind": "files", "path": f"{place}/landing"},
        "sinks": [{"kind": "parquet", "path": f"{place.replace('s3:', 's3a:')}/told"}],
        "on_error": "quarantine",
    }
    pipeline = Pipeline.model_validate(record).resolved(Path("/"))
    twin = hf.Rulebook.create(None, BASE, key=KEYS, rules=RULES)
    assert watch(pipeline, spark) == []
    agree(hf.Rulebook.open(pipeline.book), twin)
    put("day=1/monday.csv", "_change_type,_table,id,name,city,size\ninsert,people,5,b,w,\ndelete,cities,,,x,10\n")
    put("day=1/_unfinished.csv", "_change_type,_table,id\ninsert,people,8\n")
    assert watch(pipeline, spark) == []
    outcomes = [twin.apply([person(5, "b", "w"), hf.Change(deletes=CITIES.slice(0, 1), table="cities")])]
    agree(hf.Rulebook.open(pipeline.book), twin)
    put("day=2/tuesday.jsonl", '{"_change_type": "insert", "_table": "people", "id": 6, "name": "c", "city": "v"}\n')
    put("day=2/broken.jsonl", '{"_change_type": "insert", \n')
    watch(pipeline, spark)
    watch(pipeline, spark)
    outcomes.append(twin.apply(person(6, "c", "v")))
    with hf.Rulebook.open(pipeline.book) as book:
        assert book.count("people") == twin.count("people") and book.version == 3
        assert [book.count_violations(rule) for rule in RULES] == [twin.count_violations(rule) for rule in RULES]
        (bad,) = book.quarantined().to_pylist()
    assert f"{place}/landing/day=2/broken.jsonl" in str(bad) and "/tmp" not in str(bad)
    put("day=1/monday.csv", "_change_type,_table,id,name,city,size\ninsert,people,9,b,w,\n")
    (problem,) = watch(pipeline, spark)
    assert problem.startswith(f"{place}/landing/day=1/monday.csv: was written again after it was applied")
    told = spark.read.parquet(f"{place.replace('s3:', 's3a:')}/told/violations")
    events = [out.violations.count_added() + out.violations.count_removed() for out in outcomes]
    assert told.count() == sum(events) > 0


# --- one writer at a time ---------------------------------------------------------------------------------------


def test_a_manifest_is_put_once(spark):
    place, book, _ = create(spark)
    directory = directory_at(place)
    manifest = directory.read("manifests", "0000000000.json").to_pybytes()
    for data in (manifest, b"other"):
        with pytest.raises(FileExistsError):
            directory.put("manifests", "0000000000.json", data)
    assert directory.read("manifests", "0000000000.json").to_pybytes() == manifest and book.version == 0


def test_of_eight_puts_at_a_time_one_is_made(server):
    def put(name: str, number: int) -> int:
        try:
            directory_at("s3://bucket/race").put("manifests", name, str(number).encode())
        except FileExistsError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        for name in map(str, range(20)):
            assert sum(pool.map(put, [name] * 8, range(8))) == 1


def test_a_late_writer_loses(spark):
    place, book, twin = create(spark)
    late = hf.Rulebook.open(place)
    for some in (book, twin):
        some.apply(person(5, "b", "w"))
    with pytest.raises(StoreError, match=r"0000000001\.json: another process published this version first; open"):
        late.apply(person(6, "b", "w"))
    agree(hf.Rulebook.open(place), twin)


def test_of_two_writers_at_a_time_one_loses(server, spark):
    """The loser has checked that it is the newest, and has written its rows, when the other publishes."""
    place, book, twin = create(spark)
    slow, held, go = hf.Rulebook.open(place), threading.Event(), threading.Event()

    def hold(method: str):
        if method == "PUT" and not held.is_set():
            held.set()
            assert go.wait(100)
        return Fate.ANSWERED

    server.fate = hold
    with ThreadPoolExecutor(1) as pool:
        losing = pool.submit(slow.apply, person(6, "c", "v"))
        assert held.wait(100)
        book.apply(person(5, "b", "w"))
        go.set()
        with pytest.raises(StoreError, match=r"0000000001\.json: another process published this version first; open"):
            losing.result()
    twin.apply(person(5, "b", "w"))
    again = hf.Rulebook.open(place)
    agree(again, twin)
    for some in (again, twin):
        some.apply(person(6, "c", "v"))
    agree(again, twin)


# --- lost puts --------------------------------------------------------------------------------------------------


def test_a_lost_request_changes_nothing(server, spark):
    place, book, twin = create(spark)
    server.fate = lambda method: Fate.REQUEST_LOST if method == "PUT" else Fate.ANSWERED
    with pytest.raises(StoreError, match=r"version 1 could not be written: .*; nothing changed"):
        book.apply(person(5, "b", "w"), "first")
    server.fate = answered
    again = hf.Rulebook.open(place)
    agree(again, twin)
    for some in (book, twin):  # the writer itself can go on
        assert not some.apply(person(5, "b", "w"), "first").skipped
    agree(book, twin)
    agree(hf.Rulebook.open(place), twin)


def test_a_lost_answer_is_asked_for_again(server, spark):
    """The client puts again and is told that the manifest exists: it is this writer's own."""
    place, book, twin = create(spark)
    asked = count()
    server.fate = lambda method: Fate.ANSWER_LOST if method == "PUT" and next(asked) == 0 else Fate.ANSWERED
    for some in (book, twin):
        assert some.apply(person(5, "b", "w"), "first").version == 1
    assert next(asked) == 2
    agree(book, twin)
    agree(hf.Rulebook.open(place), twin)


@pytest.mark.parametrize("fate", ["ANSWER_LOST", "REQUEST_LOST"])
def test_an_outage_in_a_put(server, spark, fate):
    """From the put on, nothing answers: the writer cannot know. Who opens the rulebook later can."""
    place, book, twin = create(spark)
    out = threading.Event()

    def outage(method: str):
        if method == "PUT":
            out.set()
            return Fate[fate]
        return Fate.REQUEST_LOST if out.is_set() else Fate.ANSWERED

    server.fate = outage
    with pytest.raises(StoreError, match=r"version 1 may be published or not: .*; open the rulebook again") as raised:
        book.apply(person(5, "b", "w"), "first")
    assert isinstance(raised.value.__cause__, LostPut)
    with pytest.raises(StoreError, match="cannot be read"):
        hf.Rulebook.open(place)
    server.fate = answered
    again = hf.Rulebook.open(place)
    twin.apply(person(5, "b", "w"), "first")
    assert again.apply(person(5, "b", "w"), "first").skipped == (fate == "ANSWER_LOST")
    agree(again, twin)
    for some in (book, twin):  # the writer reads what counts now, and goes on
        assert some.apply(person(6, "c", "v")).version == 2
    agree(book, twin)
    agree(hf.Rulebook.open(place), twin)
