"""The follower of a pipeline: applies its batches to the rulebook, and delivers each version to the sinks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import ChangeRefused, HoldfastError, ReadError, SchemaError, ValueRefused, discreet
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.delivery import Delivery
from holdfast.pipeline.sources import Batch
from holdfast.rulebook import Rulebook
from holdfast.table.change import Feed
from holdfast.table.effect import Bad
from holdfast.table.read import schema_of
from holdfast.workflow.decisions import adopt, decided_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("holdfast")
_BAD_CONTENT = (ReadError, SchemaError, ValueRefused, ChangeRefused)  # errors that the content of a batch causes


class Follower:
    """A rulebook that applies the batches of a pipeline and delivers its versions to the sinks."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession | None) -> None:
        """Spark may be None if neither the rows nor a sink need it."""
        self.pipeline = pipeline
        self.book = Rulebook.open(pipeline.book, rule_budget=pipeline.rule_budget)
        if not isinstance(self.book, Rulebook):
            self.book.run_in(spark)
        self.book.hold()
        self.catch_up()
        self._adopted: tuple[int, int] | None = None  # the state of the decisions file when it was last adopted
        self.delivery = Delivery.of(pipeline, spark)
        self.book.needed_from = self.delivery.needed_from
        self.delivery.deliver(self.book)

    def take(self, batch: Batch) -> None:
        """Applies a batch, unless it was applied already, and delivers the new version.

        A batch whose content cannot be applied stops the stream; with `on_error: quarantine`, the whole batch is
        quarantined instead.
        """
        book, quarantine = self.book, self.pipeline.on_error == "quarantine"
        self._adopt_decisions()
        if not book.knows(self.pipeline.name, batch.id, batch.offsets):
            try:
                self._apply(batch, quarantine)
            except _BAD_CONTENT as error:
                if not quarantine:
                    raise
                reason = str(error).removeprefix(f"{batch.place}: ")
                log.warning("quarantined as a whole: %s: %s", batch.place, reason)
                self._publish(batch, [], [Bad.unread(batch.place, reason)])
        self.delivery.deliver(book)
        book.forget()

    def _apply(self, batch: Batch, quarantine: bool) -> None:
        if batch.frames is not None and not isinstance(self.book, Rulebook):
            self._publish(batch, batch.frames(), [])
            return
        with discreet(bool(self.book.masked)):
            content = batch.read(self.book.tables, quarantine)
        if self.pipeline.new_columns == "accept":
            self._accept_columns(content.feeds)
        self._publish(batch, content.feeds, content.bad)

    def _publish(self, batch: Batch, feeds: Any, bad: list[Bad]) -> None:
        options = {"source": self.pipeline.name, "on_error": self.pipeline.on_error, "offsets": batch.offsets}
        self.book.apply(feeds, batch.id, bad=bad, **options)

    def catch_up(self) -> None:
        """Updates found rules that are late, in a version of its own."""
        if isinstance(self.book, Rulebook):
            self.book.catch_up()

    def close(self) -> None:
        """Delivers what message sinks have queued, and releases the rulebook for other writers."""
        try:
            self.delivery.close(self.book)
        finally:
            self.book.close()

    def _adopt_decisions(self) -> None:
        """Adopts decisions about rules that were made meanwhile. If they cannot be read, nothing changes."""
        state = None if self.book.path is None else decided_at(self.book.path)
        if state == self._adopted:
            return
        try:
            adopt(self.book)
            self._adopted = state
        except HoldfastError as error:
            log.warning("decisions are not adopted: %s", error)

    def _accept_columns(self, feeds: list[Feed]) -> None:
        """Adds columns of the feeds that the tables do not have yet."""
        added: dict[str, dict[str, str]] = {}
        for feed in feeds:
            table = feed.table or next(iter(self.book.tables))
            for name, type_text in _unknown_columns(feed, self.book, table).items():
                added.setdefault(table, {}).setdefault(name, type_text)
        if added:
            self.book.alter(columns=added, declared=False)


def _unknown_columns(feed: Feed, book: Rulebook, table: str) -> dict[str, str]:
    """The columns of a feed that its table does not have, with their types."""
    options, source = book.tables[table], feed.part.source
    names = [n for n in source.table.column_names if n not in options.schema and n not in options.ignored]
    if source.shared:
        names = [n for n in names if source.table.column(n).null_count < source.table.num_rows]
    return {c.name: c.type_text for c in schema_of(source.only(names)).columns} if names else {}
