"""What people decided about the rules of a rulebook: the file `rules.yml` in its directory.

The file is the truth. Anyone may edit it, by hand or by `holdfast rules accept`; who writes the rulebook next checks
what is accepted in it. So a page can accept a rule while a stream has the right to write.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, RuleError, StoreError, shown
from holdfast.ranking.rank import Ranked
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import forms, require_fits, resolved
from holdfast.rules.grammar import parse
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, RuleFile, SameRule, as_entry, require_distinct
from holdfast.violations.look import Look
from holdfast.whole_file import open_lock

FILE = "rules.yml"
_LOCK = ".rules.lock"
_MAX_READS = 32  # files that are remembered
_TICK, _COARSE_TICK = 100_000_000, 2_000_000_000  # ns, more than the clocks of file systems advance by
ACCEPTED, REJECTED, RETIRED, SUGGESTED = "accepted", "rejected", "retired", "suggested"


class Decisions:
    """The rules of a file with what was decided about them; nothing is written before `save`."""

    def __init__(self, read: _Read, path: Path | None) -> None:
        """Of a file that was read; `shared` with others it is read again before the first change."""
        self._read, self._path = read, path

    @classmethod
    def of(cls, book: Rulebook) -> Decisions:
        """Those of a rulebook: its file, or, where there is none, what it checks. An unchanged file is read once."""
        path = None if book.path is None else book.path / FILE
        read = None if path is None else _remembered(path, book)
        return cls.afresh(book) if read is None else cls(read, path)

    @classmethod
    def afresh(cls, book: Rulebook) -> Decisions:
        """The same, to be changed: the file is always read."""
        path = None if book.path is None else book.path / FILE
        if path is not None and path.exists():
            return cls(_Read(RuleFile.load(path), book.rule_nulls, tuple(book.schemas)), path)
        made = RuleFile.empty()
        for entry in book.entries:
            made.add(entry.rule, **_fields(entry, book.rule_nulls))
        return cls(_Read(made, book.rule_nulls, tuple(book.schemas)), path)

    @property
    def entries(self) -> list[RuleEntry]:
        return list(self._read.entries)

    @property
    def rule_ids(self) -> frozenset[str]:
        """What discovery calls the rules that were decided about, whichever way their table is written."""
        return self._read.rule_ids

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values are not shown: `ssn`, or `people.ssn` for one table."""
        return frozenset(self._read.file.mask)

    def with_status(self, *status: str) -> list[RuleEntry]:
        return [entry for entry in self.entries if entry.status in status]

    def suggest(self, ranked: Iterable[Ranked], nulls: str) -> list[RuleEntry]:
        """Adds rules as suggestions; one that is in the file already, whatever was decided about it, never again."""
        file, tables = self._changed(), self._read.tables
        known = {resolved(entry.value, tables) for entry in file.entries}
        fresh = [r for r in ranked if resolved(r.rule, tables) not in known]
        return [file.add(r.text, status=SUGGESTED, description=r.sentence, nulls=nulls) for r in fresh]

    def decide(self, rule: str, status: str, *, book: Rulebook | None = None, **fields: Any) -> RuleEntry:
        """Gives a rule a status, and severity, owner, tolerance or description. It goes by id or text; a rule that is
        in the file keeps its id and null policy, one that is not, but fits the tables of the book, is added."""
        changed = {name: value for name, value in fields.items() if value is not None} | {"status": status}
        known = self.known(rule)
        if known is not None:
            file = self._changed()
            file.update(known.id, **changed)
            return file[known.id]
        value = _found(rule, book)
        if book is None:
            return self._changed().add(str(value), **changed)
        require_fits(value, book.schemas)
        found = found_as(book, value)
        if found is not None:  # it was found under the book's policy, and is checked so
            changed.setdefault("nulls", book.discovery_nulls)
        return self._changed().add(book.text_of(value if found is None else found), **changed)

    def known(self, rule: str) -> RuleEntry | None:
        """The entry of a rule, by id or text. Where there is one table, its name makes no difference."""
        read = self._read
        if rule in read.by_name:
            return read.by_name[rule]
        try:
            return read.by_rule.get(resolved(parse(rule), read.tables))
        except RuleError:
            return None

    def place_of(self, rule_id: str) -> str:
        """Where a rule stands: `rules.yml, line 12`."""
        return self._read.file.place_of(rule_id)

    def mask(self, columns: Iterable[str]) -> None:
        """Columns that are masked from now on."""
        self._changed().set_mask(sorted(set(columns)))

    def _changed(self) -> RuleFile:
        """The file, which is about to be changed: what was made of it is made again when it is asked for."""
        read = self._read
        file = RuleFile.load(self._path) if read.shared and self._path is not None else read.file
        self._read = _Read(file, read.nulls, read.tables)
        return file

    def save(self) -> None:
        assert self._path is not None
        self._read.file.save(self._path)


class _Read:
    """A rule file as it was read, with what is often asked of it. Nobody changes one that is `shared`."""

    def __init__(self, file: RuleFile, nulls: str, tables: tuple[str, ...], *, shared: bool = False) -> None:
        """`nulls`: the null policy of rules that name none."""
        self.file, self.nulls, self.tables, self.shared = file, nulls, tables, shared

    @cached_property
    def entries(self) -> tuple[RuleEntry, ...]:
        return tuple(as_entry(entry, self.nulls) for entry in self.file.entries)

    @cached_property
    def by_name(self) -> dict[str, RuleEntry]:
        """The entries by their texts, as written and as printed, and by their ids, which come first."""
        made: dict[str, RuleEntry] = {}
        for entry in reversed(self.entries):
            made |= {str(entry.value): entry, entry.rule: entry}
        return made | {entry.id: entry for entry in self.entries}

    @cached_property
    def by_rule(self) -> dict[Rule, RuleEntry]:
        return {resolved(entry.value, self.tables): entry for entry in reversed(self.entries)}

    @cached_property
    def rule_ids(self) -> frozenset[str]:
        return frozenset(form.id for entry in self.entries for form in forms(entry.value, self.tables))


_Stamp = tuple[int, ...]
_reads: OrderedDict[tuple[Path, str, tuple[str, ...]], tuple[_Stamp, _Read]] = OrderedDict()
_reads_lock = threading.Lock()


def _remembered(path: Path, book: Rulebook) -> _Read | None:
    """The file as it was read before, if it is still the same, or as it is read now; None where there is none."""
    now, stamp = time.time_ns(), _stamp(path)
    if stamp is None:
        return None
    key = (path.absolute(), book.rule_nulls, tuple(book.schemas))
    with _reads_lock:
        known = _reads.get(key)
    if known is not None and known[0] == stamp:
        return known[1]
    read = _Read(RuleFile.load(path), book.rule_nulls, key[2], shared=True)
    if _is_settled(stamp, now):
        with _reads_lock:
            _reads[key] = stamp, read
            _reads.move_to_end(key)
            while len(_reads) > _MAX_READS:
                _reads.popitem(last=False)
    return read


def _is_settled(stamp: _Stamp, now: int) -> bool:
    """Whether a later change will have another stamp: not so within one tick of the file system's clock."""
    return now - stamp[0] > (_TICK if stamp[0] % 1_000_000 else _COARSE_TICK)


def _stamp(path: Path) -> _Stamp | None:
    """What changes when a file does, its time of change first; None where there is no file. A save replaces the file,
    so that it has another inode."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


@contextmanager
def deciding(book: Rulebook) -> Iterator[Decisions]:
    """The decisions, to be changed: they are saved at the end, and nobody else changes them meanwhile."""
    if book.path is None:
        raise StoreError("a rulebook in memory, or in an object store, has no file for decisions")
    with open_lock(book.path / _LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        decisions = Decisions.afresh(book)
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
    return book.look_alone(value, book.rule_nulls if found_as(book, value) is None else book.discovery_nulls)


def found_as(book: Rulebook, rule: Rule) -> Rule | None:
    """The rule as discovery wrote it, where it was found to hold."""
    found = book.found().of(rule.kind)
    return next((form for form in forms(rule, book.schemas) if form in found), None)


def _found(rule: str, book: Rulebook | None) -> Rule:
    """A rule by its text, or by the id of one that the book has found."""
    try:
        return parse(rule)
    except RuleError as error:
        for value in book.found() if book is not None else ():
            if value.id == rule:
                return value
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
    """What tells whether the file is new: when it was changed, and which file it is; zeros where there is none."""
    stamp = _stamp(directory / FILE)
    return (0, 0) if stamp is None else (stamp[0], hash(stamp))


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
    try:
        require_distinct(wanted.values(), book.schemas)
    except SameRule as error:
        raise HoldfastError(f"{decisions.place_of(error.second.id)}: {error}") from None
    return book.alter(rules=new, retire=gone, mask=None if masked == book.masked else masked)
