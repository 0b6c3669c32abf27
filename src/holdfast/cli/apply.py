"""`holdfast apply`: applies a change file to a rulebook."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import holdfast
from holdfast.cli.files import reading_of
from holdfast.cli.on_spark import feeds_of, is_for_spark_to_read, listed_pairs, session_of_book
from holdfast.cli.options import (
    VIOLATED,
    Delimiter,
    Directory,
    Encoding,
    FailOn,
    Form,
    Limit,
    Master,
    On,
    Remote,
    SafeCells,
    fails,
    listed,
)  # fmt: skip
from holdfast.cli.output import Format, Record, as_json, print_csv, print_table
from holdfast.cli.progress import announce, progress_bar
from holdfast.cli.row_names import hides_names, named_pairs
from holdfast.cli.terminal import Console
from holdfast.errors import HoldfastError, ReadError, discreet
from holdfast.pipeline.addresses import AlertAddresses
from holdfast.pipeline.landing import content_hash
from holdfast.rulebook import Rulebook
from holdfast.rules.rulefile import RuleEntry
from holdfast.table.change import read_feed
from holdfast.table.reading import Reading
from holdfast.workflow.alerts import Alert, alerts_of_batch
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import adopt
from holdfast.workflow.masking import Mask

_SHOWN = 5  # rules, reasons or examples that are listed for a batch


def apply_command(
    directory: Directory,
    changes: Annotated[str, typer.Argument(help="A change file: the columns of the table, and _change_type.")],
    batch: Annotated[str | None, typer.Option(help="The id of the batch, if the file has no _batch column.")] = None,
    source: Annotated[str, typer.Option(help="Who sends the batches. Each source has its own batch ids.")] = "default",
    quarantine: Annotated[
        bool, typer.Option(help="Quarantine bad rows and apply the others, instead of refusing the batch.")
    ] = False,
    format: Form = Format.TABLE,
    limit: Limit = None,
    fail_on: FailOn = "error",
    alert: Annotated[
        list[str] | None, typer.Option(help="Send alerts to this Apprise address (mailto://, slack://, json://, ...).")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Apply the file even if it was applied before.")] = False,
    safe_cells: SafeCells = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    on: On = "auto",
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Apply the batches of a change file and show which violations were added and removed.

    First, rules that were accepted or retired in rules.yml take effect. An alert is a new violation of an accepted
    rule: beyond the rule's tolerance, and not in the baseline. An alert that cannot be delivered is kept, and the next
    `apply --alert` with the same address delivers it. A file without batch ids is recognised by its content: to apply
    it twice, add --again.
    """
    fails(set(), fail_on)
    if format not in (Format.TABLE, Format.JSON, Format.CSV):
        raise HoldfastError(f"apply prints table, json or csv, not {format}")
    announce()
    alerts: list[Alert] = []
    records: list[Record] = []
    with (
        session_of_book(directory, on, master, remote),
        progress_bar("loading") as progress,
        Rulebook.open(directory, progress=progress) as book,
    ):
        _adopt_decisions(book)
        Baseline.of(book)  # report a damaged baseline before anything is applied
        addresses = AlertAddresses(book, directory, alert or ())
        alerts += addresses.deliver()  # alerts that earlier commands could not deliver
        with discreet(bool(book.masked)):
            content, batches = _read(changes, batch, book, reading_of(delimiter, encoding))
        how: Record = {"source": source, "on_error": "quarantine" if quarantine else "refuse"}
        for name, feeds in batches:
            if name is None and not again:
                _require_new(book, content, changes)
            offsets = content if name is None or name == batch else None  # a file with many batches may grow
            out = book.apply(feeds, _batch_id(name), offsets=offsets, **how)
            new_alerts = alerts_of_batch(book, out)
            record = _batch_record(book, out, listed(limit, Format.JSON))
            record["alerts"] = [alert.record() for alert in new_alerts]
            alerts += new_alerts
            records.append(record)
            if format is not Format.JSON:
                _print_batch(record, format, safe_cells)
        if format is Format.JSON:
            print(as_json(records[0] if len(records) == 1 else {"batches": records}))
        addresses.deliver()
        addresses.require_delivered()
    if fails({a.severity for a in alerts}, fail_on):
        raise typer.Exit(VIOLATED)


def _read(changes: str, batch: str | None, book: Any, reading: Reading) -> tuple[str, list[tuple[str | None, Any]]]:
    """What identifies the content of a change, and its batches."""
    if is_for_spark_to_read(changes, book):
        path = Path(changes)
        content = _content_of(path) if path.is_file() else json.dumps({"place": changes})
        return content, [(batch, feeds_of(changes, book))]
    return _content_of(Path(changes)), [*read_feed(changes, batch=batch, reading=reading)]


def _content_of(path: Path) -> str:
    """The hash that identifies the content of a change file, as offsets of a batch."""
    try:
        return json.dumps({"sha256": content_hash(path)})
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error.strerror}") from None


def _require_new(book: Rulebook, content: str, file: str) -> None:
    """Refuses a file whose content was applied already, from any source."""
    digest = json.loads(content)["sha256"]
    for record in book.records():
        if digest in (record.get("offsets") or ""):
            raise HoldfastError(
                f"{file}: this content was applied already, as batch {record['batch']} (version {record['version']}); "
                f"nothing was applied. To apply it once more: --again"
            )


def _adopt_decisions(book: Rulebook) -> None:
    """Makes the book check the rules that are accepted in rules.yml, and reports what changed."""
    before = {entry.id: entry.rule for entry in book.entries}
    if adopt(book) is None:
        return
    after = {entry.id: entry.rule for entry in book.entries}
    accepted = [after[id_] for id_ in after if id_ not in before]
    retired = [before[id_] for id_ in before if id_ not in after]
    parts = [f"{what}: {'; '.join(rules)}" for what, rules in (("accepted", accepted), ("retired", retired)) if rules]
    print(f"holdfast: rules.yml changed: {', '.join(parts) or 'fields of rules'}", file=sys.stderr)


def _batch_id(name: str | None) -> str | int | None:
    """A number if the id is one: numbers must grow from batch to batch, texts need not."""
    return int(name) if name is not None and re.fullmatch(r"-?[0-9]{1,18}", name) else name


def _batch_record(book: Any, out: holdfast.Outcome, limit: int) -> Record:
    """What a batch did, for JSON."""
    violations, mask = [], Mask.of(book)
    for entry in book.entries if not out.skipped else ():
        added, removed = out.violations.count_added(entry.id), out.violations.count_removed(entry.id)
        pairs = _pairs(book, out, entry, mask, limit)
        violations.append({"rule": entry.rule, "added": added, "removed": removed, **pairs})
    rules = {"added": out.rules.added.texts(), "removed": out.rules.removed.texts()}
    rows: Record = {"rows": out.rows, "quarantined": len(out.quarantined), "drift": len(out.drift)}
    bad_rows = [mask.quarantined(vars(bad)) for bad in out.quarantined[:_SHOWN]]
    rows["reasons"] = [f"{bad['place']}: {bad['reason']}" for bad in bad_rows]
    return {"batch": out.batch, "skipped": out.skipped, "rules": rules, "violations": violations, **rows}


def _pairs(book: Any, out: holdfast.Outcome, entry: RuleEntry, mask: Mask, limit: int) -> Record:
    """The first violations of a rule that a batch added and removed."""
    hidden = hides_names(book, entry, mask)
    if isinstance(book, Rulebook):
        delta = out.violations.of(entry.id)
        lists = (("added", delta.added), ("removed", delta.removed))
        return {f"pairs_{change}": named_pairs(some, hidden, limit) if some else [] for change, some in lists}
    counts = {"added": out.violations.count_added(entry.id), "removed": out.violations.count_removed(entry.id)}
    frames: dict[str, Any] = {"added": out.violations.added, "removed": out.violations.removed}
    return {
        f"pairs_{change}": listed_pairs(frames[change](entry.id), limit) if count and not hidden else []
        for change, count in counts.items()
    }


def _print_batch(record: Record, format: Format, safe_cells: bool) -> None:
    if format is Format.CSV:
        rows = [{"batch": record["batch"]} | v for v in record["violations"]]
        print_csv(rows, ["batch", "rule", "added", "removed"], safe_cells)
        return
    changed = [v for v in record["violations"] if v["added"] or v["removed"]]
    title = _batch_title(record)
    if changed:
        print_table(Console(), title, changed, ["rule", "added", "removed"])
    else:
        print(title)
    for reason in record["reasons"]:
        print(f"quarantined: {reason}")
    for alert in record["alerts"]:
        examples = "; ".join(" with ".join(map(str, pair)) for pair in alert["examples"][:_SHOWN])
        pairs = f": rows {examples}" if examples and not alert["groups"] else ""
        print(f"[{alert['severity']}] {alert['rule']}: {alert['message']}{pairs}")
        for group in alert["groups"]:
            print(f"  {group}")
    for change, texts in record["rules"].items():
        if texts:
            more = "" if len(texts) <= _SHOWN else f", and {len(texts) - _SHOWN:,} more"
            print(f"rules {change}: {'; '.join(texts[:_SHOWN])}{more}")


def _batch_title(record: Record) -> str:
    counts = record["rows"].items()
    rows = ", ".join(f"{table} +{n['inserted']:,} -{n['deleted']:,} ~{n['updated']:,}" for table, n in counts)
    state = "skipped: this batch was applied before" if record["skipped"] else f"{rows} rows"
    for what in ("quarantined", "drift"):
        state += f"; {what}: {record[what]} rows" if record[what] else ""
    return f"batch {record['batch']}: {state}"
