"""An idempotent producer that connections share for plain sends, and the thread that serves its reports in batches.

librdkafka times records out one by one while later ones go on, which would pass the gap, and it can purge only
everything. So its own timeout is off. A send that is overdue is told to have failed, with all that its connection sent
to its partition after it. Until the producer has nothing else, or what else there is has been written, what failed
stays in it, and whatever is sent to the partition waits behind that; then it is purged (decision 70).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from jbm_kafka.kafka.kept_producer import kept_producer
from jbm_kafka.kafka.missing_leaders import partitions_without_leader
from jbm_kafka.kafka.send_line import Refused, SendLine, SendPlace
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.translated_errors import cause, one_line
from jbm_kafka.ports import KafkaClientError, LeaderMissing, SendReport, Unreachable
from jbm_kafka.ports.wake_up import WakeUp

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
    """One producer and its thread. Any thread."""

    __deletable__ = ("producer",)

    def __init__(self, settings: dict[str, Any], *, bootstrap: str, send_timeout_ms: int) -> None:
        self._settings = settings
        self.bootstrap = bootstrap
        self.timeout_s = send_timeout_ms / 1000
        self._step_s = self.timeout_s / _LOOKS_PER_TIMEOUT
        self._lock = threading.RLock()
        self._places: dict[tuple[str, int], SendPlace] = {}
        self._is_holding = False
        """No place gives anything to the producer."""
        self._leaving: deque[tuple[list[SendLine], WakeUp]] = deque()
        self._is_open = True
        self._is_broken = False
        """librdkafka's producer has failed for good and must be replaced."""
        self._look_at_s = 0.0
        self._may_clear_at_s = 0.0
        self.producer = kept_producer(settings)
        self._thread = threading.Thread(target=self._serve, name="jbm-sender", daemon=True)
        self._thread.start()

    # -- any thread --------------------------------------------------------------------------------------------------

    def line(self, topic: str, partition: int, refused: Refused, told: Callable[[], None]) -> SendLine:
        """A connection's line to a partition; it ends by `leave`."""
        with self._lock:
            place = self._places.get((topic, partition))
            if place is None:
                place = self._places[topic, partition] = SendPlace(topic, partition, is_held=self._is_holding)
            line = SendLine(place, refused, told)
            place.lines.append(line)
            return line

    def is_own_thread(self) -> bool:
        """The caller is the thread that runs the reports."""
        return threading.current_thread() is self._thread

    def note(self, error: KafkaError) -> None:
        """What the producer said of a send may mean that it has failed for good."""
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._is_broken = True

    def leave(self, lines: list[SendLine]) -> WakeUp:
        """A connection's lines end: what is under way fails now. Set when that is done."""
        done = WakeUp()
        self._leaving.append((lines, done))
        if self.is_own_thread():
            self._let_leave()
        return done

    def begin_close(self) -> None:
        """Its last connection leaves."""
        self._is_open = False

    def close(self) -> None:
        """Return when its thread has ended, unless that is the caller."""
        if not self.is_own_thread():
            self._thread.join()

    # -- its own thread ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        hastened: Producer | None = None
        while self._is_open:
            if self.producer is not hastened:
                hastened = self.producer
                self._hasten_id(hastened)
            self._poll(self.producer, _POLL_S)
            self._let_leave()
            if self._is_broken:
                self._replace()
            now_s = time.monotonic()
            if now_s >= self._look_at_s:
                is_clear = self._look(now_s)
                self._look_at_s = now_s + (self._step_s if is_clear else min(self._step_s, _POLL_S))
        self._let_leave()
        self._empty()
        del self.producer  # with its threads and connections, whoever still knows this one

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

    def _poll(self, producer: Producer, timeout_s: float) -> int:
        """How many reports it ran."""
        try:
            return producer.poll(timeout_s)
        except KafkaException as error:
            LOG.warning("plain sends: %s", one_line(cause(error)))
            self._is_broken = True
        except Exception:
            # Somebody's report raised. Its send is reported all the same; the others must be too.
            LOG.exception(RAISED)
        return 1

    def _let_leave(self) -> None:
        while self._leaving:
            lines, done = self._leaving.popleft()
            for line in lines:
                self._fail(line, "before the connection closed", frozenset())
                line.leave()
            self._let_go_on()
            done.set()

    def _look(self, now_s: float) -> bool:
        """Fail what is overdue, and clear what was abandoned; True when there is nothing of that."""
        overdue = [
            line
            for place in self._all_places()
            for line in list(place.lines)
            if (oldest := line.oldest()) is not None and now_s - oldest.since_s > self.timeout_s + self._step_s
        ]
        if overdue:
            without_leader = partitions_without_leader(self.producer)
            for line in overdue:
                self._fail(line, f"within {self.timeout_s:g} s", without_leader)
        if not any(place.is_held for place in self._all_places()):
            return True
        if any(place.abandoned for place in self._all_places()):
            self._clear(now_s)
        self._let_go_on()
        return False

    def _fail(self, line: SendLine, when: str, without_leader: Iterable[tuple[str, int]]) -> None:
        """All that a connection has under way to a partition, also what is not overdue: it must not pass what is."""
        for sent in line.end_all():
            record, report = sent.record, sent.report
            text = f"send to {record.topic}[{record.partition}]: not confirmed by Kafka at {self.bootstrap} {when}"
            is_leaderless = (record.topic, record.partition) in without_leader
            try:
                tell(report, LeaderMissing(text, record) if is_leaderless else Unreachable(text))
            except Exception:
                LOG.exception(RAISED)
            finally:
                line.count_ended(sent.size)

    def _clear(self, now_s: float) -> None:
        """Purge what was abandoned, unless the producer has something else that is not about to be written."""
        places = self._all_places()
        if now_s < self._may_clear_at_s or any(place.abandoned and place.has_queued() for place in places):
            return  # others wait for the same partition: they have their time
        self._hold_all()
        standstill_s = time.monotonic() + _STANDSTILL_S
        while any(place.has_queued() for place in self._all_places()):
            if self._poll(self.producer, _POLL_S):
                standstill_s = time.monotonic() + _STANDSTILL_S
            elif time.monotonic() > standstill_s or self._leaving:
                self._may_clear_at_s = time.monotonic() + 5 * _STANDSTILL_S
                return
        if any(place.abandoned for place in self._all_places()):
            self._empty()

    def _hold_all(self) -> None:
        with self._lock:
            self._is_holding = True
            for place in self._places.values():
                with place.lock:
                    place.is_held = True

    def _empty(self) -> None:
        """Purge it, in flight or not; every send that it has is reported."""
        self.producer.purge()
        while len(self.producer):
            self._poll(self.producer, _POLL_S)

    def _replace(self) -> None:
        LOG.warning("the producer of plain sends failed for good; a new one takes over")
        self._hold_all()
        self._empty()
        self.producer = kept_producer(self._settings)
        self._is_broken = False
        self._let_go_on()

    def _let_go_on(self) -> None:
        """Give to the producer what waited behind what was abandoned and is not any more."""
        with self._lock:
            self._is_holding = False
        for place in self._all_places():
            if place.is_held and not place.abandoned:
                for sent, error in place.give_parked(self.producer):
                    sent(cause(error), None)
        with self._lock:
            for key, place in list(self._places.items()):
                if not place.lines and not place.abandoned:
                    del self._places[key]

    def _all_places(self) -> list[SendPlace]:
        with self._lock:
            return list(self._places.values())
