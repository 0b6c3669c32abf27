"""Names and constants that are code somewhere else: in every exported form they are text, and nothing but text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot.expressions as e
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from ruamel.yaml import YAML

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.errors import HoldfastError
from holdfast.exchange.contract import Contract
from holdfast.exchange.file_names import file_names, write_files
from holdfast.exchange.forms import FORMS, export
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Constant, IsNull
from holdfast.rules.rule import Dc, Fd, Ind, Key
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.sql import DIALECTS
from holdfast.table.kind import Kind
from holdfast.table.options import TableOptions
from holdfast.table.schema import Column, Schema
from tests.conftest import cases

EVIL = [
    "{{ env_var('X') }}",
    "{{ data }}",
    "{{ ref('customers') }}",
    "{% raw %}",
    "{% endraw %}",
    "{# #}",
    "#}",
    'a"b',
    "it's",
    "a`b",
    "back\\",
    "${x}",
    "${env.HOME}",
    "two\nlines",
    "carriage\rreturn",
    "x/../../evil",
    "../up",
    "/etc/passwd",
    "-- comment",
    "/* c */",
    "'; DROP TABLE orders; --",
    'FROM "orders" AS',
    "{batch}",
    "{table}",
    ":name",
    "\\:name",
    "yes",
    "on",
    "null",
    "1_000",
    "12:30:00",
    "- a: b",
    "&anchor",
    "*",
    "a.b",
    "%s",
    "\x1b[31m",
    "\u202e",
    "\x85",
    "orders",
    "Orders",
    "é",
    "@x",
    "~",
    " ",
    "holdfast_0_",
]
ALPHABET = "{}%#'\"`\\$-/*;:. \n\r\tax1&|>!?[],~@\u2028\x1b\x7fé"
names = st.one_of(st.sampled_from(EVIL), st.text(ALPHABET, min_size=1, max_size=8))


@st.composite
def contracts(draw) -> Contract:
    one, other = draw(st.lists(names, min_size=2, max_size=2, unique_by=str.casefold))
    a, b, c = draw(st.lists(names, min_size=3, max_size=3, unique_by=str.casefold))
    value = draw(names)
    schema = Schema((Column(a, Kind.TEXT), Column(b, Kind.TEXT), Column(c, Kind.INTEGER)))
    t = [Cell("t", name) for name in (a, b, c)]
    rules = [
        Key(frozenset([a]), one),
        Key(frozenset([a, b]), one),
        Fd(frozenset([a]), b, one),
        Ind(one, (a,), other, (b,)),
        Dc(frozenset([IsNull(t[0])]), one),
        Dc(frozenset([Compare(t[1], Op.EQ, Constant(value, "text"))]), one),
        Dc(frozenset([IsNull(t[1])]), other),
    ]
    entries = [RuleEntry(id=f"r-{i}", rule=str(rule)) for i, rule in enumerate(rules)]
    return Contract("shop", entries, {name: TableOptions(schema, (a,)) for name in (one, other)})


def both_yaml(text: str):
    """As the tools read it; both versions of YAML say the same."""
    loaded = yaml.safe_load(text)
    assert YAML(typ="safe").load(text) == loaded
    return loaded


def texts_of(thing) -> list[str]:
    if isinstance(thing, dict):
        return [text for key, value in thing.items() for text in (*texts_of(key), *texts_of(value))]
    if isinstance(thing, list):
        return [text for value in thing for text in texts_of(value)]
    return [thing] if isinstance(thing, str) else []


def quoted(name: str, dialect: str) -> str:
    return e.to_identifier(name, quoted=True).sql(dialect=dialect, identify=True)


def left_out(contract: Contract, entry: RuleEntry) -> bool:
    return any(line.startswith(f"{entry.rule}: ") for line in contract.dropped)


@given(contract=contracts(), dialect=st.sampled_from(DIALECTS))
@settings(max_examples=cases(30))
def test_sql_is_what_was_meant(contract, dialect):
    (text,) = export(contract, "sql", dialect).values()
    rest = text
    for entry in contract.entries:  # nothing but comments and the queries
        before, query, rest = rest.partition(contract.query(entry, dialect) + ";\n")
        assert query and all(line.startswith("-- ") for line in before.strip("\n").split("\n"))
    assert not rest


@given(contract=contracts())
@settings(max_examples=cases(40))
def test_sql_runs(contract):
    (text,) = export(contract, "sql").values()
    with duckdb.connect() as duck:
        for name, options in contract.tables.items():
            columns = ", ".join(
                f"{quoted(c.name, 'duckdb')} {'TEXT' if c.kind is Kind.TEXT else 'BIGINT'}"
                for c in options.schema.columns
            )
            duck.execute(f"CREATE TABLE {quoted(name, 'duckdb')} ({columns})")
        duck.execute(text)
        assert len(duck.execute("SHOW TABLES").fetchall()) == 2


@given(contract=contracts(), dialect=st.sampled_from(["duckdb", "spark", "bigquery"]))
@settings(max_examples=cases(40))
def test_dbt_renders_what_was_meant(contract, dialect):
    made = export(contract, "dbt", dialect)
    models = both_yaml(made.pop("models/schema.yml"))["models"]
    assert all(re.fullmatch(r"[\w ().']+", text) for text in texts_of(models))  # Jinja has nothing to do in it
    tests = {t["name"] for m in models for c in m.get("columns", []) for g in c["data_tests"] for t in g.values()}
    jinja = SandboxedEnvironment(undefined=StrictUndefined)
    jinja.globals = {"config": lambda severity: "", "ref": lambda name: quoted(name, dialect)}
    for entry in contract.entries:
        name = f"holdfast_{entry.id.replace('-', '_')}"
        if name not in tests:
            rendered = jinja.from_string(made.pop(f"tests/{name}.sql")).render()
            assert rendered.removeprefix("\n\n") == contract.query(entry, dialect)
    assert not made


@given(contract=contracts(), dialect=st.sampled_from(["duckdb", "spark"]))
@settings(max_examples=cases(40))
def test_great_expectations_formats_what_was_meant(contract, dialect):
    suites = [json.loads(text) for text in export(contract, "great-expectations", dialect).values()]
    assert [s["name"] for s in suites] == [f"shop_{name}" for name in contract.tables]
    found = {x["meta"]["holdfast_id"]: x for suite in suites for x in suite["expectations"]}
    for entry in contract.entries:
        if entry.id not in found:
            assert left_out(contract, entry) and ":" in contract.query(entry, dialect)
            continue
        kwargs = found[entry.id]["kwargs"]
        if "unexpected_rows_query" in kwargs:
            table = contract.table_of(entry)
            query = kwargs["unexpected_rows_query"].format(batch="BATCH")
            if dialect != "spark":  # as SQLAlchemy's text() does it
                assert not re.search(r"(?<![:\w\x5c]):(\w+)(?!:)", query)
                query = re.sub(r"\x5c(:[\w\$]*)(?![:\w\$])", r"\1", query)
            assert query == contract.query(entry, dialect, lambda t, own=table: "BATCH" if t == own else None)
        else:
            columns = kwargs.get("column_list") or [kwargs["column"]]
            assert set(columns) <= set(contract.tables[contract.table_of(entry)].schema.names)


@given(contract=contracts())
@settings(max_examples=cases(40))
def test_dqx_resolves_what_was_meant(contract):
    made = export(contract, "dqx")
    checks = {c["name"]: c["check"] for text in made.values() for c in both_yaml(text)}
    for entry in contract.entries:
        check = checks.get(entry.id.replace("-", "_"))
        table = contract.table_of(entry)
        key = contract.tables[table].key
        if check is None:
            assert left_out(contract, entry) and re.search(r"[.`]|^\*$", key[0])
        elif check["function"] == "sql_query":
            given = check["arguments"]
            assert given["merge_columns"] == list(key)
            pattern = r"\{\{\s*" + re.escape(given["input_placeholder"]) + r"\s*\}\}"
            meant = contract.query(entry, "spark", lambda t, own=table: "VIEW" if t == own else None)
            shown = re.search(
                r"SELECT (.*), true AS holdfast_fails FROM \((.*)\)\Z", re.sub(pattern, "VIEW", given["query"]), re.S
            )
            assert shown[2] == meant and sqlglot_name(shown[1]) == key[0]
        else:
            columns = check["arguments"].get("columns") or [check["arguments"]["column"]]
            assert {sqlglot_name(c) for c in columns} <= set(contract.tables[table].schema.names)


def sqlglot_name(text: str) -> str:
    return text if not text.startswith("`") else text[1:-1].replace("``", "`")


@given(contract=contracts())
@settings(max_examples=cases(40))
def test_soda_finds_no_variable(contract):
    made = export(contract, "soda")
    loaded = {d["dataset"].removeprefix("holdfast/main/"): d for d in map(both_yaml, made.values())}
    for name, options in contract.tables.items():
        if name not in loaded:
            assert ("/" in name or "${" in name) and any(line.startswith(f"{name}: ") for line in contract.dropped)
            continue
        columns = [column["name"] for column in loaded[name]["columns"]]
        assert columns == [column for column in options.schema.names if "${" not in column]
        assert not any("${" in text for text in texts_of(loaded[name]))
        checks = len(loaded[name].get("checks", [])) + sum(len(c.get("checks", [])) for c in loaded[name]["columns"])
        mine = [entry for entry in contract.entries if contract.table_of(entry) == name]
        assert checks == len([entry for entry in mine if not left_out(contract, entry)])


@given(contract=contracts())
@settings(max_examples=cases(40))
def test_the_data_contract_has_the_names(contract):
    (text,) = export(contract, "odcs").values()
    tables = both_yaml(text)["schema"]
    assert [t["name"] for t in tables] == list(contract.tables)
    for table, options in zip(tables, contract.tables.values(), strict=True):
        assert [c["name"] for c in table["properties"]] == list(options.schema.names)
    queries = {c["name"]: c["query"] for table in tables for c in table.get("quality", [])}
    for entry in contract.entries:
        query = contract.query(entry, "duckdb")
        if entry.id not in queries:
            assert "{" in query and left_out(contract, entry)
        else:
            assert queries[entry.id] == f"SELECT COUNT(*) FROM ({query}) AS failing" and "{" not in query


@given(contract=contracts())
@settings(max_examples=cases(50))
def test_metanome_has_the_names(contract):
    lines = [json.loads(line) for text in export(contract, "metanome").values() for line in text.split("\n") if line]
    known = {*contract.tables, *(c for o in contract.tables.values() for c in o.schema.names)}
    for line in lines:
        found = [v for v in texts_of(line) if v in known]
        assert found
    (fd,) = (line for line in lines if line["type"] == "FunctionalDependency")
    assert fd["dependant"] == {
        "tableIdentifier": next(iter(contract.tables)),
        "columnIdentifier": contract.entries[2].value.right,
    }


# --- where files go -------------------------------------------------------------------------------------------------


@given(given=st.lists(names, max_size=8, unique=True))
@settings(max_examples=cases(200))
def test_distinct_tables_have_distinct_files(given):
    made = file_names(given)
    assert list(made) == given and len({name.casefold() for name in made.values()}) == len(given)
    for name in made.values():
        assert re.fullmatch(r"\w[\w.-]*", name) and name not in (".", "..") and len(name) < 120


@pytest.mark.parametrize("form", FORMS)
def test_exports_stay_where_they_are_told(tmp_path, form, capsys):
    evil = "x/../../evil"
    tables = {
        evil: pa.table({"a": ["1"], "b/../c": ["2"]}),
        "/abs": pa.table({"a": ["1"]}),
        "../up": pa.table({"a": ["1"]}),
    }
    rules = [Key(frozenset(["a"]), evil), Fd(frozenset(["a"]), "b/../c", evil), Ind("../up", ("a",), "/abs", ("a",))]
    home = tmp_path / "home"
    home.mkdir()
    hf.Rulebook.create(home / "book", tables, rules=[str(rule) for rule in rules]).close()
    assert status_of(["export", str(home / "book"), "--to", form, "--out", str(home / "deep" / "out")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [p.name for p in tmp_path.iterdir()] == ["home"]
    if form == "soda":  # which can name none of these tables
        assert sorted(p.name for p in home.iterdir()) == ["book"] and not out
    else:
        assert sorted(p.name for p in home.iterdir()) == ["book", "deep"] and len(out) == len(set(out)) > 0
        assert [p.name for p in (home / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["../evil.sql", "/tmp/holdfast-evil.sql", "link/evil.sql", "file.sql", "."])
def test_the_writer_refuses_what_is_outside(tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "out" / "file.sql").symlink_to(tmp_path / "elsewhere" / "evil.sql")
    with pytest.raises(HoldfastError, match=r"leads out of .*; nothing was written"):
        write_files({"good.sql": "x", name: "evil"}, tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir()) and not (tmp_path / "evil.sql").exists()
    assert not Path("/tmp/holdfast-evil.sql").exists() and not (tmp_path / "out" / "good.sql").exists()


def test_rules_with_nearly_the_same_id_have_files_of_their_own():
    schema = Schema((Column("a", Kind.TEXT), Column("b", Kind.TEXT)))
    entries = [RuleEntry(id=id_, rule="t: a -> b") for id_ in ("x-1", "x.1", "x_1")]
    made = export(Contract("shop", entries, {"t": TableOptions(schema, ("a",))}), "dbt")
    assert len([name for name in made if name.startswith("tests/")]) == 3
