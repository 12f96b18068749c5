"""The topic `jbm.registry`: what each of its keys says, read on as it grows, and changed by compare-and-set.

Decision 27 says which writer wins, and how a writer knows.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from jbm_kafka.ports import (
    Clock,
    Kafka,
    KafkaAdmin,
    KafkaClientError,
    KafkaRecord,
    OutcomeUnknown,
    Outgoing,
    TailReader,
    TransactionAborted,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.steps import pause_thread
from jbm_kafka.registry.topic_configs import REGISTRY_CONFIG
from jbm_kafka.registry.writer_queue import WriterQueue

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
NEVER_MS = -(1 << 62)
"""Before any time that a clock shows."""
UPDATE_TIMEOUT_S = 30.0
"""For the tries of a change that get no answer; in the queue, and for those who overtake it, it waits besides. An open
transaction of a dead process holds the reading back for its timeout."""
TRANSACTION_TIMEOUT_MS = 10_000
POLL_S = 0.2
BACKOFF_S = 0.2
"""At most so long, by chance, until a writer that lost tries again; longer with each try."""
LOOK_S = 0.02
"""So often who waits for a turn looks."""
COUNT_MAX = 1_000
OVERTAKEN = "topic %s: somebody else changes it too, or no answer came: %s"
"""Logged for each try that came to nothing; tests count them."""

Values = Mapping[bytes, bytes]
Changes = Mapping[bytes, bytes | None]
"""None deletes."""


class RegistryLog:
    """The latest value of each key, as read last. Any thread."""

    def __init__(
        self,
        kafka: Kafka,
        admin: KafkaAdmin,
        topic: str,
        *,
        is_taken: Callable[[bytes, bytes], bool] = lambda key, value: True,
        first: Changes | None = None,
        clock: Clock | None = None,
        pause: Callable[[float], None] = pause_thread,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """A value that is not taken leaves the one before it. `first`: what a topic says first, into which nobody has
        written yet. `pause` waits after a lost race, so long by `chance`."""
        self.topic = topic
        self._is_taken = is_taken
        self._first = first
        self._kafka = kafka
        self._admin = admin
        self._topic_id = ""
        self._reader: TailReader | None = None
        """Reads the topic with this id, once it held anything; it stays open, so that a look reads only what is new."""
        self._values: dict[bytes, bytes] = {}
        self.version = 0
        """Another number after anything that was read: what was derived from it is good while this stays the same."""
        self.read_at_ms = NEVER_MS
        """When a reading to the end began last, monotonic: what was recorded before is known."""
        self._lock = threading.RLock()
        self._clock = clock or SystemClock()
        self._pause = pause
        self._turns = WriterQueue(self._clock, chance)
        self._writer = _Writer(kafka, topic, lambda seconds_max: pause(chance() * seconds_max))

    @property
    def age_ms(self) -> int:
        """How long ago the last reading to the end began."""
        return self._clock.monotonic_ms() - self.read_at_ms

    @property
    def is_there(self) -> bool:
        """Return True if its topic was there when it was read last."""
        return bool(self._topic_id)

    def get(self, key: bytes) -> bytes | None:
        """Return what a key says, as read last."""
        return self._values.get(key)

    def values(self) -> Values:
        """Everything, as read last."""
        with self._lock:
            return dict(self._values)

    def refresh(self) -> None:
        """Read on to the end. Records that a registry made anew does not have are written again.

        Raises:
            KafkaClientError: no answer.
        """
        with self._lock:
            self._refresh(TIMEOUT_S, stable=True)

    def refresh_marked(self) -> Values:
        """Everything that was committed until now, also behind a transaction that is open.

        Raises:
            KafkaClientError: no answer, or the open transaction took too long.
        """
        with self._lock:
            return self._read_marked()

    def follow(self) -> None:
        """Take what has come meanwhile, and wait for nothing: not for an answer, nor for another thread that reads.

        Nothing comes before anything was read by `refresh`. What cannot be read is left to the next `refresh`.
        """
        if self._lock.acquire(blocking=False):
            try:
                while self._reader is not None and self._take_all(self._reader.poll(COUNT_MAX, 0.0)):
                    pass
            except KafkaClientError as error:
                log.debug("topic %s: nothing can be read on: %s", self.topic, error)
                self._let_go()
            finally:
                self._lock.release()

    def write(self, changes: Changes) -> None:
        """Write without comparing, and read what counts now.

        Raises:
            KafkaClientError: it cannot be written or read.
        """
        with self._lock:
            self._create()
            self._send(changes)
            self._refresh(TIMEOUT_S, stable=True)

    def make(self) -> None:
        """Have the topic."""
        with self._lock:
            self._create()

    def update(self, decide: Callable[[Values], Changes], *, records: Sequence[Outgoing] = ()) -> None:
        """Change what `decide` says, seen what is there; nobody changes anything between the two.

        `records` of other topics are written in the same transaction, if anything is changed.

        It may be asked again, of what is there by then: its own change too, when nobody could tell whether that was
        made. It says nothing where there is nothing to change, and may raise what the caller should see.

        Raises:
            KafkaClientError: it cannot be read or written in time; the change may have been made.
        """
        began_ms = self._clock.monotonic_ms()
        with self._lock:
            self._create()
            # No change that was made is missing here: its writer returned when its marks were written. Only of one that
            # another thread here began, and that may be made yet, nothing is known until somebody tries.
            self._refresh(TIMEOUT_S, stable=True)
            if self._is_done(decide):
                return
        turn, tries, tried_ms, is_made = b"", 0, 0, False
        pace_ms = self._clock.monotonic_ms() - began_ms
        try:
            while not is_made:
                if tries:  # not under the lock: others of this process may read meanwhile, and each try decides anew
                    self._writer.back_off(tries)
                if self._turns or self._writer.was_overtaken or tries > 1:
                    turn = self._wait_turn(turn, pace_ms)
                    if self._is_done(decide):
                        return
                began_ms = self._clock.monotonic_ms()
                is_made = self._try_update(decide, records, turn)
                took_ms = self._clock.monotonic_ms() - began_ms
                tries, pace_ms = tries + 1, max(pace_ms, took_ms)
                # Who was overtaken found out that it was not its turn; the registry is busy, and answers (decision 99).
                tried_ms += 0 if self._writer.was_overtaken else took_ms
                if not is_made and tried_ms > UPDATE_TIMEOUT_S * 1000:
                    text = f"topic {self.topic}: not changed in {tried_ms} ms of trying: {self._writer.trouble}"
                    raise Unreachable(text)
        finally:
            if turn and (not is_made or self._turns.has(turn)):
                self._end_turn(turn)

    def close(self) -> None:
        """Read nothing more; what was read stays known."""
        with self._lock:
            self._let_go()

    # -- changing --------------------------------------------------------------------------------------------------

    def _is_done(self, decide: Callable[[Values], Changes]) -> bool:
        """Nothing is to be changed, by what was read."""
        with self._lock:
            return not decide(dict(self._values)) and not self._writer.is_in_doubt

    def _wait_turn(self, turn: bytes, pace_ms: int) -> bytes:
        """Return when it is our turn to try: which turn. `pace_ms`: so long a try takes now.

        A turn that others ended, since they thought us dead, is another's now, and we are the last again.
        """
        since_ms = self._clock.monotonic_ms()
        was_there = self._turns.has(turn)
        if not was_there:
            turn = self._queue_up()
        while not self._turns.has_come(turn, since_ms, pace_ms):
            self._pause(LOOK_S)
            self.follow()
            if was_there and not self._turns.has(turn):
                turn = self._queue_up()
            was_there = self._turns.has(turn)
        return turn

    def _queue_up(self) -> bytes:
        turn = self._turns.new()
        with self._lock:
            self._send({turn: b"1"})
            self._refresh(TIMEOUT_S, stable=True)
        return turn

    def _end_turn(self, turn: bytes) -> None:
        """Where no change of ours ended it."""
        try:
            with self._lock:
                self._send({turn: None})
        except KafkaClientError as error:
            log.debug("topic %s: others wait for nothing: %s", self.topic, error)

    def _try_update(self, decide: Callable[[Values], Changes], records: Sequence[Outgoing], turn: bytes) -> bool:
        """False: somebody else began after us, and nobody knows yet whether our change was made."""
        with self._lock:
            ended = (lambda: self._turns.until(turn)) if turn else tuple
            if not self._writer.is_written(self._read_marked, decide, records, ended):
                return False
            self._read_marked()
            self._writer.is_in_doubt = False
        return True

    def _read_marked(self) -> Values:
        """Everything that was committed until now, once its marks are written."""
        self._refresh(UPDATE_TIMEOUT_S, stable=False)
        return dict(self._values)

    def _create(self) -> None:
        # Who finds it there needs no right to make topics.
        is_made = (
            not self._topic_id
            and not self._admin.describe([self.topic])
            and self._admin.create_topic(self.topic, partitions=1, config=REGISTRY_CONFIG)
        )
        if self._first and not self._values and (is_made or self._is_empty()):
            self._send(self._first)
            self._first = None

    def _is_empty(self) -> bool:
        """Nobody has ever written there: somebody made it for others to use."""
        try:
            return not self._admin.end_positions(self.topic, [0], stable=False)[0]
        except UnknownTopic:  # made a moment ago, and whoever did writes what it says first
            return False

    def _send(self, changes: Changes) -> None:
        troubles: list[KafkaClientError | None] = []
        sender = self._kafka.sender()
        try:
            for key, value in changes.items():
                sender.send(Outgoing(self.topic, 0, key, value), troubles.append)
            is_flushed = sender.flush(TIMEOUT_S)
        finally:
            sender.close(TIMEOUT_S)
        for trouble in troubles:
            if trouble is not None:
                raise trouble
        if not is_flushed:
            raise Unreachable(f"topic {self.topic}: not written within {TIMEOUT_S:g} s")

    # -- reading ---------------------------------------------------------------------------------------------------

    def _refresh(self, timeout_s: float, *, stable: bool) -> None:
        began_ms = self._clock.monotonic_ms()
        self._read_all(timeout_s, stable=stable)
        self.read_at_ms = began_ms

    def _read_all(self, timeout_s: float, *, stable: bool) -> None:
        described = self._admin.describe([self.topic]).get(self.topic)
        if described is None and self._values:
            self._admin.create_topic(self.topic, partitions=1, config=REGISTRY_CONFIG)
            described = self._admin.describe([self.topic]).get(self.topic)
        if described is None:
            if self._values:  # who decided by them would not know what others have changed meanwhile
                raise Unreachable(f"topic {self.topic}: no broker shows it")
            return  # nothing is recorded, and a mere look makes nothing
        before: dict[bytes, bytes] = {}
        if described.topic_id != self._topic_id:
            before, self._values = self._values, {}
            self._turns.clear()
            self.version += 1
            self._topic_id = described.topic_id
            self._let_go()
        self._read_on(timeout_s, stable=stable)
        missing = {key: value for key, value in before.items() if key not in self._values}
        if missing:
            log.warning("topic %s was made anew; what this process knows of it is recorded again", self.topic)
            self._send(missing)
            self._read_on(timeout_s, stable=stable)

    def _let_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _read_on(self, timeout_s: float, *, stable: bool) -> None:
        """To the stable end, where no open transaction is waited for; or past what was committed, to the last mark."""
        end = self._admin.end_positions(self.topic, [0], stable=stable)[0]
        if self._reader is None:
            begin = self._admin.begin_positions(self.topic, [0])[0]
            if begin >= end:
                return
            self._reader = self._kafka.tail_reader()
            self._reader.assign(self.topic, {0: begin})
        try:
            self._read_to(self._reader, end, timeout_s)
        except KafkaClientError:
            self._let_go()  # another begins anew, whatever became of the log
            raise

    def _read_to(self, reader: TailReader, end: int, timeout_s: float) -> None:
        deadline_ms = self._clock.monotonic_ms() + int(timeout_s * 1000)
        while reader.positions()[0] < end:
            self._take_all(reader.poll(COUNT_MAX, POLL_S))
            if self._clock.monotonic_ms() > deadline_ms:
                position = reader.positions()[0]
                raise Unreachable(f"topic {self.topic}: read to {position}, not to {end}, within {timeout_s:g} s")

    def _take_all(self, records: Sequence[KafkaRecord]) -> bool:
        """True when there were any."""
        for record in records:
            self._take(record.key(), record.value())
        return bool(records)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or self._turns.take(key, value):
            return
        self.version += 1
        if value is None:
            self._values.pop(key, None)
        elif self._is_taken(key, value):
            self._values[key] = value


class _Writer:
    """Makes changes in transactions of the one id that all writers of the topic use. One thread at a time."""

    def __init__(self, kafka: Kafka, topic: str, pause: Callable[[float], None]) -> None:
        """`pause`: for some time, at most so many seconds."""
        self._kafka = kafka
        self._topic = topic
        self._pause = pause
        self.is_in_doubt = False
        """A change was made or not, and nobody knows yet which; a reader to the stable end may miss it."""
        self.was_overtaken = False
        """Somebody else began after the last try; else that had no answer, and there may be nobody to wait for."""
        self.trouble = ""
        """The fault of the latest try that came to nothing."""

    def is_written(
        self,
        read: Callable[[], Values],
        decide: Callable[[Values], Changes],
        records: Sequence[Outgoing],
        ended: Callable[[], Iterable[bytes]],
    ) -> bool:
        """Write what is decided by what was read, as the only writer; False: a later one took over, or no answer came.

        The keys that are `ended`, asked after the reading, are deleted with it.

        Raises:
            KafkaClientError: it cannot be read or written.
        """
        self.was_overtaken = False
        producer = self._kafka.transactional_producer(
            self._topic, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, is_contended=True
        )
        try:
            # From here on writers that began before us can write nothing more, and what they committed has its marks.
            producer.initialise(TIMEOUT_S, known_topic=self._topic)
            changes = decide(read())
            if changes:
                producer.begin()
                for key, value in {**changes, **dict.fromkeys(ended())}.items():
                    producer.produce(Outgoing(self._topic, 0, key, value))
                for record in records:
                    producer.produce(record)
                self.is_in_doubt = True
                producer.commit(TIMEOUT_S)
        except (OutcomeUnknown, TransactionAborted) as error:
            self.was_overtaken = isinstance(error, OutcomeUnknown) and error.is_fenced
            self.trouble = str(error)
            log.info(OVERTAKEN, self._topic, error)
            return False
        finally:
            producer.close()
        return True

    def back_off(self, tries: int) -> None:
        """Wait until the next try, after so many that were lost."""
        self._pause(BACKOFF_S * min(tries, 20))
