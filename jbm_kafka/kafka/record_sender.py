"""An idempotent producer for plain sends that never leaves a gap which later records of a unit could pass.

librdkafka times records out one by one while later ones go on, and can purge only everything. So its own timeout is
off: sends are counted in windows of time, and when the oldest window is overdue everything queued is purged, in flight
or not, and every one of those sends fails. Reports are served by one thread, in batches.
"""

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from mypy_extensions import mypyc_attr

from jbm_kafka.kafka.kept_producer import kept_producer
from jbm_kafka.kafka.missing_leaders import partitions_without_leader
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.stale_metadata import is_metadata_stale
from jbm_kafka.kafka.translated_errors import cause, one_line, trouble
from jbm_kafka.ports import (
    KafkaClientError,
    LeaderMissing,
    Outgoing,
    QueueTooSmall,
    RecordTooLarge,
    SendReport,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.wake_up import Sleepers, is_held_here

_POLL_S = 0.1
_ASKED_TOPIC = "__consumer_offsets"
"""Asked for where only an answer is wanted: it need not be there, and the answer is short however many topics are."""
_ANSWERS_WANTED = 2
"""The first may come over the connection to the bootstrap address, which ends when that turns out to be a broker's."""
_ASKED_AT_MOST = 10
_QUEUE_KBYTES = 1_048_576
"""librdkafka's own limit, where nothing is set."""
_WINDOWS_PER_TIMEOUT = 20
"""A send is given up at its timeout plus at most this part of it."""


class _Window:
    """Sends of a short time. `sent` is counted by senders under the lock, `reported` by the poll thread alone."""

    __slots__ = ("is_closed", "is_done", "opened_at", "reported", "sent")

    def __init__(self) -> None:
        self.opened_at = time.monotonic()
        self.sent = 0
        self.reported = 0
        self.is_closed = False
        """No send joins it any more."""
        self.is_done = False
        """It and every earlier one have been reported."""


@mypyc_attr(acyclic=True)  # nothing that it holds knows it: one thing less for the garbage collector to visit
class _Sent:
    """One send until its report, as the callback of it.

    A closure would be five objects for the garbage collector to visit, which cost a third of the throughput.
    """

    __slots__ = ("record", "report", "sender", "window")

    def __init__(self, sender: "ConfluentSender", window: _Window, record: Outgoing, report: SendReport | None) -> None:
        self.sender = sender
        self.window = window
        self.record = record
        self.report = report

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        self.window.reported += 1
        if error is not None:
            self.sender.refused(error, self.record, self.report)
        elif self.report is not None:
            self.report(None)


class ConfluentSender:
    """Implements `ports.RecordSender`."""

    __deletable__ = ("_producer",)

    def __init__(self, settings: dict[str, Any], *, bootstrap: str, send_timeout_ms: int) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._timeout_s = send_timeout_ms / 1000
        lock = threading.RLock()
        self._progress = Sleepers(lock)
        # For each send: a `with` of compiled code looks both up, and calls them by way of two functions more.
        self._acquire, self._release = lock.acquire, lock.release
        self._windows: deque[_Window] = deque([_Window()])
        self._is_open = True
        self._is_broken = False
        """librdkafka's producer has failed for good and must be replaced."""
        self._producer = kept_producer(settings)
        self._without_leader: frozenset[tuple[str, int]] = frozenset()
        """Partitions, when what was overdue was given up last; the poll thread's."""
        self._poller = threading.Thread(target=self._serve, name="jbm-sender", daemon=True)
        self._poller.start()

    # -- any thread --------------------------------------------------------------------------------------------------

    def send(self, record: Outgoing, report: SendReport | None) -> None:
        deadline: float | None = None
        is_retry = False
        while True:
            try:
                self._acquire()
                try:
                    self._queue(record, report)
                finally:
                    self._release()
            except BufferError:
                self._check_fits(record)
                deadline = deadline or time.monotonic() + self._timeout_s
                self._wait_for_room(record, deadline)
            except KafkaException as raised:
                error = cause(raised)
                if not is_retry and is_metadata_stale(error, self._producer, record.topic, record.partition):
                    is_retry = True
                    continue
                self._is_broken = self._is_broken or error.fatal() or error.code() == KafkaError._FATAL
                raise _failure(error, record, self._bootstrap) from None
            except BaseException:
                if is_held_here(self._progress.lock):  # a signal handler raised between the taking and the block
                    self._release()
                raise
            else:
                return

    def _queue(self, record: Outgoing, report: SendReport | None) -> None:
        if not self._is_open:
            raise KafkaClientError(f"send to {record.topic}: the sender is closed")
        window = self._windows[-1]
        sent = _Sent(self, window, record, report)
        headers = record.headers if isinstance(record.headers, list) else list(record.headers)
        try:
            # From the counting until it is queued no other function is called: no signal handler can raise in between.
            window.sent += 1
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=sent,
                timestamp=record.timestamp_ms or 0,
                headers=headers,
            )
        except (BufferError, KafkaException, TypeError, ValueError):  # not queued
            window.sent -= 1
            raise

    def _check_fits(self, record: Outgoing) -> None:
        """Raises RecordTooLarge for a record that finds no room in an empty queue either."""
        room = int(self._settings.get("queue.buffering.max.kbytes", _QUEUE_KBYTES)) * 1024
        size = len(record.value or b"")
        if size > room:
            place = f"send to {record.topic}[{record.partition}]"
            raise QueueTooSmall(f"{place}: {size} bytes do not fit into the send queue of {room}", size, room)

    def _wait_for_room(self, record: Outgoing, deadline: float) -> None:
        # A report that sends runs on the thread that alone could make room.
        is_reporter = threading.current_thread() is self._poller
        if not is_reporter:
            self._progress.sleep_unless(lambda: False, 0.05)
        # Looked at after the wait: a process that stood still in it must not queue what was routed long ago.
        if is_reporter or time.monotonic() > deadline:
            text = f"send to {record.topic}[{record.partition}]: the send queue is full"
            raise Unreachable(f"{text} and Kafka at {self._bootstrap} takes nothing")

    def flush(self, timeout_s: float) -> bool:
        with self._progress.lock:
            last = self._windows[-1]
            self._open_window()
            self._drop_done()
        return self._progress.wait_for(lambda: last.is_done, timeout_s)

    def close(self, timeout_s: float) -> None:
        self.flush(timeout_s)
        with self._progress.lock:
            self._is_open = False
        if threading.current_thread() is not self._poller:
            self._poller.join()

    # -- under the lock ----------------------------------------------------------------------------------------------

    def _open_window(self) -> None:
        self._windows[-1].is_closed = True
        self._windows.append(_Window())

    def _drop_done(self) -> None:
        while (first := self._windows[0]).is_closed and first.reported == first.sent:
            first.is_done = True
            self._windows.popleft()
            self._progress.notify_all()

    # -- the poll thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        hastened: Producer | None = None
        while self._is_open:
            if self._producer is not hastened:
                hastened = self._producer
                self._hasten_id(hastened)
            self._poll(self._producer, _POLL_S)
            if self._is_overdue() or self._is_broken:
                self._give_up()
        self._give_up()
        del self._producer  # with its threads and connections, whoever still knows this sender

    def _hasten_id(self, producer: Producer) -> None:
        """Have a new producer given its id, without which nothing is sent.

        It asks for one whenever it hears of the cluster over a connection that stays, and else every half a second: the
        first send waited for that, and some for the next time.
        """
        answers = 0
        for _ in range(_ASKED_AT_MOST):
            with suppress(KafkaException):  # nobody answers yet
                producer.list_topics(_ASKED_TOPIC, timeout=_POLL_S)
                answers += 1
            self._poll(producer, 0)
            if answers >= _ANSWERS_WANTED or not self._is_open:
                return

    def _poll(self, producer: Producer, timeout_s: float) -> None:
        try:
            producer.poll(timeout_s)
        except KafkaException as error:
            LOG.warning("plain sends: %s", one_line(cause(error)))
            self._is_broken = True
        except Exception:
            # Somebody's report raised. Its send is reported all the same; the others must be too.
            LOG.exception("a send report raised; the sender goes on")

    def _is_overdue(self) -> bool:
        now = time.monotonic()
        step_s = self._timeout_s / _WINDOWS_PER_TIMEOUT
        with self._progress.lock:
            current = self._windows[-1]
            if not current.sent:
                current.opened_at = now
            elif now - current.opened_at > step_s:
                self._open_window()
            self._drop_done()
            oldest = self._windows[0]
            return oldest.reported < oldest.sent and now - oldest.opened_at > self._timeout_s + step_s

    def _give_up(self) -> None:
        """Fail everything queued and in flight at once; what is sent from now on starts afresh."""
        is_overdue = self._is_open and not self._is_broken
        self._without_leader = partitions_without_leader(self._producer) if is_overdue else frozenset()
        with self._progress.lock:
            producer = self._producer
            producer.purge()
            if self._is_broken:
                LOG.warning("the producer of plain sends failed for good; a new one takes over")
                self._producer = kept_producer(self._settings)
                self._is_broken = False
        while len(producer):
            self._poll(producer, _POLL_S)
        with self._progress.lock:
            self._drop_done()

    def refused(self, error: KafkaError, record: Outgoing, report: SendReport | None) -> None:
        """Tell a failed send; on the poll thread."""
        self._is_broken = self._is_broken or error.fatal() or error.code() == KafkaError._FATAL
        place = f"send to {record.topic}[{record.partition}]"
        if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            time_s = f"within {self._timeout_s:g} s" if self._is_open else "before the connection closed"
            text = f"{place}: not confirmed by Kafka at {self._bootstrap} {time_s}"
            is_leaderless = (record.topic, record.partition) in self._without_leader
            failure: KafkaClientError = LeaderMissing(text, record) if is_leaderless else Unreachable(text)
        elif error.code() == KafkaError._DESTROY:
            # So librdkafka fails what it held for a partition when it hears that the partition has no leader.
            failure = UnknownTopic(f"{place}: the topic or partition was deleted")
        else:
            failure = _failure(error, record, self._bootstrap)
        if report is None:
            LOG.warning("%s; nobody waits for it", failure)
        else:
            report(failure)


def _failure(error: KafkaError, record: Outgoing, bootstrap: str) -> KafkaClientError:
    failure = trouble(error, f"send to {record.topic}[{record.partition}]", bootstrap)
    if isinstance(failure, RecordTooLarge):
        failure.record = record
    return failure
