"""Rule text and rule files from anybody: what is too large or too deep is one clear error, and nothing takes long."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ParseError, RuleError, RuleFile, parse
from holdfast.rules.bind import require_fits
from holdfast.rules.grammar import MAX_CHARACTERS, MAX_PREDICATES, parse_filter
from holdfast.rules.jsonform import from_json, to_json
from holdfast.rules.predicate import MAX_DIGITS, Constant
from holdfast.rules.yaml_document import MAX_DEPTH
from holdfast.table.schema import Schema
from tests.conftest import cases


def _named(text):
    """Tests with long texts are called by their beginnings."""
    return ascii(text[:24])


# --- rule text --------------------------------------------------------------------------------------------------

_PIECES = st.sampled_from([
    "key", "not", "and", "in", "is", "null", "true", "false", "date", "timestamp", "t", "s", "t.", "s.", "a", "b",
    "zip", "`", "``", "'", "''", "\\", "(", ")", "{", "}", ",", ".", ":", "->", "<", "<=", ">", ">=", "!=", "=", "==",
    "<>", "-", "1", ".5", "5.", "-0", "1e5", "1E-5", "1e400", "1e-401", "1e99999999999999999999", "00", "٣", "²", "ß",
    "数",
    "'2026-01-31'", "'2026-W01-1'", "'1:2'", "t.a", "s.a", "t.b", "key(", "not(", "a:", "`x`:", "{a", "{}", "()",
    "\x00", "\ud800", "\u2028", "\x85", "\ufeff",
])  # fmt: skip
_JOINED = st.lists(_PIECES, max_size=30).flatmap(
    lambda parts: st.sampled_from(["", " ", "\n"]).map(lambda joint: joint.join(parts))
)
_CONJUNCTIONS = st.lists(
    st.tuples(
        st.sampled_from(["t.a", "s.a", "t.b", "s.b", "1", "-1e3", "'x'", "true", "date '2026-01-31'"]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "is", "=="]),
        st.sampled_from(["t.a", "s.a", "t.c", "0.50", "1e399", "1e-400", "null", "not null", "timestamp '0001-01-01'"]),
    ).map(" ".join),
    min_size=1,
    max_size=5,
).map(lambda parts: f"not({' and '.join(parts)})")


@given(text=st.one_of(_JOINED, _CONJUNCTIONS, st.text(), st.text("`'\\t.=<-> ()1eand", max_size=60)))
@settings(max_examples=cases(2000))
def test_any_text_is_a_rule_that_prints_and_parses_or_a_rule_error(text):
    for read in (parse, parse_filter):
        try:
            made = read(text)
        except RuleError as error:
            assert str(error)
            continue
        if read is parse:
            assert parse(str(made)) == made == from_json(to_json(made)) == parse(made.as_written)
            assert parse(str(made)).id == made.id


_BEYOND = [
    "1e400", "-1e400", "1e-401", "1e-99999999", "1e999999999", "1e99999999999999999999", "9" * 401, "9" * 99_000,
    "0." + "0" * 400 + "1", "1e" + "9" * 5000, "1." + "3" * 401,
]  # fmt: skip
_WITHIN = [
    ("1e399", "1" + "0" * 399),
    ("1e-400", "0." + "0" * 399 + "1"),
    ("-0", "0"),
    ("0e999999999", "0"),
    ("-0.0e-9", "0"),
    ("1." + "0" * 900, "1"),
    ("9" * 400 + "." + "9" * 400, "9" * 400 + "." + "9" * 400),
]


@pytest.mark.parametrize("number", _BEYOND, ids=_named)
def test_a_number_beyond_the_bounds_is_an_error_that_points_at_it(number):
    for read, text in ((parse, f"not(t.a = 5 and t.b < {number})"), (parse_filter, f"t.a = 5 and t.b < {number}")):
        with pytest.raises(ParseError) as caught:
            read(text)
        assert caught.value.position == text.index(number) and f"at most {MAX_DIGITS} digits" in str(caught.value)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize(("number", "printed"), _WITHIN, ids=_named)
def test_a_number_within_the_bounds_is_held_exactly(number, printed):
    rule = parse(f"not(t.a = {number})")
    assert str(rule) == f"not(t.a = {printed})" and parse(str(rule)) == rule


def test_constants_of_python_have_the_same_bounds():
    for value in (10**400, -(10**5000), Decimal("1e999999999"), Decimal("1e-401"), float("inf"), float("nan")):
        with pytest.raises(RuleError):
            Constant.of(value)
    assert str(Constant.of(10**399)) == "1" + "0" * 399


def test_a_number_that_no_float_is_near_does_not_fit_a_float_column():
    schemas = {"data": Schema.of(f="float", n="integer", d="decimal(2)")}
    for number, reason in (("1e309", "too large"), ("-1e309", "too large"), ("1e-399", "too small")):
        with pytest.raises(RuleError, match=f"column 'f' is float: .* {reason}"):
            require_fits(parse(f"not(t.f < {number})"), schemas)
        require_fits(parse(f"not(t.n < {number} and t.d > {number})"), schemas)
    require_fits(parse("not(t.f < 1.7e308 and t.f > 0.1 and t.f != 0)"), schemas)


_REPEATED = [
    "a", "a ", "`", "``", "`a`", "'", "''", "'x'", "\\", "(", "{", "1", "1.", "1 ", "-", ".", "e", " ", "\n", "é", "`a",
    "'a", "key(", "not(", "a,", "a:", "t.", "->", "not not ", "{a<,", "and ", "1e", "1e5", "-1 ", "٣",
]  # fmt: skip
_LONG = [
    "not(" + "t.a=1 and " * 9_000,
    "{" + "a <, " * 19_000 + "a <} -> b <",
    "key(" + "a, " * 33_000 + "a)",
    "key(`" + "``" * 49_990 + "`)",
    "not(t.a = '" + "''" * 49_900 + "')",
    "a" + " " * 99_000 + "-> b",
]


@pytest.mark.parametrize("text", [*(p * (MAX_CHARACTERS // len(p)) for p in _REPEATED), *_LONG], ids=_named)
def test_long_texts_are_read_or_refused(text):
    assert len(text) <= MAX_CHARACTERS
    try:
        made = parse(text)
    except RuleError as error:
        assert len(str(error)) < 1000 or "\n" not in str(error)
    else:
        assert parse(str(made)) == made


def test_each_token_is_matched_once(monkeypatch):
    from holdfast.rules import grammar

    steps = 0

    class Counted:
        def finditer(self, text):
            nonlocal steps
            for match in real.finditer(text):
                steps += 1
                yield match

    real = grammar._TOKEN
    monkeypatch.setattr(grammar, "_TOKEN", Counted())
    for length in (1_000, 2_000, 4_000):
        steps = 0
        parse("key(" + ", ".join(f"a{i}" for i in range(length)) + ")")
        assert steps == 2 * length + 3


def test_texts_and_conjunctions_have_bounds():
    with pytest.raises(ParseError, match="at most 100,000 characters"):
        parse("key(" + "a" * MAX_CHARACTERS + ")")
    parts = [f"t.a{i} = s.a{i}" for i in range(MAX_PREDICATES + 1)]
    assert len(parse(f"not({' and '.join(parts[:-1])})").predicates) == MAX_PREDICATES
    with pytest.raises(ParseError, match="at most 1,000 predicates"):
        parse(f"not({' and '.join(parts)})")
    with pytest.raises(ParseError, match="at most 1,000 predicates"):
        parse_filter(" and ".join(f"t.a{i} = 1" for i in range(MAX_PREDICATES + 1)))


def test_half_a_surrogate_pair_is_pointed_at():
    with pytest.raises(ParseError, match="UTF-8") as caught:
        parse("a -> `\ud800`")
    assert caught.value.position == 6
    assert "\ud800" not in str(caught.value)


@pytest.mark.parametrize("record", [None, 5, [], "a -> b", {}, {"text": 5}, {"text": None}, {"text": [[]]}])
def test_a_json_record_that_is_no_rule_is_a_rule_error(record):
    with pytest.raises(RuleError):
        from_json(record)


def test_long_messages_are_cut_around_the_place():
    with pytest.raises(ParseError) as caught:
        parse("key(" + "a, " * 30_000 + "5)")
    first, excerpt, arrow = str(caught.value).splitlines()
    assert first == "expected a column" and len(excerpt) < 200
    assert excerpt[arrow.index("^")] == "5"


# --- rule files -------------------------------------------------------------------------------------------------

_RULE = "rules:\n  - rule: a -> b\n    "
_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_RULE + "tolerance: 1e400\n", "line 2: tolerance: .*not inf"),
        (_RULE + "tolerance: 1e99999999999\n", "line 2: tolerance: .*not inf"),
        (_RULE + "tolerance: nan\n", "line 2: tolerance: .*not 'nan'"),
        (_RULE + "tolerance: .nan\n", "line 2: tolerance: .*not nan"),
        (_RULE + "tolerance: true\n", "line 2: tolerance: .*not True"),
        (_RULE + "tolerance: '0.5'\n", "line 2: tolerance: .*not '0.5'"),
        (_RULE + f"tolerance: {'9' * 6000}\n", "line 3: .*cannot be read as int"),
        (_RULE + f"tolerance: 0x{'f' * 5000}\n", "line 2: tolerance: "),
        (_RULE + "filter: t.x = 1e400\n", "line 2: expected a number of at most 400 digits .* at character 7 of"),
        (_RULE + "filter: t.a\n", "line 2: expected one of .* at character 4 of 't.a'"),
        (_RULE + "rule: c -> d\n", "line 3: found duplicate key"),
        ("version: 1\nversion: 1\n", "line 2: found duplicate key"),
        (_RULE + "owner: 2026-99-99\n", "line 3: '2026-99-99' cannot be read as timestamp"),
        (_RULE + "owner: !!bool maybe\n", "line 3: 'maybe' cannot be read as bool"),
        (_RULE + "owner: *nobody\n", "line 3: found undefined alias"),
        (_RULE + "owner: " + "[" * 5000 + "\n", f"line 3: .*more than {MAX_DEPTH} deep"),
        ('{"rules": ' + "[" * 5000 + "]" * 5000 + "}", f"line 1: .*more than {MAX_DEPTH} deep"),
        ('{"rules": ' + '{"a": ' * 5000 + "1" + "}" * 5001, f"line 1: .*more than {MAX_DEPTH} deep"),
        (_RULE + "owner:\n      " + "- " * 5000 + "\n", f"line 4: .*more than {MAX_DEPTH} deep"),
        (_LAUGHS + "rules:\n  - rule: *i\n", "line 4: aliases stand for more than 100,000 values"),
        (_LAUGHS + "rules: *i\n", "line 4: aliases stand for more than 100,000 values"),
        ("rules: &a\n  - *a\n", "line 1: an alias refers to the value that it is part of"),
        ("rules:\n  - rule: [a]\n", r"line 2: rule: a rule is written as text, not \['a'\]"),
        ("rules:\n  - rule: 5\n", "line 2: rule: a rule is written as text, not 5"),
        ("rules:\n  - {id: x, rule: 5}\n", "line 2: rule: a rule is written as text, not 5"),
        ("rules:\n  - rule: " + "a" * 200_000, "line 2: expected at most 100,000 characters"),
        ("mask: []\nrules: 5\n", "line 2: `rules` is a list"),
        ("rules: []\nversion: true\n", "line 2: version: .*not True"),
        ("rules: []\nversion: 1.0\n", "line 2: version: .*not 1.0"),
        ("rules: []\nmask: [5]\n", "line 2: mask.0: .*not 5"),
        ("rules: []\ncolour: 5\n", "line 2: unknown field 'colour'"),
        ("rules: []\n5: 6\n", "line 2: 5: Keys should be strings"),
        ("rules: []\nmask: [\ud800]\n", "line 2: the character '.ud800' is not allowed"),
    ],
    ids=_named,
)
def test_a_wrong_file_is_one_line_with_file_and_line_number(text, message):
    with pytest.raises(RuleError, match=f"^r.yml, {message}") as caught:
        RuleFile.parse(text, "r.yml")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_what_is_within_the_bounds_is_read():
    assert RuleFile.parse(_RULE + "tolerance: -0\n").entries[0].tolerance == 0
    assert RuleFile.parse(_RULE + "tolerance: 1\n").entries[0].tolerance == 1
    shared = "rules:\n  - &first {rule: a -> b, owner: &team ana}\n"
    shared += "  - {<<: *first, rule: b -> a}\n  - {rule: key(a), owner: *team}\n"
    assert [entry.owner for entry in RuleFile.parse(shared)] == ["ana", "ana", "ana"]
    assert RuleFile.parse(RuleFile.parse(shared).text()).entries == RuleFile.parse(shared).entries


_TAGS = ["set", "omap", "float", "int", "timestamp", "binary", "null", "bool", "str", "seq", "map", "pairs", "merge"]
_YAML_PIECES = [
    "\n", "[", "]", "{", "}", ",", ":", "'", '"', "|", ">", "#", "~", "=", "@", "`", "%", "  ", "- ", "? ", "&a ", "*a",
    "<<: ", "rules:", "rule: ", "a -> b", "id: ", "tolerance: ", "filter: ", "version: ", "mask: ", "1e400",
    "2026-01-01", "0x", "\t", "\x85", "\ufeff", "!x ", "!<", "---\n", "...\n", "%YAML 1.1\n",
    *(f"!!{tag} " for tag in _TAGS),
]  # fmt: skip
_YAML = st.lists(st.sampled_from(_YAML_PIECES), max_size=25).map("".join)


@given(text=st.one_of(_YAML, _YAML.map(lambda text: _RULE + text), st.text()))
@settings(max_examples=cases(1000))
def test_any_file_is_read_and_written_or_a_rule_error_in_one_line(text):
    try:
        file = RuleFile.parse(text, "r.yml")
    except RuleError as error:
        assert "\n" not in str(error) and str(error).startswith("r.yml")
        return
    assert RuleFile.parse(file.text(), "r.yml").entries == file.entries
