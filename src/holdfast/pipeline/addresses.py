"""Alerts of `holdfast apply`: through the rulebook's outbox, like those of a pipeline, so that none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import HoldfastError, keep_secret
from holdfast.pipeline.config import sink_id
from holdfast.pipeline.delivery import Delivery
from holdfast.pipeline.told import Told
from holdfast.pipeline.writers import AlertSender
from holdfast.rulebook import Rulebook
from holdfast.store.directory import directory_at
from holdfast.workflow.alerts import Alert, require_addresses


class AlertAddresses:
    """The addresses that a command was given, and what they are still to be told."""

    def __init__(self, book: Rulebook, directory: Path, urls: Sequence[str]) -> None:
        """An address that is new is told from the next version on; the book keeps what it is to be told."""
        self._book, self._senders = book, {}
        for url in urls:
            keep_secret(url)
            require_addresses([url])
            self._senders[sink_id("apply", url)] = AlertSender((url,))
        self._delivery = Delivery(directory.resolve().name, directory_at(directory), self._senders)
        if urls and not book.has_outbox:
            book.alter(outbox=True)
        self._delivery.begin_now(book)
        book.needed_from = self._delivery.needed_from

    def deliver(self) -> list[Alert]:
        """Tells every address what it does not know yet. Returns the alerts that every address has now."""
        first = self._delivery.delivered + 1
        self._delivery.deliver(self._book)
        self._delivery.close(self._book)
        versions = range(first, self._delivery.delivered + 1) if self._senders else ()
        return [alert for version in versions for alert in Told("", self._book, version).alerts]

    def require_delivered(self) -> None:
        """An error where an address could not be told."""
        failed = self._delivery.failed()
        if failed:
            raise HoldfastError(
                f"{len(failed)} of {len(self._senders)} addresses could not be told of alerts "
                f"({next(iter(failed.values()))}); the batches are applied, and the alerts are kept: the next "
                f"`holdfast apply --alert` to the same address delivers them, also with the same file"
            )
