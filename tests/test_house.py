"""The house: sizes, names and arrows that keep the code easy to find one's way in."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import holdfast as hf

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "holdfast"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_LINES, MAX_FUNCTION, MAX_PARAMETERS = 350, 60, 9


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def functions() -> typing.Iterator[tuple[str, ast.FunctionDef]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield name_of(path), node


def test_no_module_is_long():
    long = {name_of(p): n for p in MODULES if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long


def test_no_function_is_long():
    """Docstrings do not count: they are there to be read."""
    long = []
    for where, node in functions():
        first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
        if (node.end_lineno or 0) - first.lineno + 1 > MAX_FUNCTION:
            long.append((where, node.name))
    assert not long


def test_no_signature_is_long():
    """Outside the command line, where every option is a parameter."""
    long = []
    for where, node in functions():
        arguments = node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        if count > MAX_PARAMETERS and not where.startswith("cli/"):
            long.append((where, node.name, count))
    assert not long


def test_apply_reads_like_the_list_in_the_architecture():
    apply = next(node for where, node in functions() if where == "rulebook/book.py" and node.name == "apply")
    body = apply.body[1:]  # without the docstring
    assert body[-1].end_lineno - body[0].lineno + 1 <= 15


def test_a_public_class_name_names_one_thing():
    names = Counter(
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, times in names.items() if times > 1]


def test_a_limit_has_one_value():
    """A constant `MAX_*` that modules share a name for would have several values."""
    names = Counter(
        target.id
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.startswith("MAX_")
    )
    assert not [name for name, times in names.items() if times > 1]


# --- what is public ---------------------------------------------------------------------------------------------


def public_callables() -> typing.Iterator[tuple[str, typing.Any]]:
    for name in hf.__all__:
        thing = getattr(hf, name)
        if inspect.isclass(thing):
            for member, value in inspect.getmembers(thing):
                value = value.fget if isinstance(value, property) else value
                is_ours = inspect.isfunction(value) and value.__module__.startswith("holdfast")
                if is_ours and not member.startswith("_") and not value.__name__.startswith("_"):
                    yield f"{name}.{member}", value
        elif inspect.isfunction(thing):
            yield name, thing


def classes_in(annotation: typing.Any) -> typing.Iterator[type]:
    if inspect.isclass(annotation) and not typing.get_args(annotation):
        yield annotation
    for part in typing.get_args(annotation):
        yield from classes_in(part)


INTERNAL = {
    "Compare",
    "IsNull",
    "Miscalculated",
    "SparkFound",
    "RowChange",
    "EncodedTables",
    "RuleBlock",
    "Part",
    "Budget",
    "Listed",
    "Engine",
}


@pytest.mark.parametrize("name", dict(public_callables()))
def test_what_is_returned_is_exported_and_documented(name):
    function = dict(public_callables())[name]
    assert inspect.getdoc(function) or function.__name__ in ("version", "schemas"), f"{name} has no docstring"
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # Spark's types are imported for type checkers only
        return
    for kind in classes_in(hints.get("return")):
        if kind.__module__.startswith("holdfast") and kind.__name__ not in INTERNAL:
            assert kind.__name__ in hf.__all__, f"{name} returns {kind.__name__}"


def test_a_list_of_records_is_a_table():
    records = [{"id": 1, "zip": "1"}, {"id": 2, "zip": None}]
    assert hf.discover(records, ("key",)).texts() == hf.discover(pa.Table.from_pylist(records), ("key",)).texts()
    assert hf.check({"people": records}, ["people: key(id)"]).ok
    with pytest.raises(hf.ReadError, match="a list of at least one mapping"):
        hf.discover([])


def test_a_profile_prints_the_rules_worth_reading():
    rules = hf.discover(
        pa.table({"id": range(8), "zip": [1, 1, 2, 2, 3, 3, 4, 4], "city": [*"aabbccdd"]}), ("key", "fd")
    )
    assert "key(id)" in str(rules) and "worth reading" in str(rules).splitlines()[0]


def test_results_say_what_they_are():
    people = pa.table({"zip": ["1", "1", "2"], "city": ["x", "y", "z"]})
    found = hf.check(people, ["zip -> city"])
    assert not found.ok and found.to_pandas()["violations"].tolist() == [2]
    book = hf.Rulebook.create(None, people, rules=["zip -> city"], kinds=("key",))
    assert repr(book) == "<Rulebook: in memory, version 0; data (3 rows); 1 checked rules; keeps key>"
    out = book.apply(hf.Change(inserts=[{"zip": "2", "city": "q"}]))
    expected = "<Outcome: version 1, batch 1; data: 1 inserted; violations: +2 -0; rules: +0 -0>"
    assert repr(out) == expected and out.violations.count_added("zip -> city") == 2 == out.violations.count_added()


def test_search_options_are_one_value():
    people = pa.table({"id": [1, 2, 3], "zip": [1, 1, 2]})
    search = hf.SearchOptions(kinds=("key", "fd"), max_size=1)
    assert hf.discover(people, search=search) == hf.discover(people, ("key", "fd"), max_size=1)
    book = hf.Rulebook.create(None, people, search=search)
    assert book.found() == hf.Rulebook.create(None, people, kinds=("key", "fd"), max_size=1).found()
    with pytest.raises(hf.HoldfastError, match="max_error and search="):
        hf.discover(people, search=search, max_error=0.1)
    for function in (hf.discover, hf.foreign_keys, hf.row_rules, lambda data, **x: hf.Rulebook.create(None, data, **x)):
        with pytest.raises(TypeError, match="unknown keyword argument 'colunms'; did you mean 'columns'"):
            function(people, colunms="id")
    with pytest.raises(TypeError, match="unknown keyword argument 'max_eror'; did you mean 'max_error'"):
        hf.discover(people, max_eror=0.1)


# --- the glossary and the picture ---------------------------------------------------------------------------------


def test_what_the_glossary_names_exists():
    code = "\n".join(path.read_text() for path in MODULES)
    page = (ROOT / "docs" / "glossary.md").read_text()
    for row in re.findall(r"^\|[^|]+\|[^|]+\|([^|]+)\|$", page, flags=re.M):
        for name in re.findall(r"`([A-Za-z_.]+)(?:[:(=][^`]*)?`", row):
            word = name.split(".")[-1]
            assert re.search(rf"\b{re.escape(word)}\b", code) or (SOURCE / name).exists(), f"{name} is not in the code"


PAGE = (ROOT / "docs" / "architecture.md").read_text()
AT_THE_BOTTOM = ("arrays", "java", "places", "whole_file", "plain_text", "html_table")  # drawn with `errors`
LEFT_OUT = ("__init__", "warm")  # they import everything


def room_of(parts: tuple[str, ...]) -> str:
    return "errors" if parts[0] in AT_THE_BOTTOM else parts[0]


def imports_between_rooms() -> set[tuple[str, str]]:
    """(what is imported, what imports it)."""
    arrows = set()
    for path in MODULES:
        importer = room_of(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
                module = tuple((node.module or "").split(".")[1:]) or (node.names[0].name,)
                arrows.add((room_of(module), importer))
    return {(a, b) for a, b in arrows if a != b and not {a, b} & {*LEFT_OUT}}


def test_the_picture_of_the_rooms_is_true():
    """Each drawn arrow is an import, and each import runs along drawn arrows."""
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", PAGE, flags=re.M))
    real = imports_between_rooms()
    assert drawn <= real, drawn - real
    above: dict[str, set[str]] = {}
    for low, high in drawn:
        above.setdefault(low, set()).add(high)

    def reachable(room: str) -> set[str]:
        return {room}.union(*(reachable(high) for high in above.get(room, ())))

    assert not [(low, high) for low, high in real if high not in reachable(low)]


def test_every_module_has_its_place_in_the_architecture():
    """Room by room: each module is named, or its package is as a whole; each named one exists."""
    table = PAGE[PAGE.index("## Room by room") :]
    named, whole = set(), set()
    for text in re.findall(r"`([a-z_]+/[a-z_/, *]*)`", table):
        folder, _, names = text.rpartition("/") if not text.endswith("/") else (text[:-1], "", "")
        for name in (part.strip() for part in names.split(",")):
            (named.add(f"{folder}/{name}") if name and "*" not in name else whole.add(folder))
    modules = {name_of(p).removesuffix(".py") for p in MODULES if p.stem != "__init__"}
    tests = {n for n in named if n.startswith("tests/")}
    assert not {n for n in named - tests if n not in modules and not n.startswith("kernels/")}
    homeless = {m for m in modules if "/" in m and m not in named and not any(m.startswith(w + "/") for w in whole)}
    assert not {m for m in homeless if not m.startswith("kernels/") and not m.startswith("cli/")}
