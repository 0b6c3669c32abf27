"""Streams of changes through Spark into a rulebook and out to sinks: the same as applying the batches one by one."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import holdfast as hf
from holdfast import HoldfastError, ReadError, Rulebook
from holdfast.generate import orders
from holdfast.pipeline.config import Pipeline, json_schema, load_pipeline
from holdfast.pipeline.debezium import feeds_of
from holdfast.pipeline.sources import _changed_rows
from holdfast.pipeline.stream import watch
from holdfast.pipeline.trigger import Trigger, seconds
from holdfast.store.directory import LocalDirectory
from holdfast.store.store import Store
from holdfast.table.change import read_feed

spark_test = pytest.mark.spark
STREAM = orders(300, 1)
BATCHES = list(STREAM.batches(6, 40))
FOUND = {"kinds": ["key", "fd", "ind"], "max_size": 2}


class Landing:
    """A directory into which files are moved one after the other, each a little later than the one before."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        path.mkdir()

    def drop(self, table: pa.Table | str, form: str) -> None:
        self.count += 1
        temporary, name = self.path.parent / f"part.{form}", self.path / f"{self.count:03d}.{form}"
        if isinstance(table, str):
            temporary.write_text(table)
        elif form == "csv":
            pa.csv.write_csv(table, temporary)
        elif form == "parquet":
            pq.write_table(table, temporary)
        else:
            temporary.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
        os.utime(temporary, (1_700_000_000 + self.count,) * 2)
        temporary.rename(name)


@pytest.fixture
def landing(tmp_path) -> Landing:
    return Landing(tmp_path / "landing")


def orders_pipeline(home: Path, **changes) -> Pipeline:
    for name, table in STREAM.tables.items():
        pq.write_table(table, home / f"{name}.parquet")
    record = {
        "name": "test",
        "book": "book",
        "tables": {name: {"base": f"{name}.parquet", "key": list(key)} for name, key in STREAM.keys.items()},
        "rules": STREAM.rules,
        "source": {"kind": "files", "path": "landing", "files_per_batch": 1},
        "sinks": [{"kind": "parquet", "path": "out"}],
    }
    return Pipeline.model_validate(record | changes).resolved(home)


def by_hand(*batches, **options) -> Rulebook:
    book = Rulebook.create(None, STREAM.tables, key=STREAM.keys, rules=STREAM.rules, **options)
    for batch in batches:
        for _, feeds in read_feed(batch.feed()):
            book.apply(feeds)
    return book


def same(book: Rulebook, other: Rulebook) -> None:
    for name in STREAM.tables:
        assert book.table(name).equals(other.table(name))
        assert book.row_ids(name).equals(other.row_ids(name))
    for rule in STREAM.rules:
        assert book.violations(rule).equals(other.violations(rule))
    assert (
        book.history()
        .drop_columns(["time", "batch", "source"])
        .equals(other.history().drop_columns(["time", "batch", "source"]))
    )


def told_by(path: Path, what: str = "violations") -> list[dict]:
    if not (path / what).exists():
        return []
    rows = pq.read_table(path / what).to_pylist()
    return sorted(rows, key=lambda r: (int(r["version"]), r.get("sequence", 0)))


@spark_test
def test_a_stream_equals_its_batches(spark, tmp_path, landing):
    """Files of three forms; with a restart between."""
    pipeline = orders_pipeline(tmp_path, **FOUND)
    versions: list[int] = []
    for part in (BATCHES[:2], BATCHES[2:]):
        for batch in part:
            landing.drop(batch.feed(), ("csv", "parquet", "jsonl")[batch.number % 3])
        watch(pipeline, spark, lambda record, _: versions.append(record["version"]))
    expected = by_hand(*BATCHES, **FOUND)
    with Rulebook.open(pipeline.book) as book:
        same(book, expected)
        assert book.rules() == expected.rules()
        assert book.rule_history().drop_columns("batch").equals(expected.rule_history().drop_columns("batch"))
        assert len(told_by(tmp_path / "out", "rules")) == book.rule_history().num_rows
        assert book.version == len(BATCHES) == len(versions)
        assert book.history()["source"].to_pylist()[-1] == "test"
    require_planted(tmp_path / "out", BATCHES)
    watch(pipeline, spark)  # nothing new
    assert Rulebook.open(pipeline.book).version == len(BATCHES)


def require_planted(out: Path, batches) -> None:
    """The sink has every planted violation, in the version of its batch."""
    planted = {b.rule: b for batch in batches for b in batch.breaks}
    added = [r for r in told_by(out) if r["change"] == "added"]
    for rule, broken in planted.items():
        mine = [r for r in added if r["rule"] == rule]
        assert mine and {int(r["version"]) for r in mine} == {broken.batch}


def test_executor_is_the_old_name_of_on(tmp_path):
    assert orders_pipeline(tmp_path, executor="spark").on == orders_pipeline(tmp_path, on="spark").on == "spark"


@spark_test
def test_a_stream_whose_rows_stay_on_spark(spark, tmp_path, landing):
    """The same violations as in the process, in the rulebook and in the sink."""
    pipeline, batches = orders_pipeline(tmp_path, on="spark"), BATCHES[:3]
    for part in (batches[:2], batches[2:]):
        for batch in part:
            landing.drop(batch.feed(), ("csv", "parquet", "jsonl")[batch.number % 3])
        watch(pipeline, spark)
    expected = by_hand(*batches)
    with Rulebook.open(pipeline.book) as book:
        assert book.version == len(batches)
        for table in STREAM.tables:
            assert book.count(table) == book.table(table).count() == expected.count(table)
        for rule in STREAM.rules:
            pairs = {tuple(row) for row in book.violations(rule).collect()}
            assert pairs == {tuple(row.values()) for row in expected.violations(rule).to_pylist()}
            assert book.count_violations(rule) == len(pairs)
    require_planted(tmp_path / "out", batches)
    told = {(r["rule"], r["change"], r["t"], r["s"]) for r in told_by(tmp_path / "out")}
    in_process = orders_pipeline(tmp_path, book="process", sinks=[{"kind": "parquet", "path": "other"}], name="other")
    watch(in_process, spark)
    assert told == {(r["rule"], r["change"], r["t"], r["s"]) for r in told_by(tmp_path / "other")}


@spark_test
def test_a_lost_checkpoint_applies_nothing_twice(spark, tmp_path, landing):
    """A file is known by its path and content, however Spark puts files together."""
    pipeline = orders_pipeline(tmp_path)
    for batch in BATCHES[:2]:
        landing.drop(batch.feed(), "csv")
    watch(pipeline, spark)
    shutil.rmtree(pipeline.checkpoint_path)
    together = pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"files_per_batch": 10})})
    watch(together, spark)  # all files again, in one micro-batch: skipped
    assert Rulebook.open(pipeline.book).version == 2
    landing.drop(BATCHES[2].feed(), "csv")
    watch(together, spark)
    with Rulebook.open(pipeline.book) as book:
        same(book, by_hand(*BATCHES[:3]))
    shutil.rmtree(pipeline.checkpoint_path)
    (landing.path / "002.csv").write_text("_change_type,_table\n")
    (problem,) = watch(together, spark)
    assert "002.csv: was written again after it was applied" in problem
    assert Rulebook.open(pipeline.book).version == 3


@spark_test
def test_files_of_one_micro_batch_are_taken_together_in_their_order(spark, tmp_path, landing):
    pipeline = orders_pipeline(tmp_path, source={"kind": "files", "path": "landing"})
    for number in (5, 4, 3, 2, 1):  # names against the order of arrival
        landing.drop(BATCHES[5 - number].feed(), "parquet")
        (landing.path / f"{landing.count:03d}.parquet").rename(landing.path / f"x{number}.parquet")
    watch(pipeline, spark)
    with Rulebook.open(pipeline.book) as book:
        same(book, by_hand(*BATCHES[:5]))
        assert book.history()["batch"].to_pylist()[2:4] == ["x5.parquet", "x4.parquet"]


@spark_test
def test_bad_rows_stop_the_stream_or_are_kept_apart(spark, tmp_path, landing):
    pipeline = orders_pipeline(tmp_path)
    landing.drop(BATCHES[0].feed(), "csv")
    names = STREAM.tables["orders"].column_names
    empty = "," * (len(names) - 1)
    landing.drop(f"_change_type,{','.join(names)},_table\ninsert,x7{empty},orders\ndelete,9999{empty},orders\n", "csv")
    with pytest.raises(HoldfastError, match=r"002.csv, row 1, column 'id': 'x7' .*refused as a whole"):
        watch(pipeline, spark)
    assert Rulebook.open(pipeline.book).version == 1
    with pytest.raises(HoldfastError, match=r"002.csv, row 1"):
        watch(pipeline, spark)  # again: nothing is passed over
    watch(pipeline.model_copy(update={"on_error": "quarantine"}), spark)
    reasons = [r["reason"] for r in told_by(tmp_path / "out", "quarantine")]
    assert len(reasons) == 2 and "'x7'" in reasons[0] and "not there" in reasons[1]
    with Rulebook.open(pipeline.book) as book:
        assert book.version == 2 and book.quarantined().num_rows == 2


@spark_test
def test_a_column_that_comes_late(spark, tmp_path, landing):
    pipeline = orders_pipeline(tmp_path)
    wider = BATCHES[0].feed()
    wider = wider.append_column("channel", pa.array(["web"] * wider.num_rows))
    landing.drop(wider, "parquet")
    with pytest.raises(HoldfastError, match="'channel'"):
        watch(pipeline, spark)
    watch(pipeline.model_copy(update={"new_columns": "accept"}), spark)
    landing.drop(BATCHES[1].feed(), "parquet")  # an older producer
    with pytest.raises(HoldfastError, match="column 'channel' is missing"):
        watch(pipeline, spark)
    with Rulebook.open(pipeline.book) as book:
        channels = book.table("orders")["channel"].to_pylist()
        assert channels.count("web") > 40 and channels.count(None) > 200 and book.version == 2


@spark_test
def test_empty_files_and_large_batches(spark, tmp_path, landing):
    rows = pa.table({"id": range(5), "a": [0] * 5})
    pq.write_table(rows, tmp_path / "data.parquet")
    record = {"book": "book", "tables": {"data": {"base": "data.parquet", "key": "id"}}, "rules": ["id -> a"]}
    pipeline = Pipeline.model_validate(record | {"source": {"kind": "files", "path": "landing"}}).resolved(tmp_path)
    landing.drop("_change_type,id,a\n", "csv")
    watch(pipeline, spark)
    many = pa.table({"id": pa.array(range(5, 200_005)), "a": pa.array(range(200_000))})
    landing.drop(many.add_column(0, "_change_type", pa.array(["insert"] * many.num_rows)), "parquet")
    watch(pipeline, spark)
    watch(pipeline, spark)
    with Rulebook.open(pipeline.book) as book:
        assert book.version == 2 and book.count() == 200_005


@pytest.fixture
def hook():
    """A web server that refuses the first call."""
    calls: list[tuple[str, dict]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls.append((self.headers["Idempotency-Key"], body))
            self.send_response(503 if len(calls) == 1 else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/alerts", calls
    server.shutdown()
    thread.join()
    server.server_close()


@spark_test
def test_webhooks_and_spark_tables_are_told(spark, tmp_path, landing, hook):
    url, calls = hook
    sinks = [{"kind": "webhook", "url": url, "limit": 2}, {"kind": "table", "name": "told"}]
    pipeline = orders_pipeline(tmp_path, sinks=sinks)
    for batch in BATCHES[:3]:
        landing.drop(batch.feed(), "csv")
    for name in ("violations", "quarantine"):
        spark.sql(f"drop table if exists told_{name}")
        shutil.rmtree(Path(spark.conf.get("spark.sql.warehouse.dir")) / f"told_{name}", ignore_errors=True)
    watch(pipeline, spark)
    broken = BATCHES[2].breaks[0]
    assert [key for key, _ in calls] == ["test/3", "test/3"]  # refused once, then taken
    (rule,) = calls[1][1]["violations"]
    assert rule["added"] >= 1 and len(rule["pairs_added"]) <= 2 and calls[1][1]["version"] == 3
    rows = spark.table("told_violations").toArrow().to_pylist()
    assert {r["rule"] for r in rows} == {broken.rule} and {r["version"] for r in rows} == {3}
    assert sorted(r["sequence"] for r in rows) == list(range(len(rows)))
    spark.sql("drop table told_violations")


def test_a_sink_that_is_down_is_told_later(tmp_path):
    """Patient sinks stop nothing; versions wait for them."""
    from holdfast.pipeline.delivery import Delivery

    sinks = [{"kind": "webhook", "url": "http://127.0.0.1:9/nobody"}, {"kind": "parquet", "path": "out"}]
    pipeline = orders_pipeline(tmp_path, sinks=sinks, keep=1)
    book = Rulebook.create(pipeline.book, STREAM.tables, key=STREAM.keys, rules=STREAM.rules, keep=1, outbox=True)
    outbox = Delivery.of(pipeline, None)
    for batch in BATCHES[:4]:
        book.apply(batch.changes)
        outbox.deliver(book)
    outbox.close(book)
    book.forget()
    assert outbox.needed_from == 3 and book.versions() == [4]  # the first two had nothing to tell
    assert Store.open(LocalDirectory(pipeline.book)).versions_with_change() == [3, 4]
    assert {int(r["version"]) for r in told_by(tmp_path / "out")} == {3}
    again = Delivery.of(pipeline, None)
    assert again.needed_from == 3


EVENTS = [
    {"op": "r", "before": None, "after": {"id": 1, "day": 19000, "price": "1.50", "at": 1_700_000_000_000}},
    {"op": "c", "before": None, "after": {"id": 2, "day": "2022-01-09", "price": 2, "at": 1_700_000_000_000_000}},
    {"op": "u", "before": None, "after": {"id": 1, "day": 19001, "price": "1.75", "at": None}},
    {"op": "u", "before": {"id": 2}, "after": {"id": 3, "day": None, "price": None, "at": None}},
    {"op": "d", "before": {"id": 1, "day": None, "price": None, "at": None}, "after": None},
    {"op": "c", "before": None, "after": {"id": 1, "day": 0, "price": "0.01", "at": None}},
]


def test_debezium_events():
    types = {"id": "integer", "day": "date", "price": "decimal(2)", "at": "timestamp"}
    base = pa.table({"id": [9], "day": [None], "price": [None], "at": [None]})
    book = Rulebook.create(None, base, key="id", types=types)
    lines = [(f"line {i}", json.dumps({"schema": {}, "payload": e} if i % 2 else e)) for i, e in enumerate(EVENTS)]
    book.apply(feeds_of([*lines, ("line 9", None), ("line 10", '{"payload": null}')], book.tables, "events"))
    assert [list(map(str, row.values())) for row in book.table().to_pylist()] == [
        ["9", "None", "None", "None"],
        ["1", "1970-01-01", "0.01", "None"],
        ["3", "None", "None", "None"],
    ]
    book.apply(feeds_of(lines[:2], book.tables, "events"))  # delivered again: what comes replaces what is there
    assert book.count() == 4 and str(book.table()["at"].to_pylist()[-1]) == "2023-11-14 22:13:20+00:00"
    for event, message in [
        ({"op": "d", "before": None}, "line 7: the event has no `before`"),
        ({"op": "x"}, "'x' is not an operation"),
        ({"after": {}}, "it has no `op`"),
        ({"op": "t"}, "truncated"),
    ]:
        with pytest.raises(ReadError, match=message):
            feeds_of([("line 7", json.dumps(event))], book.tables, "events")
    with pytest.raises(ReadError, match="line 7: not JSON"):
        feeds_of([("line 7", "{")], book.tables, "events")
    with pytest.raises(hf.ChangeRefused, match="line 5: deletes a row that is not there: id = 77"):
        book.apply(feeds_of([("line 5", '{"op": "d", "before": {"id": 77, "day": 5}}')], book.tables, "events"))


def test_single_events_are_quarantined():
    """Events and changed rows that cannot be read are set aside one by one; else the first is an error."""
    base = pa.table({"id": [9], "day": pa.array([None], pa.date32())})
    book = Rulebook.create(None, base, key="id")
    texts = ['{"op": "c", "after": {"id": 1, "day": 7}}', "{", '{"op": "c", "after": {"id": 2, "day": "soon"}}', "7"]
    lines = [(f"line {i}", text) for i, text in enumerate(texts, start=1)]
    bad: list = []
    book.apply(feeds_of(lines, book.tables, "events", bad), bad=bad)
    assert [b.place for b in bad] == ["line 2", "line 3", "line 4"] and "'soon' is not a date" in bad[1].reason
    assert book.table()["id"].to_pylist() == [9, 1] and book.quarantined().num_rows == 3
    rows = [("offset 1", '{"_change_type": "insert", "id": 5}'), ("offset 2", '{"id": 5}'), ("offset 3", "nonsense")]
    content = _changed_rows(rows, "topic", True)
    assert [b.place for b in content.bad] == ["offset 2", "offset 3"] and content.feeds[0].part.count == 1
    with pytest.raises(ReadError, match="offset 2: not a changed row"):
        _changed_rows(rows, "topic", False)


@spark_test
def test_debezium_files(spark, tmp_path, landing):
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "people.parquet")
    record = {"book": "book", "tables": {"people": {"base": "people.parquet", "key": "id"}}, "rules": ["key(name)"]}
    pipeline = Pipeline.model_validate(record | {"source": {"kind": "debezium", "path": "landing"}}).resolved(tmp_path)
    landing.drop('{"op": "c", "after": {"id": 2, "name": "a"}}\n{"op": "u", "after": {"id": 1, "name": "b"}}\n', "json")
    watch(pipeline, spark)
    assert Rulebook.open(pipeline.book).table().to_pylist() == [{"id": 1, "name": "b"}, {"id": 2, "name": "a"}]


def test_upserts_need_a_key_and_follow_each_other():
    book = Rulebook.create(None, pa.table({"id": [1], "x": [0]}))
    with pytest.raises(hf.SchemaError, match="need a key"):
        feeds_of([("line 1", '{"op": "c", "after": {"id": 1, "x": 2}}')], book.tables, "events")
    keyed = Rulebook.create(None, pa.table({"id": [1], "x": [0]}), key="id")
    lines = [("l", json.dumps({"op": "u", "after": {"id": i % 3, "x": i}})) for i in range(12)]
    out = keyed.apply(feeds_of(lines, keyed.tables, "events"))
    assert keyed.table().to_pylist() == [{"id": 1, "x": 10}, {"id": 0, "x": 9}, {"id": 2, "x": 11}]
    assert out.rows["data"] == {"inserted": 2, "deleted": 0, "updated": 1} and not out.drift


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("book: [", "p.yml"),
        ("book: b\n", "tables: Field required; source: Field required"),
        ("book: b\ntables: {t: {key: id}}\nsource: {kind: files, path: p}\n", "tables.t: say where its rows are"),
        ("book: b\ntables: {t: {base: x}}\nsource: {kind: pigeons}\n", "source: .*pigeons"),
        ("book: b\ntables: {t: {base: x}}\nsource: {kind: files, path: p}\nrulez: []\n", "rulez: Extra inputs"),
        (
            "book: b\ntables: {t: {base: x}}\nsource: {kind: jdbc, url: u, tables: {s: {table: s, watermark: w}}}\n",
            "'s', which is not among the tables",
        ),
    ],
)
def test_what_is_wrong_with_a_pipeline_file_is_said(tmp_path, text, message):
    (tmp_path / "p.yml").write_text(text)
    with pytest.raises(ReadError, match=message):
        load_pipeline(tmp_path / "p.yml")


def test_the_published_schema_is_the_models():
    published = json.loads((Path(__file__).parent.parent / "docs/schema/pipeline.schema.json").read_text())
    assert published == json_schema(), "run `make schema`"


def test_paths_are_from_the_file(tmp_path):
    text = "book: b\ntables: {t: {base: x.csv}}\nrules: r.yml\nsource: {kind: files, path: in}\n"
    text += "sinks: [{kind: parquet, path: s3://x}]\n"
    (tmp_path / "p.yml").write_text(text)
    made = load_pipeline(tmp_path / "p.yml")
    assert made.book == str(tmp_path / "b") and made.tables["t"].base == str(tmp_path / "x.csv")
    assert made.checkpoint_path == str(tmp_path / "b-checkpoint") and made.rules == str(tmp_path / "r.yml")
    assert made.sinks[0].path == "s3://x" and made.trigger == Trigger(every=None)
    with pytest.raises(ValueError, match="not a time"):
        seconds("soon")
