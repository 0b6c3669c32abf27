"""Sources and sinks that need connectors: Kafka, Delta, JDBC. `make test-connectors` brings what they need."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from benchmarks.postgres import programs
from holdfast import Rulebook
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.delivery import Delivery
from holdfast.pipeline.stream import watch

pytestmark = [
    pytest.mark.connectors,
    pytest.mark.skipif("HOLDFAST_CONNECTORS" not in os.environ, reason="run by `make test-connectors`"),
]
BASE = pa.table({"id": [1, 2], "name": ["a", "b"], "city": ["x", "y"]})
RULES = ["key(name)", "name -> city"]


@pytest.fixture(scope="session")
def jars() -> Path:
    return Path(os.environ["HOLDFAST_JARS"])


@pytest.fixture(scope="session")
def connected(jars):
    """A session with the connectors."""
    from holdfast.spark.session import local_session

    conf = {
        "spark.jars": ",".join(map(str, sorted((jars / "spark").glob("*.jar")))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
    }
    session = local_session("local[2]", conf)
    yield session
    session.stop()


def rows_of(book: str) -> list[tuple]:
    with Rulebook.open(book) as opened:
        table = opened.table()
        rows = (table if isinstance(table, pa.Table) else table.toArrow()).to_pylist()
        return sorted(tuple(row.values()) for row in rows)


# --- Kafka ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(jars, tmp_path_factory):
    """A broker in KRaft mode, on loopback."""
    home = tmp_path_factory.mktemp("kafka")
    ports = []
    for _ in range(2):
        with socket.socket() as some:
            some.bind(("127.0.0.1", 0))
            ports.append(some.getsockname()[1])
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{ports[1]}",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[0]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(home / "logs"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "num.partitions": "1",
    }
    (home / "server.properties").write_text("\n".join(f"{k}={v}" for k, v in settings.items()))
    java = ["java", "-Xmx512m", "-cp", f"{jars / 'broker'}/*"]
    identity = uuid.uuid4().hex[:22]
    format_ = [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(home / "server.properties")]
    subprocess.run(format_, check=True, capture_output=True)
    with (home / "broker.log").open("wb") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(home / "server.properties")], stdout=log, stderr=log)
    for _ in range(240):
        with socket.socket() as some:
            if some.connect_ex(("127.0.0.1", ports[0])) == 0:
                break
        if process.poll() is not None:
            pytest.fail(f"the broker ended: {(home / 'broker.log').read_text()[-2000:]}")
        time.sleep(0.25)
    yield f"127.0.0.1:{ports[0]}"
    process.terminate()
    process.wait()


def produce(spark, servers: str, topic: str, events: list[dict]) -> None:
    frame = spark.createDataFrame([(json.dumps(event),) for event in events], "value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


@pytest.mark.parametrize("form", ["debezium", "changes"])
def test_kafka(connected, broker, tmp_path, form):
    pa.parquet.write_table(BASE, tmp_path / "people.parquet")
    topic = f"people-{form}"
    source = {"kind": "kafka", "servers": broker, "topics": topic, "format": form}
    record = {"book": "book", "tables": {"people": {"base": "people.parquet", "key": "id"}}, "rules": RULES}
    sinks = [{"kind": "parquet", "path": "told"}]
    pipeline = Pipeline.model_validate(record | {"source": source, "sinks": sinks}).resolved(tmp_path)
    row = {"id": 3, "name": "a", "city": "z"}
    if form == "debezium":
        first = [{"op": "c", "after": row}, {"op": "u", "after": row | {"city": "x"}}]
        second = [{"op": "d", "before": {"id": 1, "name": None, "city": None}}]
    else:
        first = [{"_change_type": "insert", **row, "city": "x"}]
        second = [{"_change_type": "delete", "id": 1, "name": "a", "city": "x"}]
    produce(connected, broker, topic, first)
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(1, "a", "x"), (2, "b", "y"), (3, "a", "x")]
    with Rulebook.open(pipeline.book) as book:
        assert book.count_violations("key(name)") == 2 and book.version == 1
    produce(connected, broker, topic, second)
    watch(pipeline, connected)
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(2, "b", "y"), (3, "a", "x")]
    with Rulebook.open(pipeline.book) as book:
        assert book.count_violations("key(name)") == 0 and book.version == 2
    shutil.rmtree(pipeline.checkpoint_path)
    with pytest.raises(Exception, match="made of something else"):  # both batches in one now
        watch(pipeline, connected)
    assert pa.parquet.read_table(tmp_path / "told" / "violations").num_rows == 4


def test_kafka_without_a_base_and_with_its_rows_on_spark(connected, broker, tmp_path):
    types = {"id": "integer", "name": "text", "city": "text"}
    source = {"kind": "kafka", "servers": broker, "topics": "people-from-nothing"}
    record = {"book": "book", "tables": {"people": {"key": "id", "types": types}}, "rules": RULES, "on": "spark"}
    sinks = [{"kind": "parquet", "path": "told"}]
    pipeline = Pipeline.model_validate(record | {"source": source, "sinks": sinks}).resolved(tmp_path)
    row = {"id": 1, "name": "a", "city": "x"}
    created = [{"op": "c", "after": row}, {"op": "c", "after": row | {"id": 2, "city": "y"}}]
    produce(connected, broker, "people-from-nothing", created)
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(1, "a", "x"), (2, "a", "y")]
    with Rulebook.open(pipeline.book) as book:
        assert (book.count_violations("name -> city"), book.count_violations("key(name)")) == (2, 2)
    updated = [{"op": "u", "before": row, "after": row | {"city": "y"}}, {"op": "d", "before": {"id": 2}}]
    produce(connected, broker, "people-from-nothing", updated)
    watch(pipeline, connected)
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(1, "a", "y")]
    with Rulebook.open(pipeline.book) as book:
        assert book.version == 2 and not book.count_violations("name -> city")
    told = pa.parquet.read_table(tmp_path / "told" / "violations").to_pylist()
    assert sorted((row["version"], row["change"]) for row in told) == [(1, "added")] * 4 + [(2, "removed")] * 4


# --- Delta ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["process", "spark"])
@pytest.mark.parametrize("has_base", [False, True])
def test_delta_change_data_feed_and_sink(connected, tmp_path, place, has_base):
    path = f"{tmp_path}/people"
    connected.createDataFrame(BASE).write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    source = {"kind": "delta", "path": path, "starting_version": 1}
    tables = {"people": {"key": "id"}}
    if has_base:  # another Delta table, or for the process a file
        base = f"{tmp_path}/base" if place == "spark" else f"{tmp_path}/base.parquet"
        connected.createDataFrame(BASE).write.format("delta").save(f"{tmp_path}/base")
        pa.parquet.write_table(BASE, f"{tmp_path}/base.parquet")
        tables["people"]["base"] = base
    record = {"book": "book", "tables": tables, "rules": RULES, "source": source, "on": place}
    sinks = [{"kind": "delta", "path": "told"}]
    pipeline = Pipeline.model_validate(record | {"sinks": sinks}).resolved(tmp_path)
    connected.sql(f"insert into delta.`{path}` values (3, 'a', 'z'), (4, 'c', 'w')")
    connected.sql(f"update delta.`{path}` set city = 'x' where id = 3")
    connected.sql(f"delete from delta.`{path}` where id = 4")
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(1, "a", "x"), (2, "b", "y"), (3, "a", "x")]
    connected.sql(f"update delta.`{path}` set name = 'd' where id = 1")
    watch(pipeline, connected)
    watch(pipeline, connected)
    with Rulebook.open(pipeline.book) as book:
        assert book.count_violations("key(name)") == 0
    told = connected.read.format("delta").load(f"{tmp_path}/told/violations").toArrow()
    assert sorted(told["change"].to_pylist()) == ["added", "added", "removed", "removed"]
    for mark in (tmp_path / "book" / "sinks").iterdir():
        mark.unlink()  # as if it had died before it could note what it told
    with Rulebook.open(pipeline.book) as book:
        Delivery.of(pipeline, connected).deliver(book)
    again = connected.read.format("delta").load(f"{tmp_path}/told/violations").count()
    assert again == told.num_rows  # Delta knows the versions: nothing twice


# --- PostgreSQL -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A server of its own, on loopback."""
    bin_ = programs()
    if bin_ is None:
        pytest.fail("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(home, user)
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "user": user, "cwd": home}
    cluster = ["-D", str(home / "cluster")]
    subprocess.run([bin_ / "initdb", *cluster, "--auth=trust", "-U", "test"], check=True, **quiet)
    options = f"-k {home} -p {port} -c listen_addresses=127.0.0.1 -c fsync=off"
    subprocess.run([bin_ / "pg_ctl", *cluster, "-w", "-o", options, "start"], check=True, **quiet)

    def sql(text: str) -> None:
        command = [bin_ / "psql", "-h", "127.0.0.1", "-p", str(port), "-U", "test", "-d", "postgres", "-q"]
        subprocess.run([*command, "-v", "ON_ERROR_STOP=1", "-c", text], check=True, capture_output=True)

    yield f"jdbc:postgresql://127.0.0.1:{port}/postgres", sql
    subprocess.run([bin_ / "pg_ctl", *cluster, "-m", "immediate", "stop"], check=False, **quiet)
    shutil.rmtree(home, ignore_errors=True)


def test_jdbc_snapshot_and_watermarks(connected, database, tmp_path):
    url, sql = database
    sql("create table people (id bigint primary key, name text, city text, changed timestamptz default now())")
    sql("insert into people values (1, 'a', 'x', '2026-01-01'), (2, 'b', 'y', '2026-01-02')")
    options = {"user": "test", "driver": "org.postgresql.Driver"}
    source = {
        "kind": "jdbc",
        "url": url,
        "options": options,
        "tables": {"people": {"table": "people", "watermark": "changed"}},
    }
    tables = {"people": {"key": "id", "exclude": ["changed"]}}
    record = {"book": "book", "tables": tables, "rules": RULES, "source": source}
    pipeline = Pipeline.model_validate(record).resolved(tmp_path)
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(1, "a", "x"), (2, "b", "y")]
    sql("insert into people values (3, 'a', 'z', '2026-01-03')")
    sql("update people set city = 'w', changed = '2026-01-04' where id = 2")
    watch(pipeline, connected)
    watch(pipeline, connected)
    assert rows_of(pipeline.book) == [(1, "a", "x"), (2, "b", "w"), (3, "a", "z")]
    with Rulebook.open(pipeline.book) as book:
        assert book.count_violations("name -> city") == 2 and book.version <= 2
    sql("insert into people values (4, 'e', 'v', '2026-01-04')")  # the same watermark, later
    sql("insert into people values (5, 'f', 'v', '2026-01-05')")
    watch(pipeline, connected)
    assert [row[0] for row in rows_of(pipeline.book)] == [1, 2, 3, 4, 5]
