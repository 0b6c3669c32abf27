"""The YAML rule file: readable errors, stable ids, comments that survive."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from holdfast import RuleError, RuleFile, parse
from holdfast.rules.rulefile import json_schema

TEXT = """\
# our rules
version: 1
rules:
  # postal
  - id: zip-city
    rule: zip -> city   # since 2024
    severity: warn
    owner: ana
    filter: t.country = 'DE'
    tolerance: 0.01

  - rule: "key(ssn)"
    nulls: distinct
    status: suggested
"""


def test_what_is_read():
    file = RuleFile.parse(TEXT)
    first, second = file
    assert (first.id, first.severity, first.owner, first.nulls, first.tolerance) == (
        "zip-city",
        "warn",
        "ana",
        "sql",
        0.01,
    )
    assert first.value == parse("zip -> city") and len(first.predicates) == 1
    assert second.id == parse("key(ssn)").id and second.status == "suggested"
    assert file["key(ssn)"] == second and file["zip-city"] == first


def test_comments_and_layout_survive(tmp_path):
    file = RuleFile.parse(TEXT)
    assert file.text() == TEXT
    file.update("zip-city", status="retired")
    file.add("a -> b", owner="bo")
    file.save(tmp_path / "rules.yml")
    text = (tmp_path / "rules.yml").read_text()
    for part in ("# our rules", "# postal", "# since 2024", "status: retired", "rule: a -> b"):
        assert part in text
    assert [e.status for e in RuleFile.load(tmp_path / "rules.yml")] == ["retired", "suggested", "accepted"]
    assert list(tmp_path.iterdir()) == [tmp_path / "rules.yml"]


def test_an_empty_file_is_fine():
    file = RuleFile.parse("")
    file.add("key(a)")
    assert [e.rule for e in file] == ["key(a)"] == [e.rule for e in RuleFile.parse(file.text())]
    assert RuleFile.empty().entries == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules:\n  - rule: zip > city\n", "r.yml, line 2: expected `->`"),
        ("rules:\n  - rule: a -> b\n  - rule: a -> b\n", "r.yml, line 3: the id 'fd-.*' is used twice"),
        ("rules:\n  - rule: a -> b\n    severity: huge\n", "r.yml, line 2: severity: .*not 'huge'"),
        ("rules:\n  - rule: a -> b\n    colour: red\n", "r.yml, line 2: unknown field .colour"),
        ("rules:\n  - rule: a -> b\n    tolerance: 2\n", "tolerance: .*not 2"),
        ("rules:\n  - rule: a -> b\n    filter: t.a\n", "filter|expected"),
        ("rules:\n  - owner: ana\n", "at least `rule`"),
        ("rules:\n  - a -> b\n", "a rule is a mapping"),
        ("version: 2\n", "version"),
        ("- a -> b\n", "a mapping"),
        ("rules: [\n", "r.yml, line"),
        ("rules: 5\n", "`rules` is a list"),
        ("rules:\n  - rule: a\0 -> b\n", "r.yml"),
    ],
)
def test_errors_name_file_line_and_field(text, message):
    with pytest.raises(RuleError, match=message):
        RuleFile.parse(text, "r.yml")


def test_errors_of_updates_leave_the_file_as_it_was():
    file = RuleFile.parse(TEXT)
    with pytest.raises(RuleError):
        file.update("zip-city", severity="huge")
    with pytest.raises(RuleError, match="severity"):
        file.add("a -> b", severity="bogus")
    with pytest.raises(RuleError, match="there already"):
        file.add("zip -> city")
    with pytest.raises(RuleError, match="no rule 'nope'"):
        file.update("nope", owner="x")
    assert file.text() == TEXT


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(RuleError, match="cannot be read"):
        RuleFile.load(tmp_path / "none.yml")


def test_the_published_schema_is_current_and_accepts_the_example():
    published = json.loads((Path(__file__).parent.parent / "docs/schema/rules.schema.json").read_text())
    assert published == json_schema()
    jsonschema.validate(YAML(typ="safe").load(TEXT), published)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"rules": [{"rule": "a -> b", "colour": "red"}]}, published)


def test_line_ends_of_another_system_stay(tmp_path):
    file = tmp_path / "rules.yml"
    file.write_bytes(b"version: 1\r\nrules:\r\n  # ours\r\n  - rule: a -> b\r\n")
    rules = RuleFile.load(file)
    rules.add("b -> c", status="suggested", description="two\nlines")
    rules.save(file)
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n") > 5
    assert [entry.rule for entry in RuleFile.load(file)] == ["a -> b", "b -> c"]
    assert b"# ours\r\n" in file.read_bytes() and RuleFile.load(file)["b -> c"].description == "two\nlines"
