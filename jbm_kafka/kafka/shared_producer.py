"""An idempotent producer that connections share for plain sends, and the thread that serves its reports in batches.

librdkafka times records out one by one while later ones go on, which would pass the gap, and it can purge only
everything. So its own timeout is off. A send that is overdue is told to have failed, with all that its connection sent
to its partition after it; what failed stays in the producer until nothing else is there, and then that is purged. Until
then nothing more goes to that partition: its senders wait as for a full queue (decision 70).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from jbm_kafka.kafka.kept_producer import kept_producer
from jbm_kafka.kafka.leaked_references import Unheeded
from jbm_kafka.kafka.missing_leaders import partitions_without_leader
from jbm_kafka.kafka.send_line import Refused, SendLine
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.translated_errors import cause, one_line
from jbm_kafka.ports import KafkaClientError, LeaderMissing, SendReport, Unreachable
from jbm_kafka.ports.wake_up import Sleepers, WakeUp

_POLL_S = 0.1
RAISED = "a send report raised; the sender goes on"
_ASKED_TOPIC = "__consumer_offsets"
"""Asked for where only an answer is wanted: it need not be there, and the answer is short however many topics are."""
_ANSWERS_WANTED = 2
"""The first may come over the connection to the bootstrap address, which ends when that turns out to be a broker's."""
_ASKED_AT_MOST = 10
_LOOKS_PER_TIMEOUT = 20
"""A send is given up at its timeout plus at most this part of it."""
_STANDSTILL_S = 1.0
"""When nothing was reported for so long, what is under way is not about to be written."""


def tell(report: SendReport | None, failure: KafkaClientError) -> None:
    """A send has failed: whoever waits for it hears it, else the log."""
    if report is None:
        LOG.warning("%s; nobody waits for it", failure)
    else:
        report(failure)


class SharedProducer:
    """One producer and its thread. Any thread. Who makes it has joined."""

    __deletable__ = ("producer",)

    def __init__(self, settings: dict[str, Any], *, bootstrap: str, send_timeout_ms: int) -> None:
        self._settings = settings
        self.bootstrap = bootstrap
        self.timeout_s = send_timeout_ms / 1000
        self._step_s = self.timeout_s / _LOOKS_PER_TIMEOUT
        self.lock = threading.RLock()
        """Held while something is queued."""
        self.progress = Sleepers(self.lock)
        self._lines: dict[SendLine, None] = {}
        self._users = 1
        self.held: frozenset[tuple[str, int]] = frozenset()
        """Partitions of what was abandoned: nothing is queued for them."""
        self.is_draining = False
        """Nothing is queued at all; only while something is held."""
        self._abandoned: list[SendLine] = []
        """Lines of which the producer still has what was told to have failed. Its thread's."""
        self._leaving: deque[tuple[list[SendLine], WakeUp]] = deque()
        self._is_broken = False
        """librdkafka's producer has failed for good and must be replaced."""
        self._look_at_s = 0.0
        self._may_clear_at_s = 0.0
        self.producer = kept_producer(settings)
        self._server = threading.Thread(target=self._serve, name="jbm-sender", daemon=True)
        self._server.start()

    # -- any thread --------------------------------------------------------------------------------------------------

    def join(self) -> bool:
        """One connection more sends; False when it has ended with its last one."""
        with self.lock:
            if self._users:
                self._users += 1
            return self._users > 0

    def line(self, place: tuple[str, int], refused: Refused) -> SendLine:
        """A line of a connection that has joined."""
        line = SendLine(place, refused, self._notify, self._fail_rest)
        with self.lock:
            self._lines[line] = None
        return line

    def is_own_thread(self) -> bool:
        """The caller is the thread that runs the reports."""
        return threading.current_thread() is self._server

    def note(self, error: KafkaError) -> None:
        """Note an error of a send, which may mean that the producer has failed for good."""
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._is_broken = True

    def leave(self, lines: list[SendLine]) -> None:
        """A connection sends no more, and what of it is under way fails; the producer ends with the last one."""
        with self.lock:
            left = WakeUp()
            self._leaving.append((lines, left))
            self._users -= 1
            is_last = not self._users
        if self.is_own_thread():
            self._let_leave()  # a report closes: it cannot wait for its own thread
        elif is_last:
            self._server.join()
        elif any(line.under_way for line in lines):
            left.wait()

    # -- its own thread ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        hastened: Producer | None = None
        while self._users:
            if self.producer is not hastened:
                hastened = self.producer
                self._hasten_id(hastened)
            self._poll(self.producer, _POLL_S)
            self._let_leave()
            if self._is_broken:
                self._replace()
            now_s = time.monotonic()
            if now_s >= self._look_at_s:
                self._look(now_s)
                self._look_at_s = now_s + (min(self._step_s, _POLL_S) if self._abandoned else self._step_s)
        self._let_leave()
        self._empty(self.producer)
        del self.producer  # with its threads and connections, whoever still knows this one

    def _hasten_id(self, producer: Producer) -> None:
        """Have a new producer given its id, without which nothing is sent.

        It asks for one whenever it hears of the cluster over a connection that stays, and else every half a second: the
        first send waited for that, and some for the next time.
        """
        answers = 0
        for _ in range(_ASKED_AT_MOST):
            with Unheeded():  # nobody answers yet
                producer.list_topics(_ASKED_TOPIC, timeout=_POLL_S)
                answers += 1
            self._poll(producer, 0)
            if answers >= _ANSWERS_WANTED or not self._users:
                return

    def _poll(self, producer: Producer, timeout_s: float) -> bool:
        """Run reports; True when there were any."""
        try:
            return bool(producer.poll(timeout_s))
        except KafkaException as error:
            LOG.warning("plain sends: %s", one_line(cause(error)))
            self._is_broken = True
        except Exception:
            # Somebody's report raised. Its send is reported all the same; the others must be too.
            LOG.exception(RAISED)
        return True

    def _notify(self) -> None:
        with self.lock:
            self.progress.notify_all()

    def _let_leave(self) -> None:
        while self._leaving:
            lines, left = self._leaving.popleft()
            for line in lines:
                self._abandon(line, "before the connection closed", ())
                with self.lock:
                    del self._lines[line]
            left.set()

    def _look(self, now_s: float) -> None:
        """Abandon what is overdue, and clear what was abandoned."""
        overdue = [
            line
            for line in list(self._lines)
            if line.under_way and now_s - line.under_way[0].since_s > self.timeout_s + self._step_s
        ]
        if overdue:
            without_leader = partitions_without_leader(self.producer)
            for line in overdue:
                self._abandon(line, f"within {self.timeout_s:g} s", without_leader)
        self._hold()
        if self._abandoned and now_s >= self._may_clear_at_s:
            self._clear()
            self._hold()

    def _abandon(self, line: SendLine, when: str, without_leader: Iterable[tuple[str, int]]) -> None:
        """Fail all that a connection has under way to a partition: nothing of it must pass what is overdue."""
        with self.lock:
            found = line.abandon()
            if found:
                self._abandoned.append(line)
                self._hold()
        for sent in found:
            record = sent.record
            text = f"send to {record.topic}[{record.partition}]: not confirmed by Kafka at {self.bootstrap} {when}"
            is_leaderless = line.place in without_leader
            try:
                tell(sent.report, LeaderMissing(text, record) if is_leaderless else Unreachable(text))
            except Exception:
                LOG.exception(RAISED)
            finally:
                line.count_ended(sent)

    def _fail_rest(self, line: SendLine) -> None:
        """One was purged: nothing that was sent after it must pass it. See `_empty`."""
        self._abandon(line, "after one that was given up", ())

    def _hold(self) -> None:
        """Hold the partitions of what is abandoned now, and no others."""
        if self._abandoned or self.held:
            with self.lock:
                self._abandoned = [line for line in self._abandoned if line.abandoned]
                self.held = frozenset(line.place for line in self._abandoned)
                self.progress.notify_all()

    def _clear(self) -> None:
        """Purge what was abandoned, unless the producer has something else that is not about to be written."""
        if any(line.under_way for line in list(self._lines) if line.place in self.held):
            return  # others wait for the same partition: they have their time
        with self.lock:
            self.is_draining = True
        try:
            standstill_s = time.monotonic() + _STANDSTILL_S
            while any(line.under_way for line in list(self._lines)):
                if self._poll(self.producer, _POLL_S):
                    standstill_s = time.monotonic() + _STANDSTILL_S
                elif time.monotonic() > standstill_s or self._leaving:
                    self._may_clear_at_s = time.monotonic() + 5 * _STANDSTILL_S
                    return
            if any(line.abandoned for line in self._abandoned):
                self._empty(self.producer)
        finally:
            self.is_draining = False

    def _replace(self) -> None:
        LOG.warning("the producer of plain sends failed for good; a new one takes over")
        with self.lock:
            failed, self.producer = self.producer, kept_producer(self._settings)
            self._is_broken = False
        self._empty(failed)

    def _empty(self, producer: Producer) -> None:
        """Purge it, in flight or not; every send that it has is reported.

        confluent-kafka takes `blocking` the wrong way round, so this does not wait for the threads of all brokers, and
        one may purge what is sent after it. To wait it would hold Python's lock, maybe as long as a name is looked up.
        """
        producer.purge()
        while len(producer):
            self._poll(producer, _POLL_S)
