"""What rules have survived: compared with the rules of each version, and with rows counted one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.ranking.rank import Ranked
from holdfast.rules.implication import implies
from holdfast.workflow.decisions import Decisions, deciding
from holdfast.workflow.suggestions import best_survivors, refresh_suggestions
from holdfast.workflow.survival import Survival, Survivals
from tests.conftest import cases

COLUMNS = "abc"


def table(rows: list[tuple[int, ...]], first: int = 0) -> pa.Table:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}
    return pa.table({"id": np.arange(first, first + len(rows)), **columns})


ROWS = st.lists(st.tuples(*[st.integers(0, 3)] * len(COLUMNS)), min_size=1, max_size=5)


@given(first=ROWS, batches=st.lists(st.tuples(ROWS, st.integers(0, 3)), min_size=1, max_size=6))
@settings(max_examples=cases(150))
def test_survival_is_what_the_versions_say(first, batches):
    made = table(first)
    came_with = dict.fromkeys(range(len(first)), 0)  # the version in which each id came
    live = dict(enumerate(first))
    with hf.Rulebook.create(None, made, key="id", kinds=("key", "fd"), max_size=None, exclude=None) as book:
        sets = [book.found()]
        for version, (rows, gone) in enumerate(batches, start=1):
            new = len(came_with)
            leaving = sorted(live)[:gone]
            deletes = pa.table({"id": leaving}) if leaving else None
            book.apply(hf.Change(inserts=table(rows, new), deletes=deletes))
            sets.append(book.found())
            for number in leaving:
                del live[number]
            came_with |= {new + i: version for i in range(len(rows))}
            live |= {new + i: row for i, row in enumerate(rows)}
        survivals = Survivals(book)
        wanted = [hf.parse(t) for t in ("a -> b", "a, b -> c", "key(a, b)", "c -> a", "() -> c", "key(b)", "b, c -> a")]
        for rule in wanted:
            held = [any(implies(strong, rule) for strong in found.of(rule.kind)) for found in sets]
            survival = survivals.of(rule)
            assert (survival is not None) == held[-1]
            if survival is None:
                continue
            since = max((v + 1 for v, holds in enumerate(held) if not holds), default=0)
            assert survival.since == since
            assert survival.breaks == sum(a and not b for a, b in pairwise(held))
            assert survival.batches == len(held) - 1 - since
            assert survival.chances == _chances(rule, live, came_with, since)


def _chances(rule, live, came_with, since) -> int:
    """Rows that came after a version and agree with another row on the left side; of keys all that came."""
    names = sorted(rule.columns if rule.kind == "key" else rule.left)
    places = [COLUMNS.index(name) for name in names]
    new = [number for number in live if came_with[number] > since]
    if rule.kind == "key":
        return len(new)
    lefts = [tuple(row[p] for p in places) for row in live.values()]
    return sum(not places or lefts.count(tuple(live[number][p] for p in places)) > 1 for number in new)


def test_a_checked_rule_survives_since_its_last_violation():
    rows = [(1, 1, 1), (1, 1, 2), (2, 2, 2)]
    with hf.Rulebook.create(None, table(rows), key="id", rules=["a -> b"]) as book:
        id_ = book.entries[0].id
        assert str(Survivals(book).of_checked(id_)) == ""
        book.apply(hf.Change(inserts=table([(1, 1, 5), (7, 7, 7)], 10)))
        held = Survivals(book).of_checked(id_)
        assert str(held) == "held through 1 batch; 1 new row could have broken it"
        book.apply(hf.Change(inserts=table([(1, 9, 5)], 20)))
        assert Survivals(book).of_checked(id_) is None
        book.apply(hf.Change(deletes=pa.table({"id": [20]})))
        book.apply(hf.Change(inserts=table([(2, 2, 5), (2, 2, 6)], 30)))
        assert Survivals(book).of_checked(id_) == Survival(3, 1, 2, 1)


def test_chances_raise_the_score_and_breaks_lower_it():
    calm, tested, flickering = (Survival(0, 9, *rest) for rest in ((0, 0), (900, 0), (900, 2)))
    assert calm.score(0.6) == 0.6 < tested.score(0.6) == 0.96
    assert flickering.score(0.6) == 0.24
    assert str(flickering) == "held through 9 batches; 900 new rows could have broken it; broken 2 times before"


def towns(count: int, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {"id": numbers, "zip": numbers % 40, "city": [f"town {n % 40 // 3}" for n in numbers], "x": numbers % 7}
    )


def kept_towns(place):
    return hf.Rulebook.create(place, towns(400), key="id", kinds=("key", "fd"), max_size=2)


def test_suggestions_are_ranked_again_with_what_they_survived(tmp_path):
    place = tmp_path / "book"
    with kept_towns(place) as book:
        with deciding(book) as decisions:
            refresh_suggestions(decisions, book, best_survivors(book))
        before = {one.text: one.score for one in book.best()}
        for number in range(5):
            book.apply(hf.Change(inserts=towns(100, 1000 + 100 * number)))
        told = {one.text: one for one in best_survivors(book)}
        assert told["zip -> city"].survived == "held through 5 batches; 500 new rows could have broken it"
        assert told["zip -> city"].score > before["zip -> city"] or before["zip -> city"] == 1
        with deciding(book) as decisions:
            assert refresh_suggestions(decisions, book, best_survivors(book)) == ([], [])
        text = (place / "rules.yml").read_text()
        assert "held through 5 batches" in text
        wrong = towns(100, 5000).set_column(2, "city", pa.array([f"other {n}" for n in range(100)]))
        book.apply(hf.Change(inserts=wrong))
        with deciding(book) as decisions:
            _, withdrawn = refresh_suggestions(decisions, book, best_survivors(book))
        assert "zip -> city" in withdrawn and "zip -> city" not in [entry.rule for entry in Decisions.of(book).entries]


def test_what_a_person_wrote_into_the_file_stays(tmp_path):
    place = tmp_path / "book"
    with kept_towns(place) as book:
        (place / "rules.yml").write_text(
            "version: 1\nrules:\n  # ask Ana\n  - {rule: x -> zip, status: suggested}\n"
            "  - {rule: x -> city, status: suggested, owner: ben}\n  - {rule: city -> zip, status: suggested}\n"
            "  - rule: zip -> x\n    status: suggested\n    description: Rows with the same zip have the same x.\n"
        )
        ranked = [Ranked(hf.parse("zip -> city"), "zip -> city", "words", None, 0.9)]
        with deciding(book) as decisions:
            assert refresh_suggestions(decisions, book, ranked) == (["zip -> city"], ["zip -> x"])
        text = (place / "rules.yml").read_text()
        assert "# ask Ana" in text and "owner: ben" in text and "zip -> x" not in text and "city -> zip" in text


def test_a_description_that_somebody_wrote_and_what_nearly_held_stay(tmp_path):
    place = tmp_path / "book"
    with kept_towns(place) as book:
        (place / "rules.yml").write_text(
            "version: 1\nrules:\n\n  - rule: zip -> city\n    status: suggested\n"
            "    description: Rows with the same zip have the same city. (held back)\n\n"
            "  - rule: id -> x\n    status: suggested\n"
            "    description: Rows with the same id have the same x. Agreed with Ana.\n"
            "  - rule: x -> zip\n    status: suggested\n"
            "    description: Rows with the same x have the same zip, nearly always (error 90 %).\n"
            "  - {rule: zip -> x, status: suggested, description: Rows with the same zip have the same x.}\n"
        )
        with deciding(book) as decisions:
            new, withdrawn = refresh_suggestions(decisions, book, best_survivors(book))
        assert withdrawn == ["zip -> x"] and "key(id)" not in new  # the declared key
        text = (place / "rules.yml").read_text()
        assert "(held back)" in text and "x -> zip" in text and "Agreed with Ana." in text


def test_a_rulebook_that_keeps_no_rules_has_scores_and_keeps_its_suggestions(tmp_path):
    place = tmp_path / "book"
    towns(400).to_pandas().to_csv(tmp_path / "towns.csv", index=False)
    assert status_of(["init", str(place), str(tmp_path / "towns.csv"), "--key", "id"]) == 0
    before = (place / "rules.yml").read_text()
    assert "zip -> city" in before and status_of(["rules", "suggest", str(place)]) == 0
    assert (place / "rules.yml").read_text() == before
    with hf.Rulebook.open(place) as book:
        assert "zip -> city" in [one.text for one in best_survivors(book)]


def test_rules_of_any_form_have_an_answer():
    wide = pa.table({"id": np.arange(40)} | {f"c{n:02}": np.arange(40) % (n + 2) for n in range(30)})
    with hf.Rulebook.create(None, wide, key="id", kinds=("key", "dc"), max_size=1) as book:
        book.apply(hf.Change(deletes=pa.table({"id": [3]})))
        names = ", ".join(wide.column_names)
        for text in ("not(t.c00 is null)", "not(t.c00 < 0)", "c00 -> c01"):
            assert Survivals(book).of(hf.parse(text)) is None
        for text in (f"key({names})", "not(t.id = s.id and t.c00 is null)"):  # implied by shorter ones
            assert Survivals(book).of(hf.parse(text)) == Survival(0, 0, 0, 0)
