"""A text without a table means the only table, wherever a rule is looked up."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.errors import HoldfastError, RuleError
from holdfast.report.facts import facts_of
from holdfast.rules.bind import forms, resolved
from holdfast.rules.rule import Ind
from holdfast.workflow.alerts import alerts_of_batch
from holdfast.workflow.decisions import ACCEPTED, FILE, SUGGESTED, Decisions, adopt, deciding, found_as, look_at
from holdfast.workflow.history import History
from tests import strategies as hs
from tests.conftest import cases

TOWNS = pa.table({"code3": ["deu", "deu", "fra", None, None], "iso2": ["de", "de", "fr", "xx", "xx"]})
BARE, NAMED = "code3 -> iso2", "jhu: code3 -> iso2"


def answers(book, rule) -> tuple:
    """Everything that can be asked about one rule."""
    told = book.explain(rule)
    look = look_at(book, str(rule))
    return (
        book.entry(rule).id,
        book.count_violations(rule),
        book.violations(rule).to_pylist(),
        book.error(rule),
        repr((told.count, told.worst, told.causes, told.clashes)),  # NaN is not equal to itself
        book.look(rule).count,
        (look.count, [(v.t, v.s) for v in look.page(0, 100)]),
        Decisions.of(book).known(str(rule)).id,
        [event.record() for event in History(book).events(str(rule))],
        History(book).trend(str(rule)),
    )


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(60))
def test_a_rule_of_the_only_table_is_one_rule_however_it_is_written(data, nulls):
    schema, rows = data.draw(hs.tables(rows=6))
    rule = data.draw(hs.one_table_rules(schema))
    table, extra = hs.to_arrow(schema, rows), hs.to_arrow(schema, rows[:1])
    for tables, name in ((table, "data"), ({"jhu": table}, "jhu")):
        bare, named = forms(rule, [name])
        assert (bare.table, named.table) == (None, name) and bare.as_written == rule.as_written
        for given_rule in (bare, named):
            book = hf.Rulebook.create(None, tables, rules=[given_rule], rule_nulls=nulls)
            out = book.apply(hf.Change(inserts=extra))
            expected = answers(book, given_rule)
            assert expected[0] == given_rule.id and book.entries[0].rule == given_rule.as_written
            for asked in (bare, named, bare.as_written, named.as_written):
                assert answers(book, asked) == expected
                assert out.violations.added(asked) == out.violations.added(given_rule)
            book.alter(retire=[str(named if given_rule is bare else bare)])
            assert book.entries == ()


def test_with_several_tables_a_text_names_its_table():
    book = hf.Rulebook.create(None, {"jhu": TOWNS, "who": TOWNS}, rules=[NAMED])
    assert book.count_violations(NAMED) == 0
    for ask in (book.count_violations, book.entry, book.explain):
        with pytest.raises(RuleError, match="not among the rules"):
            ask(BARE)
    with pytest.raises(RuleError, match="say which table"):
        book.look(BARE)
    assert resolved(hf.parse(NAMED), ["jhu", "who"]) == hf.parse(NAMED)
    assert forms(hf.parse(BARE), ["jhu", "who"]) == (hf.parse(BARE),)
    assert forms(hf.parse("jhu.a in jhu.b"), ["jhu"]) == (Ind("jhu", ("a",), "jhu", ("b",)),)


@pytest.mark.parametrize("asked", [BARE, NAMED])
@pytest.mark.parametrize("named", [True, False])
def test_accepting_a_suggestion_keeps_its_id_null_policy_and_description(tmp_path, asked, named):
    asked = asked if named else asked.replace("jhu", "data")
    book = hf.Rulebook.create(tmp_path / "b", {"jhu": TOWNS} if named else TOWNS, kinds=("fd",))
    with book, deciding(book) as decisions:
        (suggested,) = [e for e in decisions.suggest(book.best(None), "equal") if e.rule.endswith(BARE)]
        accepted = decisions.decide(asked, ACCEPTED, book=book)
        assert accepted == suggested.model_copy(update={"status": ACCEPTED}) and accepted.nulls == "equal"
        assert accepted.description and decisions.suggest(book.best(None), "equal") == []
    with hf.Rulebook.open(tmp_path / "b") as book:
        adopt(book)
        assert [entry.id for entry in book.entries] == [suggested.id]
        lines = [line for line in facts_of(book, "b").lines if line.rule.endswith(BARE)]
        assert [line.status for line in lines] == [ACCEPTED]


@pytest.mark.parametrize("asked", [BARE, NAMED])
def test_accepting_what_was_only_found_keeps_its_policy(tmp_path, asked):
    with hf.Rulebook.create(tmp_path / "b", {"jhu": TOWNS}, kinds=("fd",)) as book:
        assert found_as(book, hf.parse(asked)) == hf.parse(NAMED)
        with deciding(book) as decisions:
            entry = decisions.decide(asked, ACCEPTED, book=book)
            assert (entry.rule, entry.nulls) == (NAMED, "equal")
        assert adopt(book) == 1
        new = pa.table({"code3": pa.array([None], pa.string()), "iso2": ["yy"]})
        out = book.apply(hf.Change(inserts=new))
        assert book.count_violations(BARE) == 4 == look_at(book, BARE).count
        assert [alert.added for alert in alerts_of_batch(book, out)] == [4]


def test_a_rule_that_is_checked_in_the_other_form_and_lost_by_discovery_alerts(tmp_path):
    with hf.Rulebook.create(tmp_path / "b", {"jhu": TOWNS}, kinds=("fd",), rules=[BARE]) as book:
        new = pa.table({"code3": pa.array([None], pa.string()), "iso2": ["yy"]})
        (alert,) = alerts_of_batch(book, book.apply(hf.Change(inserts=new)))
        assert (alert.rule, alert.added) == (BARE, 0) and "no longer" in alert.message


def test_both_forms_are_a_duplicate(tmp_path):
    for rules in ([BARE, NAMED], [NAMED, BARE]):
        with pytest.raises(RuleError, match=f"`{rules[1]}` is the same rule as `{rules[0]}`"):
            hf.Rulebook.create(None, {"jhu": TOWNS}, rules=rules)
        with pytest.raises(RuleError, match="is the same rule as"):
            hf.check({"jhu": TOWNS}, rules)
    with hf.Rulebook.create(tmp_path / "b", {"jhu": TOWNS}, rules=[NAMED]) as book:
        with pytest.raises(RuleError, match="is the same rule as"):
            book.alter(rules=[BARE])
        (tmp_path / "b" / FILE).write_text(f"rules:\n  - rule: '{NAMED}'\n  - rule: {BARE}\n")
        with pytest.raises(HoldfastError, match=r"rules.yml, line 3: `code3 -> iso2` is the same rule as"):
            adopt(book)
        (tmp_path / "b" / FILE).write_text(f"rules:\n  - rule: {BARE}\n")
        assert adopt(book) == 1 and [entry.rule for entry in book.entries] == [BARE]
        own = [
            hf.rules.rulefile.RuleEntry(id=i, rule=r, filter=f"t.iso2 = '{i}'") for i, r in (("a", BARE), ("b", NAMED))
        ]
        book.alter(rules=own)
        assert len(book.entries) == 3


def test_on_the_command_line(tmp_path, capsys):
    """The case that was reported: a file under another name."""
    (tmp_path / "base.csv").write_text("code3,iso2\ndeu,de\ndeu,de\nfra,fr\n,xx\n,xx\n")
    book = str(tmp_path / "book")
    assert status_of(["init", book, f"jhu={tmp_path / 'base.csv'}", "--kind", "fd"]) == 0
    before = {entry.rule: entry for entry in hf.RuleFile.load(tmp_path / "book" / FILE)}
    assert before[NAMED].status == SUGGESTED
    assert status_of(["rules", "accept", book, BARE]) == 0
    after = {entry.rule: entry for entry in hf.RuleFile.load(tmp_path / "book" / FILE)}
    assert after.keys() == before.keys() and after[NAMED] == before[NAMED].model_copy(update={"status": ACCEPTED})
    capsys.readouterr()
    told = []
    for rule in (BARE, NAMED):
        assert status_of(["history", book, "--rule", rule, "--format", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
        assert status_of(["explain", book, rule, "--format", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[:2] == told[2:] and told[0]["events"]
