"""Rules to other tools, each loaded by the real tool (`make test-tools`), and rules from other programs."""

from __future__ import annotations

import json
import sqlite3

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.errors import HoldfastError, RuleError
from holdfast.exchange.contract import Below, Contract, NotNull, Unique, shape_of
from holdfast.exchange.dc_files import parse_dc, read_dcs
from holdfast.exchange.forms import FORMS, export
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.sql import SqlOptions, failing_rows_sql
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema
from tests import naive
from tests import strategies as hs
from tests.conftest import cases
from tests.test_sql import ID, numbered, with_id
from tests.tools import called, run, tool

ORDERS = {
    "id": [1, 2, 3, 4],
    "customer": [7, 9, 7, 11],
    "zip": ["10115", "10115", "20095", "20095"],
    "city": ["Berlin", "Bonn", "Hamburg", "Hamburg"],
    "low": [1, 5, 1, 1],
    "high": [2, 3, 1, 4],
}
CUSTOMERS = {"id": [7, 8, 9], "name": ["x", "y", "y"], "score": [1.5, 2.5, None]}
RULES = {  # with the rows that fail
    "orders: zip -> city": {1, 2},
    "orders.customer in customers.id": {4},
    "orders: key(id)": set(),
    "customers: key(name)": {8, 9},
    "customers: not(t.score is null)": {9},
    "orders: not(t.low > t.high)": {2},
    "orders: not(t.low < 2)": {1, 3, 4},
    "orders: not(t.zip = s.zip and t.low < s.low and t.high < s.high)": {1},
    "orders: {low <} -> high <=": {4},
    "orders: key(city, zip)": {3, 4},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Contract:
    tables = {"orders": pa.table(ORDERS), "customers": pa.table(CUSTOMERS)}
    place = tmp_path_factory.mktemp("exchange") / "shop"
    with hf.Rulebook.create(place, tables, key={"orders": "id", "customers": "id"}, rules=list(RULES)) as book:
        return Contract.of(book, "shop")


@pytest.fixture
def files(shop, tmp_path):
    """Writes an export and the tables beside it."""

    def written(form: str, dialect: str = "duckdb"):
        for name, text in export(shop, form, dialect).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return written


def failing(shop: Contract) -> dict[str, set[int]]:
    return {entry.id: RULES[entry.rule] for entry in shop.entries}


@pytest.fixture(scope="module")
def utc():
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


# --- queries ----------------------------------------------------------------------------------------------------


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES), keyed=st.booleans())
@settings(max_examples=cases(200))
def test_failing_rows_are_those_of_the_definition(utc, data, nulls, keyed):
    schema, rows = data.draw(hs.tables(rows=7))
    rule = data.draw(hs.one_table_rules(schema))
    try:
        query = failing_rows_sql(rule, with_id(schema), SqlOptions(nulls=nulls, key=ID if keyed else ()))
    except RuleError as error:
        assert "cannot compare exactly" in str(error) or (not keyed and "without a key" in str(error))
        return
    utc.register("data", numbered(schema, rows))
    answer = sorted(row[-1] for row in utc.execute(query).fetchall())
    expected = naive.violations(rule, rows, nulls)
    assert answer == sorted({pair[0] if isinstance(pair, tuple) else pair for pair in expected})


def test_a_row_does_not_fail_with_itself(utc):
    """Where nulls differ from each other, a null differs from itself: a row must not be its own partner."""
    utc.register("data", pa.table({"a": [1, 1, 2], "b": pa.array([None, 5, None], pa.int64()), ID: [0, 1, 2]}))
    schema = Schema((Column("a", Kind.INTEGER), Column("b", Kind.INTEGER), Column(ID, Kind.INTEGER)))
    query = failing_rows_sql("a -> b", schema, SqlOptions(nulls="distinct", key=ID))
    assert sorted(row[-1] for row in utc.execute(query).fetchall()) == [0, 1]
    with pytest.raises(RuleError, match="without a key"):
        failing_rows_sql("a -> b", schema, SqlOptions(nulls="distinct"))


def test_the_sql_export_finds_what_fails(shop):
    (text,) = export(shop, "sql").values()
    with duckdb.connect() as duck:
        for name, table in (("orders", ORDERS), ("customers", CUSTOMERS)):
            duck.register(name, pa.table(table))
        found = {}
        for part in text.split(";\n"):
            if part.strip():
                id_ = part.split("-- ")[1].split(" ")[0]
                found[id_] = {row[0] for row in duck.execute(part).fetchall()}
    assert found == failing(shop)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_every_rule_or_why_not(shop, form):
    shop.dropped.clear()
    text = "\n".join(f"{name}\n{some}" for name, some in export(shop, form).items())
    for entry in shop.entries:
        names = (entry.id, entry.id.replace("-", "_"))
        if form == "metanome":
            continue
        assert any(name in text for name in names) or any(entry.rule in line for line in shop.dropped), entry.rule
    assert len(shop.dropped) == (2 if form == "metanome" else 0)


def test_what_a_form_cannot_say_is_named(tmp_path):
    tables = {"orders": pa.table(ORDERS), "customers": pa.table(CUSTOMERS)}
    rules = [
        RuleEntry(
            id="some", rule="orders: zip -> city", filter="t.id > 1", tolerance=0.1, description="one\nDROP TABLE x"
        ),
        RuleEntry(id="key", rule="orders: key(city)", nulls="equal"),
        RuleEntry(id="ref", rule="orders.customer in customers.id", filter="t.id > 1"),
    ]
    with hf.Rulebook.create(tmp_path / "b", tables, rules=rules) as book:
        contract = Contract.of(book, "shop")
    assert any("tolerance of 0.1" in line for line in contract.dropped)
    assert all(
        line.startswith(("--", "SELECT", "\n")) or not line
        for line in export(contract, "sql")["shop.duckdb.sql"].splitlines()
    )
    assert "shop_fds.json" not in export(contract, "metanome") and any("all rows" in line for line in contract.dropped)
    suite = export(contract, "great-expectations", "spark")["orders.suite.json"]
    assert "FROM `customers` AS" in suite and "FROM {batch} AS" in suite
    assert "unique: true" not in export(contract, "odcs")["shop.odcs.yaml"]


def test_export_on_the_command_line(shop, tmp_path, capsys):
    tables = {"orders": pa.table(ORDERS), "customers": pa.table(CUSTOMERS)}
    hf.Rulebook.create(tmp_path / "book", tables, rules=["orders: zip -> city"]).close()
    assert status_of(["export", str(tmp_path / "book"), "--to", "sql", "--dialect", "spark"]) == 0
    assert "FROM `orders` AS `t`" in capsys.readouterr().out
    assert status_of(["export", str(tmp_path / "book"), "--to", "dbt"]) == 2
    assert "--out" in capsys.readouterr().err
    assert status_of(["export", str(tmp_path / "book"), "--to", "dbt", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "models" / "schema.yml").exists()
    capsys.readouterr()
    for wrong in (["--to", "excel"], ["--to", "sql", "--dialect", "cobol"], ["--to", "sql", "--status", "suggested"]):
        assert status_of(["export", str(tmp_path / "book"), *wrong]) == 2


def test_metanome_results(shop):
    made = {name: [json.loads(line) for line in text.splitlines()] for name, text in export(shop, "metanome").items()}
    (fd,) = made["shop_fds.json"]
    assert fd["determinant"]["columnIdentifiers"] == [{"tableIdentifier": "orders", "columnIdentifier": "zip"}]
    assert fd["dependant"] == {"tableIdentifier": "orders", "columnIdentifier": "city"}
    assert [r["type"] for r in made["shop_inds.json"]] == ["InclusionDependency"]
    assert len(made["shop_uccs.json"]) == 3 and len(made["shop_dcs.json"]) == 3


# --- the tools themselves ---------------------------------------------------------------------------------------


@pytest.mark.tools
def test_dbt_runs_the_tests(shop, files):
    place = files("dbt")
    bin_ = tool("dbt")
    (place / "dbt_project.yml").write_text("name: shop\nversion: '1.0'\nprofile: shop\n")
    (place / "profiles.yml").write_text("shop:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: shop.db}\n")
    with duckdb.connect() as duck:
        for name, table in (("orders", ORDERS), ("customers", CUSTOMERS)):
            duck.register(name, pa.table(table))
            (place / "seeds").mkdir(exist_ok=True)
            duck.execute(f"COPY {name} TO '{place}/seeds/{name}.csv' (HEADER)")
    schema = place / "models" / "schema.yml"
    schema.write_text(schema.read_text().replace("models:", "seeds:"))  # the tables come from seeds here
    (place / "seeds" / "schema.yml").write_text(schema.read_text())
    schema.unlink()
    called([bin_ / "dbt", "seed", "--project-dir", place, "--profiles-dir", place], cwd=place)
    called([bin_ / "dbt", "test", "--project-dir", place, "--profiles-dir", place], status=1, cwd=place)
    results = json.loads((place / "target" / "run_results.json").read_text())["results"]
    found = {r["unique_id"].split(".")[2]: r["status"] for r in results}
    expected = {f"holdfast_{i.replace('-', '_')}": "fail" if rows else "pass" for i, rows in failing(shop).items()}
    assert found == expected


GX = """
import json, pathlib, sys
import great_expectations as gx
place = pathlib.Path(sys.argv[1])
context = gx.get_context(mode="ephemeral")
source = context.data_sources.add_sqlite("shop", connection_string=f"sqlite:///{place}/shop.db")
answer = {}
for name in ("orders", "customers"):
    suite = gx.ExpectationSuite(**json.loads((place / f"{name}.suite.json").read_text()))
    batch = source.add_table_asset(name, table_name=name).add_batch_definition_whole_table("all").get_batch()
    for result in batch.validate(suite).results:
        answer[result.expectation_config.meta["holdfast_id"]] = result.success
print(json.dumps(answer))
"""


@pytest.mark.tools
def test_great_expectations_validates_the_suites(shop, files):
    place = files("great-expectations", "sqlite")
    connection = sqlite3.connect(place / "shop.db")
    for name, table in (("orders", ORDERS), ("customers", CUSTOMERS)):
        connection.execute(f"CREATE TABLE {name} ({', '.join(table)})")
        rows = list(zip(*table.values(), strict=True))
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(table))})", rows)
    connection.commit()
    connection.close()
    answer = json.loads(run("gx", GX, place).splitlines()[-1])
    assert answer == {id_: not rows for id_, rows in failing(shop).items()}


ODCS = """
import json, pathlib, sys, yaml, jsonschema
import open_data_contract_standard as standard
from open_data_contract_standard.model import OpenDataContractStandard
schema = json.loads((pathlib.Path(standard.__file__).parent / "schema.json").read_text())
(path,) = pathlib.Path(sys.argv[1]).glob("*.odcs.yaml")
jsonschema.Draft201909Validator(schema).validate(yaml.safe_load(path.read_text()))
contract = OpenDataContractStandard.from_file(str(path))
print(json.dumps({table.name: [check.query for check in table.quality] for table in contract.schema_}))
"""


@pytest.mark.tools
def test_the_data_contract_is_valid(shop, files):
    queries = json.loads(run("odcs", ODCS, files("odcs")))
    assert sum(len(some) for some in queries.values()) == len(RULES)
    with duckdb.connect() as duck:
        for name, table in (("orders", ORDERS), ("customers", CUSTOMERS)):
            duck.register(name, pa.table(table))
        counts = [duck.execute(query).fetchone()[0] for some in queries.values() for query in some]
    assert sorted(counts) == sorted(len(rows) for rows in RULES.values())


SODA = """
import json, pathlib, sys, duckdb
from soda_core.contracts.contract_verification import ContractVerificationSession
from soda_core.common.yaml import ContractYamlSource
from soda_duckdb.common.data_sources.duckdb_data_source import DuckDBDataSourceImpl
place = pathlib.Path(sys.argv[1])
connection = duckdb.connect(str(place / "shop.db"), read_only=False)
source = DuckDBDataSourceImpl.from_existing_cursor(connection, name="holdfast")
answer = {}
for name in ("orders", "customers"):
    session = ContractVerificationSession.execute(
        contract_yaml_sources=[ContractYamlSource.from_file_path(str(place / f"{name}.contract.yml"))],
        data_source_impls=[source],
    )
    assert not session.has_errors, session.get_errors_str()
    for result in session.contract_verification_results[0].check_results:
        answer[result.check.qualifier] = result.outcome.name
print(json.dumps(answer))
"""


@pytest.mark.tools
def test_soda_verifies_the_contracts(shop, files):
    place = files("soda")
    with duckdb.connect(str(place / "shop.db")) as duck:
        for name, table in (("orders", ORDERS), ("customers", CUSTOMERS)):
            duck.register("arrived", pa.table(table))
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM arrived")
    answer = json.loads(run("soda", SODA, place).splitlines()[-1])
    assert answer == {i.replace("-", "_"): "FAILED" if rows else "PASSED" for i, rows in failing(shop).items()}


DQX = """
import json, pathlib, sys, yaml
from databricks.labs.dqx.engine import DQEngine
for path in pathlib.Path(sys.argv[1]).glob("*.checks.yml"):
    status = DQEngine.validate_checks(yaml.safe_load(path.read_text()))
    assert not status.has_errors, status.errors
print("valid")
"""


@pytest.mark.tools
def test_dqx_knows_the_checks(files):
    assert run("dqx", DQX, files("dqx")).strip().endswith("valid")


# --- rules from other programs ----------------------------------------------------------------------------------


def test_the_forms_of_denial_constraints():
    fd = hf.parse("not(t.zip = s.zip and t.city != s.city)")
    forms = [
        "t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)",
        "[DC: t0.city(String) <> t1.city(String)  t0.zip(Integer) == t1.zip(Integer)  ]",
        "not(t.zip == s.zip and t.city <> s.city)",
        "¬{ t.zip == s.zip ∧ t.city != s.city }",
        "not(t.zip = s.zip and t.city != s.city)",
    ]
    assert {parse_dc(form) for form in forms} == {fd}
    assert parse_dc('t1&EQ(t1.state,"it\'s")&GT(t1.age,-1.5)') == hf.parse("not(t.state = 'it''s' and t.age > -1.5)")
    assert parse_dc("t1&t2&EQ(t1.a b,t2.a b)&LTE(t1.c,t2.d)") == hf.parse("not(t.`a b` = s.`a b` and t.c <= s.d)")
    assert parse_dc("zip -> city") == hf.parse("zip -> city")


@pytest.mark.parametrize(
    "line", ["t1&t2&NO(t1.a,t2.a)", "[DC: t0.a == t1.a]", "[DC: ]", "not(t.a == )", "t1&t2&EQ(t1.a)"]
)
def test_a_line_that_is_no_constraint(line, tmp_path):
    with pytest.raises(HoldfastError):
        parse_dc(line)
    (tmp_path / "dcs.txt").write_text(f"# those of the paper\n\n{line}\n")
    with pytest.raises(hf.ReadError, match=r"dcs\.txt, line 3"):
        read_dcs(tmp_path / "dcs.txt")


def test_import_on_the_command_line(tmp_path, capsys):
    (tmp_path / "dcs.txt").write_text("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)\n")
    assert status_of(["import", str(tmp_path / "dcs.txt"), "--out", str(tmp_path / "rules.yml")]) == 0
    assert status_of(["import", str(tmp_path / "dcs.txt"), "--out", str(tmp_path / "rules.yml")]) == 2
    (tmp_path / "people.csv").write_text("zip,city\n1,x\n1,y\n")
    assert status_of(["check", str(tmp_path / "people.csv"), "--rules", str(tmp_path / "rules.yml")]) == 1
    capsys.readouterr()
    assert status_of(["import", str(tmp_path / "dcs.txt")]) == 0
    (rule,) = YAML(typ="safe").load(capsys.readouterr().out)["rules"]
    assert rule["description"] == "Rows with the same zip have the same city."


@pytest.mark.data
def test_the_constraint_files_in_circulation(real_data):
    assert len(read_dcs(real_data / "dirtyclean" / "hospital_constraints.txt")) == 15
    assert len(read_dcs(real_data / "papers" / "airport_DCs.txt")) == 31


def test_shapes_that_tools_know():
    found = {
        "not(t.low > t.high)": Below("low", "high", False),
        "not(t.low >= t.high)": Below("low", "high", True),
        "not(t.high < t.low)": Below("low", "high", False),
        "not(t.a > t.b)": Below("a", "b", False),
        "not(t.a <= t.b)": Below("b", "a", True),
        "not(t.a is null)": NotNull("a"),
        "key(b, a)": Unique(("a", "b")),
        "zip -> city": None,
        "not(t.a = s.b)": None,
    }
    assert {text: shape_of(hf.parse(text)) for text in found} == found
