"""The rule file: YAML that people keep in version control.

Comments, order and layout survive a rewrite. `make schema` publishes its JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from holdfast.errors import HoldfastError, RuleError, shown
from holdfast.rules.grammar import parse, parse_filter
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Dc, Fd, Ind, Key, Order, Rule
from holdfast.table.schema import unknown_name
from holdfast.whole_file import replace_whole

Status = Literal["suggested", "accepted", "rejected", "retired"]
Severity = Literal["error", "warn", "info"]
Policy = Literal["equal", "distinct", "sql"]
_RESTORE = "correct it, or restore the file from version control or a backup"


class RuleEntry(BaseModel):
    """One rule with what people decided about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
            description="stable name; made from the rule where absent",
        ),
    ]
    rule: Annotated[str, Field(description="the rule's text, such as `zip -> city`")]
    severity: Severity = "error"
    status: Status = "accepted"
    owner: str | None = None
    description: str | None = None
    nulls: Annotated[Policy, Field(description="how nulls compare when the rule is checked")] = "sql"
    filter: Annotated[str | None, Field(description="only rows with this, such as `t.country = 'DE'`")] = None
    tolerance: Annotated[
        float,
        Field(ge=0, le=1, description="the share of pairs (rows, for rules about rows) that may violate it (g1)"),
    ] = 0.0

    @field_validator("rule")
    @classmethod
    def _readable(cls, text: str) -> str:
        parse(text)
        return text

    @field_validator("filter")
    @classmethod
    def _readable_filter(cls, text: str | None) -> str | None:
        if text is not None:
            parse_filter(text)
        return text

    @property
    def value(self) -> Rule:
        return parse(self.rule)

    @property
    def predicates(self) -> frozenset[Predicate]:
        """The filter as predicates; none where there is no filter."""
        return parse_filter(self.filter) if self.filter else frozenset()


def as_entry(rule: Rule | str | RuleEntry, nulls: str = "sql") -> RuleEntry:
    """A rule in any form as an entry; a bare rule gets its own id and the given null policy."""
    if isinstance(rule, RuleEntry):
        return rule if "nulls" in rule.model_fields_set else rule.model_copy(update={"nulls": nulls})
    if not isinstance(rule, str | Key | Fd | Ind | Order | Dc):
        raise RuleError(f"a rule is a text, a rule or an entry of a rule file, not {shown(rule)}")
    value = parse(rule) if isinstance(rule, str) else rule
    text = rule if isinstance(rule, str) else value.as_written
    return RuleEntry.model_validate({"id": value.id, "rule": text, "nulls": nulls})


class RuleFileModel(BaseModel):
    """A Holdfast rule file."""

    model_config = ConfigDict(extra="forbid", title="Holdfast rule file")

    version: Literal[1] = 1
    mask: Annotated[
        list[str], Field(description="columns whose values are not shown to people: `ssn` or `people.ssn`")
    ] = []
    rules: list[RuleEntry] = []


class RuleFile:
    """The rules of a file, by id.

    >>> file = RuleFile.parse("version: 1\\nrules:\\n  - rule: zip -> city  # checked nightly\\n    owner: ana\\n")
    >>> entry = file.entries[0]
    >>> file.update(entry.id, status="retired")
    >>> print(file.text(), end="")
    version: 1
    rules:
      - rule: zip -> city  # checked nightly
        owner: ana
        id: fd-1ea2fed4
        status: retired
    """

    def __init__(self, document: Any, place: str) -> None:
        self._document = document
        self._place = place
        self.entries = _entries(document, place)

    @property
    def mask(self) -> list[str]:
        """Columns whose values are not shown."""
        return list(self._document.get("mask") or [])

    def set_mask(self, columns: list[str]) -> None:
        _validated(self._document | {"mask": columns}, self._place)
        self._document["mask"] = columns

    @classmethod
    def empty(cls) -> RuleFile:
        return cls.parse("version: 1\nrules: []\n")

    @classmethod
    def parse(cls, text: str, place: str = "rule file") -> RuleFile:
        try:
            document = _yaml().load(text)
        except MarkedYAMLError as error:
            line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
            raise RuleError(f"{place}{line}: {_one_line(error.problem or error)}; {_RESTORE}") from None
        except (YAMLError, TypeError, ValueError) as error:
            position = getattr(error, "position", None)
            line = f", line {text.count(chr(10), 0, position) + 1}" if isinstance(position, int) else ""
            raise RuleError(f"{place}{line}: {_one_line(error)}; {_RESTORE}") from None
        return cls({} if document is None else document, place)

    @classmethod
    def load(cls, path: str | Path) -> RuleFile:
        try:
            data = Path(path).read_bytes()
            return cls.parse(data.decode(), str(path))
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise RuleError(f"{path}, line {line}: this is not UTF-8 text; {_RESTORE}") from None
        except OSError as error:
            raise RuleError(f"{path}: cannot be read: {error.strerror or error}") from error

    def __iter__(self) -> Iterator[RuleEntry]:
        return iter(self.entries)

    def __getitem__(self, id_or_text: str) -> RuleEntry:
        return self.entries[self._index(id_or_text)]

    def add(self, rule: Rule | str, **fields: Any) -> RuleEntry:
        """Appends a rule; one that is there already is an error, unless it gets an id of its own."""
        text = str(rule)
        (entry,) = _validated({"rules": [{"rule": text} | fields]}, self._place).rules
        if any(other.id == entry.id or (other.value == entry.value and "id" not in fields) for other in self.entries):
            raise RuleError(f"{self._place}: `{text}` is there already")
        if not self._document.get("rules"):
            self._document["rules"] = []
        self._document["rules"].append({"id": entry.id, "rule": text} | fields)
        self.entries = _entries(self._document, self._place)
        return entry

    def update(self, id_or_text: str, **fields: Any) -> None:
        """Changes fields of one rule and leaves everything else as it was written."""
        index = self._index(id_or_text)
        record = self._document["rules"][index]
        changed = {"id": self.entries[index].id} | fields
        _validated({"rules": [dict(record) | changed]}, self._place)
        record.update(changed)
        self.entries = _entries(self._document, self._place)

    def _index(self, id_or_text: str) -> int:
        for i, entry in enumerate(self.entries):
            if id_or_text in (entry.id, entry.rule, str(entry.value)):
                return i
        raise RuleError(f"{self._place}: there is no rule {shown(id_or_text)}")

    def place_of(self, id_or_text: str) -> str:
        """Where a rule stands: `rules.yml, line 12`."""
        return _where(self._document, self._index(id_or_text), self._place)

    def text(self) -> str:
        out = StringIO()
        _yaml().dump(self._document, out)
        return out.getvalue()

    def save(self, path: str | Path) -> None:
        """Writes the file as a whole or not at all, durably."""
        replace_whole(Path(path), self.text().encode())


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _entries(document: Any, place: str) -> list[RuleEntry]:
    entries = _validated(document, place).rules
    seen: dict[str, int] = {}
    for i, entry in enumerate(entries):
        if seen.setdefault(entry.id, i) != i:
            raise RuleError(f"{_where(document, i, place)}: the id {shown(entry.id)} is used twice")
    return entries


def _validated(document: Any, place: str) -> RuleFileModel:
    if not isinstance(document, dict):
        raise RuleError(f"{place}: a rule file is a mapping with `version` and `rules`")
    if not isinstance(document.get("rules") or [], list):
        raise RuleError(f"{place}: `rules` is a list")
    records = []
    for i, record in enumerate(document.get("rules") or []):
        try:
            records.append({"id": _default_id(record)} | dict(record))
        except (TypeError, ValueError, KeyError, HoldfastError) as error:
            raise RuleError(f"{_where(document, i, place)}: {error}") from None
    try:
        return RuleFileModel.model_validate({**document, "rules": records})
    except HoldfastError as error:
        raise RuleError(f"{place}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        at = [part for part in first["loc"] if part != "rules"]
        where = _where(document, at[0], place) if at and isinstance(at[0], int) else place
        field = ".".join(str(part) for part in at if not isinstance(part, int))
        if first["type"] == "extra_forbidden":
            known = RuleEntry.model_fields if at and isinstance(at[0], int) else RuleFileModel.model_fields
            raise RuleError(f"{where}: {unknown_name('field', field, list(known))}") from None
        raise RuleError(f"{where}: {field}: {first['msg']}, not {shown(first['input'])}") from None


def _default_id(record: Any) -> str:
    if not hasattr(record, "keys") or "rule" not in record:
        raise ValueError("a rule is a mapping with at least `rule`, its text")
    return parse(str(record["rule"])).id


def _where(document: Any, index: int, place: str) -> str:
    """`rules.yml, line 12`."""
    marks = getattr(document.get("rules"), "lc", None)
    if marks is None:
        return f"{place}, rule {index + 1}"
    return f"{place}, line {marks.item(index)[0] + 1}"


def json_schema() -> dict[str, Any]:
    """The published JSON Schema; `id` may be left out, it is then made from the rule."""
    schema = RuleFileModel.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$defs"]["RuleEntry"]["required"] = ["rule"]
    return schema


Rules = Iterable[Rule | str | RuleEntry] | RuleFile | RuleEntry | Rule | str | Path


def entries_of(rules: Rules) -> list[Rule | str | RuleEntry]:
    """The rules to check: of a rule file, those that people have not turned down."""
    if isinstance(rules, Path) or (isinstance(rules, str) and rules.endswith((".yml", ".yaml"))):
        rules = RuleFile.load(rules)
    if isinstance(rules, RuleFile):
        return [entry for entry in rules if entry.status in ("accepted", "suggested")]
    if isinstance(rules, str | RuleEntry) or not isinstance(rules, Iterable):
        return [rules]
    return list(rules)
