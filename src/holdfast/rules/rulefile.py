"""The rule file: a YAML file with rules and decisions that people keep in version control.

Comments, order and layout survive a rewrite. `make schema` publishes the JSON Schema of the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from holdfast.errors import HoldfastError, ParseError, RuleError, shown
from holdfast.rules.bind import resolved
from holdfast.rules.grammar import parse, parse_filter
from holdfast.rules.nulls import Nulls
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Rule
from holdfast.rules.yaml_document import document_of, entry_place, field_place, has_comment, round_trip
from holdfast.table.schema import unknown_name
from holdfast.whole_file import replace_whole

Status = Literal["suggested", "accepted", "rejected", "retired"]
Severity = Literal["error", "warn", "info"]
NullsText = Literal["equal", "distinct", "sql"]  # `Nulls` as plain strings, for messages and YAML
_RESTORE = "correct it, or restore the file from version control or a backup"


class RuleEntry(BaseModel):
    """A rule, with the decisions of people about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
            description="stable name; by default made from the rule",
        ),
    ]
    rule: Annotated[str, Field(description="the rule's text, such as `zip -> city`")]
    severity: Severity = "error"
    status: Status = "accepted"
    owner: str | None = None
    description: str | None = None
    nulls: Annotated[NullsText, Field(description="how nulls compare when the rule is checked")] = "sql"
    filter: Annotated[str | None, Field(description="rows that the rule is about, such as `t.country = 'DE'`")] = None
    tolerance: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            strict=True,
            description="the share of pairs (of rows, for rules about single rows) that may violate the rule (g1)",
        ),
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
        """The rule as a value."""
        return parse(self.rule)

    @property
    def predicates(self) -> frozenset[Predicate]:
        """The filter as predicates; empty if there is no filter."""
        return parse_filter(self.filter) if self.filter else frozenset()


def as_entry(rule: Rule | str | RuleEntry, nulls: str = Nulls.SQL) -> RuleEntry:
    """A rule in any form as an entry, with an id from its text and the policy `nulls` if it has none of its own."""
    if isinstance(rule, RuleEntry):
        return rule if "nulls" in rule.model_fields_set else rule.model_copy(update={"nulls": str(nulls)})
    if not isinstance(rule, str | Rule):
        raise RuleError(f"a rule is a text, a rule or an entry of a rule file, not {shown(rule)}")
    value = parse(rule) if isinstance(rule, str) else rule
    text = rule if isinstance(rule, str) else value.as_written
    return RuleEntry.model_validate({"id": value.id, "rule": text, "nulls": nulls})


def _exact_version(value: object) -> object:
    """Refuses true and 1.0 as a version; in Python both equal 1."""
    if isinstance(value, bool | float):
        raise ValueError("Input should be 1")  # noqa: TRY004 (pydantic turns only ValueError into a message)
    return value


def require_distinct(entries: Iterable[RuleEntry], tables: Collection[str]) -> None:
    """Raises SameRule if two entries have the same rule, with or without the name of the only table.

    Entries with explicit ids, such as one rule with two filters, may share a rule.
    """
    first: dict[Rule, RuleEntry] = {}
    for entry in entries:
        if entry.id != entry.value.id:
            continue
        earlier = first.setdefault(resolved(entry.value, tables), entry)
        if earlier is not entry:
            raise SameRule(earlier, entry)


class SameRule(RuleError):
    """Two entries with the same rule."""

    def __init__(self, first: RuleEntry, second: RuleEntry) -> None:
        self.first, self.second = first, second
        super().__init__(
            f"`{second.rule}` is the same rule as `{first.rule}`, because there is only one table; remove one of them"
        )


class RuleFileModel(BaseModel):
    """A Holdfast rule file."""

    model_config = ConfigDict(extra="forbid", title="Holdfast rule file")

    version: Annotated[Literal[1], BeforeValidator(_exact_version)] = 1
    mask: Annotated[list[str], Field(description="columns whose values are never shown: `ssn` or `people.ssn`")] = []
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
        self._newline = "\n"
        self.entries = _entries(document, place)
        self._index_entries()

    def _index_entries(self) -> None:
        self._ids, self._values = {entry.id for entry in self.entries}, {entry.value for entry in self.entries}

    @property
    def mask(self) -> list[str]:
        """The masked columns."""
        return list(self._document.get("mask") or [])

    def set_mask(self, columns: list[str]) -> None:
        """Replaces the list of masked columns."""
        _validated(self._document | {"mask": columns}, self._place)
        self._document["mask"] = columns

    @classmethod
    def empty(cls) -> RuleFile:
        return cls.parse("version: 1\nrules: []\n")

    @classmethod
    def parse(cls, text: str, place: str = "rule file") -> RuleFile:
        try:
            document = document_of(text, place)
        except RuleError as error:
            raise RuleError(f"{error}; {_RESTORE}") from None
        return cls({} if document is None else document, place)

    @classmethod
    def load(cls, path: str | Path) -> RuleFile:
        try:
            data = Path(path).read_bytes()
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise RuleError(f"{path}, line {line}: this is not UTF-8 text; {_RESTORE}") from None
        except OSError as error:
            raise RuleError(f"{path}: cannot be read: {error.strerror or error}") from error
        file = cls.parse(text.replace("\r\n", "\n"), str(path))
        file._newline = "\r\n" if "\r\n" in text else "\n"
        return file

    def __iter__(self) -> Iterator[RuleEntry]:
        return iter(self.entries)

    def __getitem__(self, id_or_text: str) -> RuleEntry:
        return self.entries[self._index(id_or_text)]

    def add(self, rule: Rule | str, **fields: Any) -> RuleEntry:
        """Appends a rule. A rule that the file already has is an error, unless `fields` has another id."""
        text = str(rule)
        (entry,) = _validated({"rules": [{"rule": text} | fields]}, self._place).rules
        if entry.id in self._ids or ("id" not in fields and entry.value in self._values):
            raise RuleError(f"{self._place}: `{text}` is there already")
        if not self._document.get("rules"):
            self._document["rules"] = []
        self._document["rules"].append({"id": entry.id, "rule": text} | fields)
        self.entries.append(entry)
        self._ids.add(entry.id)
        self._values.add(entry.value)
        return entry

    def update(self, id_or_text: str, **fields: Any) -> None:
        """Changes fields of one rule and keeps everything else as it was written."""
        index = self._index(id_or_text)
        record = self._document["rules"][index]
        changed = {"id": self.entries[index].id} | fields
        (entry,) = _validated({"rules": [dict(record) | changed]}, self._place).rules
        if any(other.id == entry.id for i, other in enumerate(self.entries) if i != index):
            raise RuleError(f"{self._place}: the id {shown(entry.id)} is used twice")
        record.update(changed)
        self.entries[index] = entry
        self._index_entries()

    def remove(self, id_or_text: str) -> None:
        """Takes a rule out of the file."""
        index = self._index(id_or_text)
        del self._document["rules"][index]
        del self.entries[index]
        self._index_entries()

    def arrange(self, ids: Sequence[str]) -> None:
        """Puts these rules in this order, in the places that they have now; all others stay where they are."""
        records, entries = self._document["rules"], dict(zip((e.id for e in self.entries), self.entries, strict=True))
        places = [self._index(id_) for id_ in ids]
        by_id = {id_: records[place] for id_, place in zip(ids, places, strict=True)}
        for place, id_ in zip(sorted(places), ids, strict=True):
            records[place], self.entries[place] = by_id[id_], entries[id_]

    def has_comment(self, id_or_text: str) -> bool:
        """Whether somebody wrote a comment in or beside a rule."""
        return has_comment(self._document, "rules", self._index(id_or_text))

    def _index(self, id_or_text: str) -> int:
        for i, entry in enumerate(self.entries):
            if id_or_text in (entry.id, entry.rule, str(entry.value)):
                return i
        raise RuleError(f"{self._place}: there is no rule {shown(id_or_text)}")

    def place_of(self, id_or_text: str) -> str:
        """The location of a rule: `rules.yml, line 12`."""
        return entry_place(self._document, self._index(id_or_text), self._place)

    def text(self) -> str:
        """The file as YAML text."""
        out = StringIO()
        round_trip().dump(self._document, out)
        return out.getvalue()

    def save(self, path: str | Path) -> None:
        """Writes the file, atomically and durably, with the line ends that it had."""
        replace_whole(Path(path), self.text().replace("\n", self._newline).encode())


def _entries(document: Any, place: str) -> list[RuleEntry]:
    entries = _validated(document, place).rules
    first: dict[str, int] = {}
    for i, entry in enumerate(entries):
        if first.setdefault(entry.id, i) != i:
            raise RuleError(f"{entry_place(document, i, place)}: the id {shown(entry.id)} is used twice")
    return entries


def _validated(document: Any, place: str) -> RuleFileModel:
    if not isinstance(document, dict):
        raise RuleError(f"{place}: a rule file is a mapping with `version` and `rules`")
    records = document.get("rules")
    if not isinstance(records, list | None):
        raise RuleError(f"{field_place(document, 'rules', place)}: `rules` is a list")
    entries = []
    for i, record in enumerate(records or []):
        try:
            entries.append(_entry(record))
        except HoldfastError as error:
            raise RuleError(f"{entry_place(document, i, place)}: {_in_one_line(error)}") from None
    try:
        head = RuleFileModel.model_validate({**document, "rules": []})
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        raise RuleError(f"{field_place(document, field, place)}: {_problem(error, RuleFileModel)}") from None
    return head.model_copy(update={"rules": entries})


def _entry(record: Any) -> RuleEntry:
    """One rule of a file, with its id or one made from its text."""
    if not isinstance(record, dict) or "rule" not in record:
        raise RuleError("a rule is a mapping with at least `rule`, its text")
    fields = dict(record)
    if not isinstance(fields["rule"], str):
        raise RuleError(f"rule: a rule is written as text, not {shown(fields['rule'])}")
    fields.setdefault("id", parse(fields["rule"]).id)
    try:
        return RuleEntry.model_validate(fields)
    except ValidationError as error:
        raise RuleError(_problem(error, RuleEntry)) from None


def _problem(error: ValidationError, model: type[BaseModel]) -> str:
    """The first problem that the model found."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return unknown_name("field", field, list(model.model_fields))
    message = first["msg"].removeprefix("Value error, ")
    return f"{field}: {message}, not {shown(first['input'])}"


def _in_one_line(error: HoldfastError) -> str:
    return error.in_one_line if isinstance(error, ParseError) else str(error)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file. `id` is optional there, because it can be made from the rule."""
    schema = RuleFileModel.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$defs"]["RuleEntry"]["required"] = ["rule"]
    return schema


Rules = Iterable[Rule | str | RuleEntry] | RuleFile | RuleEntry | Rule | str | Path


def entries_of(rules: Rules) -> list[Rule | str | RuleEntry]:
    """The rules to check; of a rule file, the accepted and suggested ones."""
    if isinstance(rules, Path) or (isinstance(rules, str) and rules.endswith((".yml", ".yaml"))):
        rules = RuleFile.load(rules)
    if isinstance(rules, RuleFile):
        return [entry for entry in rules if entry.status in ("accepted", "suggested")]
    if isinstance(rules, str | RuleEntry) or not isinstance(rules, Iterable):
        return [rules]
    return list(rules)
