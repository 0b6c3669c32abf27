"""Delivers every version to every sink, in order. Events come from the rulebook's outbox, so a restart continues.

The progress of a sink is a mark in the rulebook's directory. Parquet and Delta sinks receive a version exactly once,
other tables, webhooks and alerts at least once, with ids that let them recognise repetitions. Each message sink has its
own thread, which retries with increasing waits. Batches do not wait for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, concealed
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.sink_events import SinkEvents
from holdfast.pipeline.writers import MessageSender, TableSinkWriter, writer_of
from holdfast.rulebook import Rulebook
from holdfast.store.directory import Directory, directory_at
from holdfast.store.marks import Marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("holdfast")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 300.0  # seconds between two attempts
_MAX_QUEUED = 100  # messages of one sink in memory
LAST_WAIT = 30.0  # seconds for sending the remaining messages when the pipeline ends


class Delivery:
    """The sinks of a rulebook and their progress."""

    def __init__(
        self,
        name: str,
        directory: Directory,
        writers: Mapping[str, TableSinkWriter | MessageSender],
        masked: Collection[str] = (),
    ) -> None:
        """`name`: the book's name in events. `writers`: by sink id."""
        self._name, self._masked, self._marks = name, masked, Marks(directory)
        marks = self._marks.all()
        self._delivered: dict[str, int | None] = {sink: marks.get(sink) for sink in writers}
        self._senders = {sink: writer for sink, writer in writers.items() if isinstance(writer, MessageSender)}
        self._tables = {sink: writer for sink, writer in writers.items() if not isinstance(writer, MessageSender)}
        self._couriers = {
            sink: Courier(sink, sender.send, self._marker_of(sink)) for sink, sender in self._senders.items()
        }

    @classmethod
    def of(cls, pipeline: Pipeline, spark: SparkSession | None) -> Delivery:
        directory = directory_at(pipeline.book)
        _rename_old_marks(Marks(directory), pipeline)
        writers = {sink_id: writer_of(sink, spark) for sink_id, sink in pipeline.named_sinks.items()}
        return cls(pipeline.name, directory, writers, pipeline.mask)

    def _marker_of(self, sink: str) -> Callable[[int], None]:
        return lambda version: self._mark_delivered(sink, version)

    def _mark_delivered(self, sink: str, version: int) -> None:
        self._marks.put(sink, version, self._delivered[sink])
        self._delivered[sink] = version

    def begin_now(self, book: Rulebook) -> None:
        """Lets new sinks begin with the next version."""
        for sink, version in self._delivered.items():
            if version is None:
                self._mark_delivered(sink, book.version)

    def deliver(self, book: Rulebook) -> None:
        """Writes undelivered versions to table sinks, and queues messages for message sinks."""
        for sink, writer in self._tables.items():
            for version in self._due(sink, book):
                try:
                    writer.write(SinkEvents(self._name, book, version, self._masked))
                except HoldfastError:
                    raise
                except Exception as error:
                    raise HoldfastError(concealed(f"sink {sink}, version {version}: {_first_line(error)}")) from error
                self._mark_delivered(sink, version)
        for sink, courier in self._couriers.items():
            for version in self._due(sink, book, courier.last):
                if courier.is_full or not self._queue_message(sink, book, version):
                    break
        book.needed_from = self.needed_from

    def _queue_message(self, sink: str, book: Rulebook, version: int) -> bool:
        """Queues the message of a version; returns whether that was possible.

        It is not while the message cannot be made, for example because rules.yml is being edited and its masks are
        unknown. The version is then tried again later.
        """
        try:
            message = self._senders[sink].message(SinkEvents(self._name, book, version, self._masked))
        except HoldfastError as error:
            self._couriers[sink].error = concealed(str(error))
            log.warning("sink %s, version %d waits: %s", sink, version, self._couriers[sink].error)
            return False
        self._couriers[sink].take(version, message)
        return True

    def _due(self, sink: str, book: Rulebook, queued: int | None = None) -> Iterator[int]:
        """The versions to deliver to a sink, after the last one queued or delivered. A new sink begins with the oldest
        version that is kept."""
        oldest, last = book.oldest_with_events, queued if queued is not None else self._delivered[sink]
        if last is None and oldest > 1:
            log.warning("sink %s is new and begins with version %d; earlier ones are not kept", sink, oldest)
        elif last is not None and last + 1 < oldest:
            log.warning("sink %s: versions %d to %d are not kept any more", sink, last + 1, oldest - 1)
        return iter(range(max((last or 0) + 1, oldest), book.version + 1))

    @property
    def needed_from(self) -> int | None:
        """The oldest version that is not yet delivered to every sink of the rulebook, also sinks of other pipelines."""
        own = [last or 0 for last in self._delivered.values()]
        foreign = [last for sink, last in self._marks.all().items() if sink not in self._delivered]
        return min(own + foreign) + 1 if own or foreign else None

    @property
    def delivered(self) -> int:
        """The newest version that every sink has."""
        return min((last or 0 for last in self._delivered.values()), default=0)

    def behind(self, version: int) -> dict[str, int]:
        """The number of undelivered versions of each sink that has some."""
        return {sink: version - (last or 0) for sink, last in self._delivered.items() if (last or 0) < version}

    def failed(self) -> dict[str, str]:
        """The error of the last attempt, for each sink whose last attempt failed."""
        return {sink: courier.error for sink, courier in self._couriers.items() if courier.error is not None}

    def close(self, book: Rulebook, patience: float = LAST_WAIT) -> None:
        """Sends the remaining messages while the sinks answer. The next run delivers the rest."""
        for courier in self._couriers.values():
            courier.finish(patience)
        while any(c.error is None and (c.last or book.version) < book.version for c in self._couriers.values()):
            self.deliver(book)
            for courier in self._couriers.values():
                courier.finish(patience)


class Courier:
    """Sends the messages of one sink in order, in its own thread."""

    def __init__(self, sink: str, send: Callable[[Any], None], mark_delivered: Callable[[int], None]) -> None:
        self._sink, self._send, self._mark_delivered = sink, send, mark_delivered
        self._queue: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._finishing = threading.Event()  # the pipeline ends: do not wait between attempts
        self._thread: threading.Thread | None = None
        self.last: int | None = None  # the newest version that was queued
        self.error: str | None = None  # of the last attempt

    @property
    def is_full(self) -> bool:
        return self._queue.qsize() >= _MAX_QUEUED

    def take(self, version: int, message: Any | None) -> None:
        """Queues a version. Without a message it is only marked as delivered."""
        self.last = version
        self._queue.put((version, message))
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=f"holdfast-{self._sink}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not (self._queue.empty() and self._finishing.is_set()):
            try:
                version, message = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            while not self._sent(version, message):
                if self._finishing.is_set():
                    self._drop_queue()
                    return
                self._finishing.wait(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            wait = _FIRST_WAIT

    def _drop_queue(self) -> None:
        """Drops the queued messages. They are in the outbox and are queued again, after the last delivered version."""
        self.last, self._queue = None, queue.Queue()

    def _sent(self, version: int, message: Any | None) -> bool:
        try:
            if message is not None:
                self._send(message)
            self._mark_delivered(version)
        except (HoldfastError, OSError) as error:
            self.error = concealed(_first_line(error))
            log.warning("sink %s, version %d: %s; it will be tried again", self._sink, version, self.error)
            return False
        self.error = None
        return True

    def finish(self, patience: float) -> None:
        """Sends the queued messages up to the first failure, and ends the thread."""
        if self._thread is None:
            return
        self._finishing.set()
        self._thread.join(patience)
        if self._thread.is_alive():
            self.error = self.error or f"did not answer within {patience:g} s"
        else:
            self._thread = None
            self._finishing.clear()


def _rename_old_marks(marks: Marks, pipeline: Pipeline) -> None:
    """Renames marks of earlier releases, which named sinks by their position in the list."""
    delivered = marks.all()
    for position, (sink_id, sink) in enumerate(pipeline.named_sinks.items()):
        old_id = f"{sink.kind}-{position}"
        if sink_id not in delivered and old_id in delivered:
            marks.put(sink_id, delivered[old_id])
            marks.remove(old_id, delivered[old_id])


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
