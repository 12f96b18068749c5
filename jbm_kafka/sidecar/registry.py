"""What `jbm.registry` says of destinations, as read last, and the writing of it."""

from __future__ import annotations

import logging
import threading
import time

from jbm_kafka.codec.destination_record import DestinationRecord, decode_destination, encode_destination
from jbm_kafka.core.errors import CorruptRecordError, NewerRecordError
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError, Outgoing, TailReader, Unreachable

log = logging.getLogger(__name__)

CONFIG = {"cleanup.policy": "compact"}
TIMEOUT_S = 10.0
POLL_S = 0.2
COUNT_MAX = 1_000


class Registry:
    """Any thread. The latest record of a name counts: docs/decisions/0013-the-count-that-routes.md."""

    def __init__(self, kafka: Kafka, admin: KafkaAdmin, topic: str) -> None:
        self._kafka = kafka
        self._admin = admin
        self._topic = topic
        self._topic_id = ""
        self._reader: TailReader | None = None
        """Of the topic with this id, once it held anything; it stays open, so that a look reads only what is new."""
        self._found: dict[str, DestinationRecord] = {}
        self._lock = threading.Lock()

    def recorded(self, name: str, topic_id: str) -> int | None:
        """The count that routes the destination's units, as read last; None: nothing is known of this topic."""
        found = self._found.get(name)
        return found.partitions if found is not None and found.topic_id == topic_id else None

    def ensure(self, name: str, topic_id: str, partitions: int) -> int:
        """The count that routes; recorded now when none is.

        Raises:
            KafkaClientError: it cannot be read or recorded.
        """
        known = self.recorded(name, topic_id)
        if known is None:
            self.refresh()
            known = self.recorded(name, topic_id)
        if known is None:
            self.record(name, topic_id, partitions)
            known = self.recorded(name, topic_id)
        return partitions if known is None else known

    def record(self, name: str, topic_id: str, partitions: int) -> None:
        """Write it, and read what counts now."""
        with self._lock:
            self._admin.create_topic(self._topic, partitions=1, config=CONFIG)
            self._write({name: DestinationRecord(topic_id, partitions)})
        self.refresh()

    def refresh(self) -> None:
        """Read on to the end. Records that a registry made anew does not have are written again.

        Raises:
            KafkaClientError: no answer.
        """
        with self._lock:
            described = self._admin.describe([self._topic]).get(self._topic)
            if described is None and self._found:
                self._admin.create_topic(self._topic, partitions=1, config=CONFIG)
                described = self._admin.describe([self._topic]).get(self._topic)
            if described is None:  # nothing is recorded, and who only looks makes nothing
                return
            before: dict[str, DestinationRecord] = {}
            if described.topic_id != self._topic_id:
                before, self._found = self._found, {}
                self._topic_id = described.topic_id
                self._let_go()
            self._read_on()
            missing = {name: record for name, record in before.items() if name not in self._found}
            if missing:
                log.warning("topic %s was made anew; what this process knows of it is recorded again", self._topic)
                self._write(missing)
                self._read_on()

    def close(self) -> None:
        """Read nothing more; what was read stays known."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _read_on(self) -> None:
        # Not the high watermark: an open transaction of anybody's would be waited for.
        end = self._admin.end_positions(self._topic, [0], stable=True)[0]
        if self._reader is None:
            begin = self._admin.begin_positions(self._topic, [0])[0]
            if begin >= end:
                return
            self._reader = self._kafka.tail_reader()
            self._reader.assign(self._topic, {0: begin})
        try:
            self._read_to(self._reader, end)
        except KafkaClientError:
            self._let_go()  # another begins anew, whatever became of the log
            raise

    def _read_to(self, reader: TailReader, end: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while reader.positions()[0] < end:
            for record in reader.poll(COUNT_MAX, POLL_S):
                self._take(record.key(), record.value())
            if time.monotonic() > deadline_s:
                position = reader.positions()[0]
                raise Unreachable(f"topic {self._topic}: read to {position}, not to {end}, within {TIMEOUT_S:g} s")

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            found = None if value is None else decode_destination(key, value)
        except (CorruptRecordError, NewerRecordError) as error:
            log.warning("topic %s: the record of key %r is passed over: %s", self._topic, key, error)
            return
        if found is not None:
            self._found[found[0]] = found[1]

    def _write(self, records: dict[str, DestinationRecord]) -> None:
        troubles: list[KafkaClientError | None] = []
        sender = self._kafka.sender()
        try:
            for name, record in records.items():
                key, value = encode_destination(name, record)
                sender.send(Outgoing(self._topic, 0, key, value), troubles.append)
            is_told = sender.flush(TIMEOUT_S)
        finally:
            sender.close(TIMEOUT_S)
        for trouble in troubles:
            if trouble is not None:
                raise trouble
        if not is_told:
            raise Unreachable(f"topic {self._topic}: not written within {TIMEOUT_S:g} s")
