"""What people decided about the rules of a rulebook: the file `rules.yml` in its directory.

The file is the truth. Anyone may edit it, by hand or by `holdfast rules accept`; who writes the rulebook next checks
what is accepted in it. So a page can accept a rule while a stream has the right to write.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.discovery.rank import Ranked
from holdfast.errors import HoldfastError, RuleError, StoreError, shown
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import require_fits
from holdfast.rules.grammar import parse
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, RuleFile, as_entry
from holdfast.violations.look import Look
from holdfast.whole_file import open_lock

FILE = "rules.yml"
_LOCK = ".rules.lock"
ACCEPTED, REJECTED, RETIRED, SUGGESTED = "accepted", "rejected", "retired", "suggested"


class Decisions:
    """The rules of a file with what was decided about them; nothing is written before `save`."""

    def __init__(self, file: RuleFile, path: Path | None, nulls: str = "sql") -> None:
        """`nulls`: the null policy of rules that name none."""
        self._file, self._path, self._nulls = file, path, nulls

    @classmethod
    def of(cls, book: Rulebook) -> Decisions:
        """Those of a rulebook: its file, or, where there is none, what it checks."""
        path = None if book.path is None else book.path / FILE
        if path is not None and path.exists():
            return cls(RuleFile.load(path), path, book.rule_nulls)
        made = RuleFile.empty()
        for entry in book.entries:
            made.add(entry.rule, **_fields(entry, book.rule_nulls))
        return cls(made, path, book.rule_nulls)

    @property
    def entries(self) -> list[RuleEntry]:
        return [as_entry(entry, self._nulls) for entry in self._file.entries]

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values are not shown: `ssn`, or `people.ssn` for one table."""
        return frozenset(self._file.mask)

    def with_status(self, *status: str) -> list[RuleEntry]:
        return [entry for entry in self.entries if entry.status in status]

    def suggest(self, ranked: Iterable[Ranked], nulls: str) -> list[RuleEntry]:
        """Adds rules as suggestions; one that is in the file already, whatever was decided about it, never again."""
        known = {entry.value for entry in self._file.entries}
        fresh = [r for r in ranked if r.rule not in known]
        return [self._file.add(r.text, status=SUGGESTED, description=r.sentence, nulls=nulls) for r in fresh]

    def decide(self, rule: str, status: str, *, book: Rulebook | None = None, **fields: Any) -> RuleEntry:
        """Gives a rule a status, and severity, owner, tolerance or description. It goes by id or text; a rule that is
        not in the file, but fits the tables of the book, is added."""
        changed = {name: value for name, value in fields.items() if value is not None} | {"status": status}
        known = self.known(rule)
        if known is None:
            value = _found(rule, book)
            if book is not None:
                require_fits(value, book.schemas)
                if value in book.found().of(value.kind):  # it was found under the book's policy, and is checked so
                    changed.setdefault("nulls", book.discovery_nulls)
            return self._file.add(str(value) if book is None else book.text_of(value), **changed)
        self._file.update(known.id, **changed)
        return self._file[known.id]

    def known(self, rule: str) -> RuleEntry | None:
        """The entry of a rule, by id or text."""
        for entry in self.entries:
            if rule in (entry.id, entry.rule, str(entry.value)):
                return entry
        try:
            value = parse(rule)
        except RuleError:
            return None
        return next((entry for entry in self.entries if entry.value == value), None)

    def place_of(self, rule_id: str) -> str:
        """Where a rule stands: `rules.yml, line 12`."""
        return self._file.place_of(rule_id)

    def mask(self, columns: Iterable[str]) -> None:
        """Columns that are masked from now on."""
        self._file.set_mask(sorted(set(columns)))

    def save(self) -> None:
        assert self._path is not None
        self._file.save(self._path)


@contextmanager
def deciding(book: Rulebook) -> Iterator[Decisions]:
    """The decisions, to be changed: they are saved at the end, and nobody else changes them meanwhile."""
    if book.path is None:
        raise StoreError("a rulebook in memory, or in an object store, has no file for decisions")
    with open_lock(book.path / _LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        decisions = Decisions.of(book)
        yield decisions
        decisions.save()


def look_at(book: Rulebook, rule: str) -> Look:
    """The violations of a rule by id or text, as it was decided or found: with its null policy and its filter."""
    entry = Decisions.of(book).known(rule)
    if entry is not None:
        checked = any(entry.id == other.id and entry.rule == other.rule for other in book.entries)
        return book.look(entry.id) if checked else book.look_alone(entry.value, entry.nulls, entry.predicates)
    value = _found(rule, book)
    require_fits(value, book.schemas)
    return book.look_alone(value, book.discovery_nulls if value in book.found().of(value.kind) else book.rule_nulls)


def _found(rule: str, book: Rulebook | None) -> Rule:
    """A rule by its text, or by the id of one that the book has found."""
    for value in book.found() if book is not None else ():
        if value.id == rule:
            return value
    try:
        return parse(rule)
    except RuleError as error:
        raise RuleError(f"there is no rule with the id {shown(rule)}, and as a text: {error}") from None


def _fields(entry: RuleEntry, nulls: str | None = None) -> dict[str, Any]:
    """What is to be written of an entry, where `nulls` goes without saying."""
    made = entry.model_dump(exclude_defaults=True, exclude={"id", "rule", "nulls"}) | {"id": entry.id}
    said = "nulls" in entry.model_fields_set if nulls is None else entry.nulls != nulls
    return made | ({"nulls": entry.nulls} if said else {})


def write(directory: Path, file: RuleFile) -> None:
    """Makes the file of a new rulebook."""
    file.save(directory / FILE)


def file_of(rules: Sequence[Any], source: Path | None = None) -> RuleFile:
    """A rule file as it is, with more rules."""
    made = RuleFile.load(source) if source is not None else RuleFile.empty()
    for rule in rules:
        if isinstance(rule, RuleEntry):
            made.add(rule.rule, **_fields(rule))
        else:
            made.add(str(rule))
    return made


def decided_at(directory: Path) -> tuple[int, int]:
    """What tells whether the file is new: when it was written, and how long it is; zeros where there is none."""
    try:
        found = (directory / FILE).stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def adopt(book: Rulebook) -> int | None:
    """Lets a book check what is accepted in its file, no more and no less, and mask what is masked there, too. The
    version from which on it does; None where nothing is to be done. An error in the file refuses the whole. A mask that
    the file does not have any more stays: only `holdfast rules unmask` takes it away."""
    if book.path is None or not (book.path / FILE).exists():
        return None
    decisions = Decisions.of(book)
    if book.entries and not decisions.entries:
        raise HoldfastError(f"{book.path / FILE} has no rules any more; to retire all of them, give them that status")
    wanted = {entry.id: entry for entry in decisions.with_status(ACCEPTED)}
    checked = {entry.id: entry for entry in book.entries}
    new = [e for id_, e in wanted.items() if id_ not in checked or checked[id_].model_dump() != e.model_dump()]
    gone = [id_ for id_ in checked if id_ not in wanted]
    masked = book.masked | decisions.masked
    if not new and not gone and masked == book.masked:
        return None
    for entry in new:
        try:
            require_fits(entry.value, book.schemas)
        except RuleError as error:
            raise HoldfastError(f"{decisions.place_of(entry.id)}: {error}") from None
    return book.alter(rules=new, retire=gone, mask=None if masked == book.masked else masked)
