"""The running examples of IncDC and IncPOD: the tax table, three rows that come, and what they do to its rules.

The papers print almost the same rows. In IncPOD's t7 and t8 have the rates 1.42 and 2.04, equal to those of t1 and t3;
IncDC has 1.43 and 2.05, so that the pairs violate a strict `>` too. The papers' rules are minimal among those that
they list; here a rule is minimal if no other valid one implies it, so that some are there in a weaker form.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.rules.implication import implies
from holdfast.rules.masks import unpack
from holdfast.rules.operator import Op
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.read import read, schema_of
from tests import naive
from tests.peers.chain import Chains

NAMES = ["Name", "Date", "SSN", "NUM", "MS", "CH", "PH", "ST", "ZIP", "SAL", "RATE", "TXA", "STX", "CTX"]
TAX = """
    Sadam   20140410 719975883 1448 S Y 6059466 CO 80612 32000 1.24 3000 400 2000
    Duparc  20140224 303975883 1401 M N 5872027 CO 80612 50000 1.42 1500   0    0
    Hannen  20140413 701178073 1486 M N 1638673 ND 58671 30000 1.21 3400   0    0
    Beke    20130403 801350874 1386 M Y 6192334 UT 84308 55000 2.04 1300   0   40
    Sadam   20140329 719975883 1427 S N 6059466 CO 80612  7500 1.21    0  50    0
    Hannen  20130404 701178073 1386 S Y 1638673 ND 58671  6500 0.24  900   0 1000
    Motwani 20150324 970122634 1547 M N 8484643 CO 80209 95000 2.85 1100   0    0
"""
COMING = """
    Uckun   20130322 435849162 1368 M Y 5872027 UT 84308 40000 {} 3300   0    0
    Hannen  20140218 701178073 1478 S N 1638673 ND 58671 33000 {} 1400  40   40
    Beke    20150213 801350874 1533 S Y 6192334 UT 84308 32000 1.23 3200   0 1000
"""
NUMBERS = {"Date", "NUM", "SAL", "RATE", "TXA", "STX", "CTX"}
DCS = {
    1: "not(t.SSN = s.SSN and t.Name != s.Name)",
    2: "not(t.ZIP = s.ZIP and t.ST != s.ST)",
    3: "not(t.TXA > s.TXA and t.SAL < s.SAL and t.RATE > s.RATE)",
    4: "not(t.SSN = s.SSN and t.Date < s.Date and t.NUM >= s.NUM)",
    5: "not(t.STX = s.STX and t.STX > s.CTX and t.MS != s.MS)",
}


def table(text: str) -> pa.Table:
    rows = [line.split() for line in text.strip().splitlines()]
    typed = {n: [float(r[i]) if n in NUMBERS else r[i] for r in rows] for i, n in enumerate(NAMES)}
    return pa.table(typed)


BASE = table(TAX)
INC_DC, INC_POD = table(COMING.format("1.43", "2.05")), table(COMING.format("1.42", "2.04"))


def with_(rule: str, predicate: str) -> str:
    return rule[:-1] + f" and {predicate})"


# --- IncDC ----------------------------------------------------------------------------------------------------


def test_example_2_which_constraints_still_hold():
    both = pa.concat_tables([BASE, INC_DC])
    before, after = (hf.check(rows, list(DCS.values())) for rows in (BASE, both))
    assert [before.count(rule) for rule in DCS.values()] == [0] * 5
    assert [after.count(rule) for rule in DCS.values()] == [0, 0, 2, 0, 0]
    assert after.pairs(DCS[3]).to_pylist() == [{"t": 7, "s": 1}, {"t": 8, "s": 3}]
    refined = [with_(DCS[3], "t.ST = s.ST"), with_(DCS[3], "t.Date = s.Date")]
    found = hf.check(both, refined)
    assert [found.count(rule) for rule in refined] == [0, 0]


def test_example_3_the_evidence_of_a_pair():
    """The predicates of Table 5 that (t7, t1) satisfies, as weak atoms."""
    both = read(pa.concat_tables([BASE, INC_DC]).select(["SAL", "TXA", "RATE", "ST"]))
    schema = schema_of(both)
    codes = encode_table(schema, both.table, TextDictionary()).codes
    space = PredicateSpace.of(schema, "equal")
    lacks = unpack(space.lacks(space.clues(codes, np.array([[7, 1]]))), len(space.atoms))[0]
    names = schema.names
    satisfied = {
        (names[space.comparisons[i].left], op) for (i, op), lack in zip(space.atoms, lacks, strict=True) if not lack
    }
    assert satisfied == {
        ("SAL", Op.NE), ("SAL", Op.LE), ("TXA", Op.NE), ("TXA", Op.GE), ("RATE", Op.NE), ("RATE", Op.GE), ("ST", Op.NE),
    }  # fmt: skip


@pytest.mark.parametrize("evidence", ["counted", "lean"])
def test_examples_4_and_14_the_change_of_constraints(evidence):
    """What says that of t3 falls, by one of the two pairs; what says it of one state stays or comes."""
    columns = ["SAL", "TXA", "RATE", "ST", "PH"]
    book = hf.Rulebook.create(None, BASE.select(columns), kinds=("dc",), cross_columns=False, evidence=evidence)
    third, refined, same_phone = (
        hf.parse(x) for x in (DCS[3], with_(DCS[3], "t.ST = s.ST"), with_(DCS[3], "t.PH = s.PH"))
    )
    assert any(implies(rule, third) for rule in book.rules())
    out = book.apply(hf.Change(inserts=INC_DC.select(columns)))
    gone = [rule for rule in out.rules.removed if implies(rule, third)]
    assert gone and not any(implies(rule, third) for rule in book.rules())
    strict = [rule for rule in gone if {p.op for p in rule.predicates} <= {Op.LE, Op.GE, Op.LT, Op.GT}]
    assert strict and all(out.rules.why(rule) is not None for rule in gone)
    assert any(implies(rule, refined) for rule in book.rules())
    assert not any(implies(rule, same_phone) for rule in book.rules())  # (t7, t1) have the same phone
    rows = [dict(r) for r in book.table().to_pylist()]
    assert all(not naive.violations(rule, rows, "equal") for rule in book.rules())


def test_example_13_indexes_along_the_correlation():
    """Date and NUM go together (0.88), so that the index along it has the smaller rank, and serves both ways."""
    date, num = (BASE[name].to_numpy() for name in ("Date", "NUM"))
    assert round(float(np.corrcoef(date, num)[0, 1]), 2) == 0.88
    ranks = {}
    for op in (Op.LT, Op.GE):
        index = Chains(Op.LT, op)
        index.build({(int(a), int(b)): [(i, (), ())] for i, (a, b) in enumerate(zip(date, num, strict=True))})
        ranks[op] = index.rank
    assert ranks[Op.LT] < ranks[Op.GE]


# --- IncPOD ---------------------------------------------------------------------------------------------------

PODS = [
    "{ZIP =} -> ST =",
    "{SSN =} -> Name =",
    "{TXA >, SAL <} -> RATE <",
    "{SSN =, Date <} -> NUM <",
]


def test_pod_example_2_which_dependencies_still_hold():
    both = pa.concat_tables([BASE, INC_POD])
    before, after = (hf.check(rows, PODS) for rows in (BASE, both))
    assert [before.count(rule) for rule in PODS] == [0] * 4
    assert [after.count(rule) for rule in PODS] == [0, 0, 2, 0]
    assert after.pairs(PODS[2]).to_pylist() == [{"t": 7, "s": 1}, {"t": 8, "s": 3}]
    refined = ["{ST =, TXA >, SAL <} -> RATE <", "{TXA >, SAL <} -> RATE <="]
    assert [hf.check(both, refined).count(rule) for rule in refined] == [0, 0]


def test_pod_example_6_what_is_not_minimal():
    strong = hf.parse("{TXA >, SAL <} -> RATE <")
    assert implies(strong, hf.parse("{ST =, TXA >, SAL <} -> RATE <"))
    assert implies(strong, hf.parse("{TXA >, SAL <} -> RATE <="))


@pytest.mark.parametrize("evidence", ["counted", "lean"])
def test_pod_examples_13_and_14_the_change_of_dependencies(evidence):
    """The strict conclusion falls by pairs of equal rates; the weaker one, and that of one state, take its place, but
    not that of one phone, which t7 and t1 share."""
    columns = ["TXA", "SAL", "RATE", "ST", "PH"]
    book = hf.Rulebook.create(None, BASE.select(columns), kinds=("order",), evidence=evidence)
    strong = hf.parse(PODS[2])
    assert any(implies(rule, strong) for rule in book.rules())
    out = book.apply(hf.Change(inserts=INC_POD.select(columns)))
    gone = [rule for rule in out.rules.removed if implies(rule, strong)]
    assert gone and {frozenset(out.rules.why(rule)) for rule in gone} <= {frozenset({7, 1}), frozenset({8, 3})}
    for text, holds in (
        ("{TXA >, SAL <} -> RATE <=", True),
        ("{ST =, TXA >, SAL <} -> RATE <", True),
        ("{PH =, TXA >, SAL <} -> RATE <", False),
    ):
        assert any(implies(rule, hf.parse(text)) for rule in book.rules()) == holds
