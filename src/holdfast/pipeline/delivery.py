"""Every version is told to every sink, in order. Sinks read from the rulebook's outbox, so a restart tells what was not
told yet.

How far a sink is, is a mark in the rulebook's directory. Parquet and Delta: exactly once. Other tables, webhooks and
alerts: at least once, with what is needed to recognise a repetition. Message sinks have a thread each, which waits
longer and longer while a sink does not answer; batches do not wait for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, concealed
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.told import Told
from holdfast.pipeline.writers import MessageSender, TableSinkWriter, writer_of
from holdfast.rulebook import Rulebook
from holdfast.store.directory import Directory, directory_at
from holdfast.store.marks import Marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("holdfast")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 300.0  # seconds between two attempts
_AT_HAND = 100  # messages of one sink that wait in memory
LAST_WAIT = 30.0  # seconds for what is still to be sent when the pipeline ends


class Delivery:
    """The sinks of a rulebook, and how far each of them is."""

    def __init__(
        self,
        name: str,
        directory: Directory,
        writers: Mapping[str, TableSinkWriter | MessageSender],
        masked: Collection[str] = (),
    ) -> None:
        """`name`: what the book is called in what is told; `writers` by the names of the sinks."""
        self._name, self._masked, self._marks = name, masked, Marks(directory)
        marks = self._marks.all()
        self._done: dict[str, int | None] = {sink: marks.get(sink) for sink in writers}
        self._senders = {sink: some for sink, some in writers.items() if isinstance(some, MessageSender)}
        self._tables = {sink: some for sink, some in writers.items() if not isinstance(some, MessageSender)}
        self._couriers = {sink: Courier(sink, some.send, self._noting(sink)) for sink, some in self._senders.items()}

    @classmethod
    def of(cls, pipeline: Pipeline, spark: SparkSession | None) -> Delivery:
        directory = directory_at(pipeline.book)
        _name_old_marks(Marks(directory), pipeline)
        writers = {sink_id: writer_of(sink, spark) for sink_id, sink in pipeline.named_sinks.items()}
        return cls(pipeline.name, directory, writers, pipeline.mask)

    def _noting(self, sink: str) -> Callable[[int], None]:
        return lambda version: self._note(sink, version)

    def _note(self, sink: str, version: int) -> None:
        self._marks.put(sink, version, self._done[sink])
        self._done[sink] = version

    def begin_now(self, book: Rulebook) -> None:
        """Sinks that are new are told from the next version on."""
        for sink, done in self._done.items():
            if done is None:
                self._note(sink, book.version)

    def deliver(self, book: Rulebook) -> None:
        """Tells table sinks what they do not know yet, and lets message sinks be told."""
        for sink, writer in self._tables.items():
            for version in self._due(sink, book):
                try:
                    writer.write(Told(self._name, book, version, self._masked))
                except HoldfastError:
                    raise
                except Exception as error:
                    raise HoldfastError(concealed(f"sink {sink}, version {version}: {_first_line(error)}")) from error
                self._note(sink, version)
        for sink, courier in self._couriers.items():
            for version in self._due(sink, book, courier.last):
                if courier.is_full or not self._hand_over(sink, book, version):
                    break
        book.needed_from = self.needed_from

    def _hand_over(self, sink: str, book: Rulebook, version: int) -> bool:
        """Gives a courier the message of a version. Where it cannot be made, because rules.yml is being edited and what
        it masks is not known, for example, it waits."""
        try:
            message = self._senders[sink].message(Told(self._name, book, version, self._masked))
        except HoldfastError as error:
            self._couriers[sink].error = concealed(str(error))
            log.warning("sink %s, version %d waits: %s", sink, version, self._couriers[sink].error)
            return False
        self._couriers[sink].take(version, message)
        return True

    def _due(self, sink: str, book: Rulebook, handed: int | None = None) -> Iterator[int]:
        """The versions that a sink is to be told; a sink that is new begins with the oldest version that is kept."""
        oldest, done = book.oldest_told, handed if handed is not None else self._done[sink]
        if done is None and oldest > 1:
            log.warning("sink %s is new and begins with version %d; earlier ones are not kept", sink, oldest)
        elif done is not None and done + 1 < oldest:
            log.warning("sink %s: versions %d to %d are not kept any more", sink, done + 1, oldest - 1)
        return iter(range(max((done or 0) + 1, oldest), book.version + 1))

    @property
    def needed_from(self) -> int | None:
        """The oldest version that is not yet delivered to every sink of the rulebook."""
        mine = [done or 0 for done in self._done.values()]
        others = [done for sink, done in self._marks.all().items() if sink not in self._done]
        return min(mine + others) + 1 if mine or others else None

    @property
    def delivered(self) -> int:
        """The newest version that every sink has."""
        return min((done or 0 for done in self._done.values()), default=0)

    def behind(self, version: int) -> dict[str, int]:
        """How many versions each sink is behind, where it is."""
        return {sink: version - (done or 0) for sink, done in self._done.items() if (done or 0) < version}

    def failed(self) -> dict[str, str]:
        """What the last attempt of each sink that could not be told ended with."""
        return {sink: courier.error for sink, courier in self._couriers.items() if courier.error is not None}

    def close(self, book: Rulebook, patience: float = LAST_WAIT) -> None:
        """Lets message sinks have what waits for them, as long as they answer; the rest is told by the next run."""
        for courier in self._couriers.values():
            courier.finish(patience)
        while any(c.error is None and (c.last or book.version) < book.version for c in self._couriers.values()):
            self.deliver(book)
            for courier in self._couriers.values():
                courier.finish(patience)


class Courier:
    """Sends the messages of one sink, in order, in a thread of its own."""

    def __init__(self, sink: str, send: Callable[[Any], None], note: Callable[[int], None]) -> None:
        self._sink, self._send, self._note = sink, send, note
        self._queue: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._hurry = threading.Event()  # no waiting between attempts: the pipeline ends
        self._thread: threading.Thread | None = None
        self.last: int | None = None  # the newest version that was handed over
        self.error: str | None = None

    @property
    def is_full(self) -> bool:
        return self._queue.qsize() >= _AT_HAND

    def take(self, version: int, message: Any | None) -> None:
        self.last = version
        self._queue.put((version, message))
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=f"holdfast-{self._sink}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not (self._queue.empty() and self._hurry.is_set()):
            try:
                version, message = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            while not self._sent(version, message):
                if self._hurry.is_set():
                    self._let_go()
                    return
                self._hurry.wait(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            wait = _FIRST_WAIT

    def _let_go(self) -> None:
        """Forgets what waits: it is in the outbox, and is handed over again from the mark on."""
        self.last, self._queue = None, queue.Queue()

    def _sent(self, version: int, message: Any | None) -> bool:
        try:
            if message is not None:
                self._send(message)
            self._note(version)
        except (HoldfastError, OSError) as error:
            self.error = concealed(_first_line(error))
            log.warning("sink %s, version %d: %s; it is tried again", self._sink, version, self.error)
            return False
        self.error = None
        return True

    def finish(self, patience: float) -> None:
        """Ends the thread: what waits is sent, up to the first failure."""
        if self._thread is None:
            return
        self._hurry.set()
        self._thread.join(patience)
        if self._thread.is_alive():
            self.error = self.error or f"did not answer within {patience:g} s"
        else:
            self._thread = None
            self._hurry.clear()


def _name_old_marks(marks: Marks, pipeline: Pipeline) -> None:
    """Earlier releases named sinks by their place in the list."""
    known = marks.all()
    for place, (sink_id, sink) in enumerate(pipeline.named_sinks.items()):
        old = f"{sink.kind}-{place}"
        if sink_id not in known and old in known:
            marks.put(sink_id, known[old])
            marks.remove(old, known[old])


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
