"""Decisions about the rules of a rulebook, in the file `rules.yml` of its directory.

The file is authoritative. It can be edited by hand or with `holdfast rules accept`. The next batch checks the rules
that are accepted in it, so a web page can accept a rule while a stream has the rulebook open for writing.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_MAX_READS = 32  # parsed files that are cached
_TICK, _COARSE_TICK = 100_000_000, 2_000_000_000  # ns, longer than a tick of a file system's clock
ACCEPTED, REJECTED, RETIRED, SUGGESTED = "accepted", "rejected", "retired", "suggested"


class Decisions:
    """The rules of a file with their status. Nothing is written before `save`."""

    def __init__(self, read: _Read, path: Path | None) -> None:
        """A file that is `shared` with others is read again before the first change."""
        self._read, self._path = read, path

    @classmethod
    def of(cls, book: Rulebook) -> Decisions:
        """The decisions of a rulebook: its file, or the rules that it checks if it has none. Caches unchanged files."""
        path = None if book.path is None else book.path / FILE
        read = None if path is None else _remembered(path, book)
        return cls.afresh(book) if read is None else cls(read, path)

    @classmethod
    def afresh(cls, book: Rulebook) -> Decisions:
        """The decisions of a rulebook, for a change: always reads the file."""
        path = None if book.path is None else book.path / FILE
        if path is not None and path.exists():
            return cls(_Read(RuleFile.load(path), book.rule_nulls, tuple(book.schemas)), path)
        file = RuleFile.empty()
        for entry in book.entries:
            file.add(entry.rule, **_fields(entry, book.rule_nulls))
        return cls(_Read(file, book.rule_nulls, tuple(book.schemas)), path)

    @property
    def entries(self) -> list[RuleEntry]:
        return list(self._read.entries)

    @property
    def rule_ids(self) -> frozenset[str]:
        """The ids that discovery gives to these rules, however their table is written."""
        return self._read.rule_ids

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values are not shown: `ssn`, or `people.ssn` for one table."""
        return frozenset(self._read.file.mask)

    def with_status(self, *status: str) -> list[RuleEntry]:
        return [entry for entry in self.entries if entry.status in status]

    def suggest(self, ranked: Iterable[Ranked], nulls: str) -> list[RuleEntry]:
        """Adds rules as suggestions, except rules that are in the file already, with any status."""
        new = [one for one in ranked if self._named(one.rule) is None]
        file = self._changed()
        return [file.add(r.text, status=SUGGESTED, description=described(r), nulls=nulls) for r in new]

    def suggested_again(
        self, ranked: Sequence[Ranked], holds: Callable[[RuleEntry], bool], is_ours: Callable[[RuleEntry], bool]
    ) -> list[str]:
        """Describes suggestions anew, takes those out that do not hold any more, and puts the others in the order of
        `ranked`; those that are not among `ranked` follow. What a person wrote a comment or field into, or described
        in other words (not `is_ours`), stays as it is. Returns the texts of the rules that were taken out. O(rules)."""
        file = self._changed()
        free = [
            entry
            for entry in file.entries
            if _is_untouched(entry) and is_ours(entry) and not file.has_comment(entry.id)
        ]
        gone = [entry for entry in free if not holds(entry)]
        places = {resolved(one.rule, self._read.tables): place for place, one in enumerate(ranked)}
        kept = {entry.id: resolved(entry.value, self._read.tables) for entry in free if entry not in gone}
        for id_, rule in kept.items():
            if rule in places:
                file.update(id_, description=described(ranked[places[rule]]))
        file.arrange(sorted(kept, key=lambda id_: places.get(kept[id_], len(places))))
        for entry in gone:
            file.remove(entry.id)
        return [entry.rule for entry in gone]

    def forget(self, rule_id: str) -> None:
        """Takes a rule out of the file, as if nobody had decided about it."""
        self._changed().remove(rule_id)

    def decide(self, rule: str, status: str, *, book: Rulebook | None = None, **fields: Any) -> RuleEntry:
        """Gives a rule, by id or text, a status, and perhaps severity, owner, tolerance or description.

        A rule in the file keeps its id and null policy. A new rule is added if it fits the tables of the book.
        """
        changes = {name: value for name, value in fields.items() if value is not None} | {"status": status}
        entry = self.known(rule)
        if entry is not None:
            file = self._changed()
            file.update(entry.id, **changes)
            return file[entry.id]
        value = _rule_of(rule, book)
        if book is None:
            return self._changed().add(str(value), **changes)
        require_fits(value, book.schemas)
        found = found_as(book, value)
        if found is not None:  # check it with the null policy under which it was found
            changes.setdefault("nulls", book.discovery_nulls)
        return self._changed().add(book.text_of(value if found is None else found), **changes)

    def known(self, rule: str) -> RuleEntry | None:
        """The entry of a rule, by id or text. With a single table, its name may be left out."""
        if rule in self._read.by_name:
            return self._read.by_name[rule]
        try:
            return self._named(parse(rule))
        except RuleError:
            return None

    def _named(self, rule: Rule) -> RuleEntry | None:
        return self._read.by_rule.get(resolved(rule, self._read.tables))

    def place_of(self, rule_id: str) -> str:
        """The location of a rule: `rules.yml, line 12`."""
        return self._read.file.place_of(rule_id)

    def mask(self, columns: Iterable[str]) -> None:
        """Sets the masked columns."""
        self._changed().set_mask(sorted(set(columns)))

    def _changed(self) -> RuleFile:
        """The file, for a change. Drops what was computed from it."""
        read = self._read
        file = RuleFile.load(self._path) if read.shared and self._path is not None else read.file
        self._read = _Read(file, read.nulls, read.tables)
        return file

    def save(self) -> None:
        assert self._path is not None
        self._read.file.save(self._path)


class _Read:
    """A parsed rule file with cached lookups. A `shared` one is never changed."""

    def __init__(self, file: RuleFile, nulls: str, tables: tuple[str, ...], *, shared: bool = False) -> None:
        """`nulls`: the null policy of rules that name none."""
        self.file, self.nulls, self.tables, self.shared = file, nulls, tables, shared

    @cached_property
    def entries(self) -> tuple[RuleEntry, ...]:
        return tuple(as_entry(entry, self.nulls) for entry in self.file.entries)

    @cached_property
    def by_name(self) -> dict[str, RuleEntry]:
        """The entries by id, by text as written, and by canonical text. Ids take precedence."""
        by_text: dict[str, RuleEntry] = {}
        for entry in reversed(self.entries):
            by_text |= {str(entry.value): entry, entry.rule: entry}
        return by_text | {entry.id: entry for entry in self.entries}

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
    """The parsed file, from the cache if the file is unchanged; None if there is no file."""
    now, stamp = time.time_ns(), _stamp(path)
    if stamp is None:
        return None
    key = (path.absolute(), book.rule_nulls, tuple(book.schemas))
    with _reads_lock:
        cached = _reads.get(key)
    if cached is not None and cached[0] == stamp:
        return cached[1]
    read = _Read(RuleFile.load(path), book.rule_nulls, key[2], shared=True)
    if _is_settled(stamp, now):
        with _reads_lock:
            _reads[key] = stamp, read
            _reads.move_to_end(key)
            while len(_reads) > _MAX_READS:
                _reads.popitem(last=False)
    return read


def _is_settled(stamp: _Stamp, now: int) -> bool:
    """Whether any later change gets another stamp: not within one tick of the file system's clock."""
    return now - stamp[0] > (_TICK if stamp[0] % 1_000_000 else _COARSE_TICK)


def _stamp(path: Path) -> _Stamp | None:
    """Values that change with a file, its change time first; None if there is no file. A save gives a new inode."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def described(ranked: Ranked) -> str:
    """A rule in words, and what it survived."""
    return " ".join((ranked.sentence, *([f"({ranked.survived})"] if ranked.survived else [])))


def _is_untouched(entry: RuleEntry) -> bool:
    """Whether nobody has decided about a suggestion or added a field to it."""
    return entry.status == SUGGESTED and not entry.model_fields_set - {"id", "rule", "status", "description", "nulls"}


@contextmanager
def deciding(book: Rulebook) -> Iterator[Decisions]:
    """The decisions, locked for a change and saved at the end."""
    if book.path is None:
        raise StoreError("a rulebook in memory, or in an object store, has no file for decisions")
    with open_lock(book.path / _LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        decisions = Decisions.afresh(book)
        yield decisions
        decisions.save()


def look_at(book: Rulebook, rule: str) -> Look:
    """The violations of a rule, by id or text, with the null policy and filter of the decision or of discovery."""
    entry = Decisions.of(book).known(rule)
    if entry is not None:
        is_checked = any(entry.id == checked.id and entry.rule == checked.rule for checked in book.entries)
        return book.look(entry.id) if is_checked else book.look_alone(entry.value, entry.nulls, entry.predicates)
    value = _rule_of(rule, book)
    require_fits(value, book.schemas)
    return book.look_alone(value, book.rule_nulls if found_as(book, value) is None else book.discovery_nulls)


def found_as(book: Rulebook, rule: Rule) -> Rule | None:
    """The rule as discovery found it; None if it did not."""
    found = book.found().of(rule.kind)
    return next((form for form in forms(rule, book.schemas) if form in found), None)


def _rule_of(rule: str, book: Rulebook | None) -> Rule:
    """The rule with this text, or the rule with this id that was found or is worth reading."""
    try:
        return parse(rule)
    except RuleError as error:
        for value in _known_rules(book):
            if value.id == rule:
                return value
        raise RuleError(f"there is no rule with the id {shown(rule)}, and as a text: {error}") from None


def _known_rules(book: Rulebook | None) -> Iterator[Rule]:
    """The rules that were found, then those worth reading, which take longer."""
    if book is not None:
        yield from book.found()
        yield from (ranked.rule for ranked in book.best())


def _fields(entry: RuleEntry, nulls: str | None = None) -> dict[str, Any]:
    """The fields of an entry to write. `nulls`: the default null policy, which is left out."""
    fields = entry.model_dump(exclude_defaults=True, exclude={"id", "rule", "nulls"}) | {"id": entry.id}
    has_policy = "nulls" in entry.model_fields_set if nulls is None else entry.nulls != nulls
    return fields | ({"nulls": entry.nulls} if has_policy else {})


def write(directory: Path, file: RuleFile) -> None:
    """Writes the file of a new rulebook."""
    file.save(directory / FILE)


def file_of(rules: Sequence[Any], source: Path | None = None) -> RuleFile:
    """A rule file (empty without `source`) with more rules."""
    file = RuleFile.load(source) if source is not None else RuleFile.empty()
    for rule in rules:
        if isinstance(rule, RuleEntry):
            file.add(rule.rule, **_fields(rule))
        else:
            file.add(str(rule))
    return file


def decided_at(directory: Path) -> tuple[int, int]:
    """A value that changes with the file: its change time and a hash; zeros if there is no file."""
    stamp = _stamp(directory / FILE)
    return (0, 0) if stamp is None else (stamp[0], hash(stamp))


def adopt(book: Rulebook) -> int | None:
    """Makes a book check exactly the rules that are accepted in its file, and mask the columns that are masked there.

    Returns the version that does so; None if nothing changed. An error in the file refuses the whole file. Removing a
    mask from the file does not unmask the column: only `holdfast rules unmask` does.
    """
    if book.path is None or not (book.path / FILE).exists():
        return None
    decisions = Decisions.of(book)
    if book.entries and not decisions.entries:
        raise HoldfastError(
            f"{book.path / FILE} has no rules any more; to retire all rules, give them the status retired"
        )
    wanted = {entry.id: entry for entry in decisions.with_status(ACCEPTED)}
    checked = {entry.id: entry for entry in book.entries}
    new = [e for id_, e in wanted.items() if id_ not in checked or checked[id_].model_dump() != e.model_dump()]
    retired = [id_ for id_ in checked if id_ not in wanted]
    masked = book.masked | decisions.masked
    if not new and not retired and masked == book.masked:
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
    return book.alter(rules=new, retire=retired, mask=None if masked == book.masked else masked)
