"""Alerts of `holdfast apply`. They go through the rulebook's outbox, as in a pipeline, so that none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import HoldfastError, keep_secret
from holdfast.pipeline.config import sink_id
from holdfast.pipeline.delivery import Delivery
from holdfast.pipeline.sink_events import SinkEvents
from holdfast.pipeline.writers import AlertSender
from holdfast.rulebook import Rulebook
from holdfast.store.directory import directory_at
from holdfast.workflow.alerts import Alert, require_addresses


class AlertAddresses:
    """Delivers alerts to the addresses of one command."""

    def __init__(self, book: Rulebook, directory: Path, urls: Sequence[str]) -> None:
        """A new address receives alerts from the next version on. The rulebook's outbox keeps undelivered ones."""
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
        """Sends every address the alerts it has not received yet. Returns those that all addresses now have."""
        first = self._delivery.delivered + 1
        self._delivery.deliver(self._book)
        self._delivery.close(self._book)
        versions = range(first, self._delivery.delivered + 1) if self._senders else ()
        return [alert for version in versions for alert in SinkEvents("", self._book, version).alerts]

    def require_delivered(self) -> None:
        """Raises an error if alerts could not be delivered to an address."""
        failed = self._delivery.failed()
        if failed:
            raise HoldfastError(
                f"alerts could not be delivered to {len(failed)} of {len(self._senders)} addresses "
                f"({next(iter(failed.values()))}). The batches are applied and the alerts are kept: the next "
                f"`holdfast apply --alert` to the same address delivers them, also with the same file"
            )
