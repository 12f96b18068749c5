"""What `jbm.registry` says of destinations, as read last, and the writing of it."""

from __future__ import annotations

import logging
import threading

from jbm_kafka.codec.destination_record import DestinationRecord, decode_destination, encode_destination
from jbm_kafka.core.errors import CorruptRecordError, NewerRecordError
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError, Outgoing, Unreachable

log = logging.getLogger(__name__)

CONFIG = {"cleanup.policy": "compact"}
TIMEOUT_S = 10.0


class Registry:
    """Any thread. The latest record of a name counts: docs/decisions/0013-the-count-that-routes.md."""

    def __init__(self, kafka: Kafka, admin: KafkaAdmin, topic: str) -> None:
        self._kafka = kafka
        self._admin = admin
        self._topic = topic
        self._topic_id = ""
        self._position = 0
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
                self._topic_id, self._position = described.topic_id, 0
            self._read_on()
            missing = {name: record for name, record in before.items() if name not in self._found}
            if missing:
                log.warning("topic %s was made anew; what this process knows of it is recorded again", self._topic)
                self._write(missing)
                self._read_on()

    def _read_on(self) -> None:
        # Not the high watermark: an open transaction of anybody's would be waited for.
        end = self._admin.end_positions(self._topic, [0], stable=True)[0]
        if end <= self._position:
            return
        reader = self._kafka.log_reader()
        try:
            for record in reader.read(self._topic, {0: (self._position, end)}, timeout_s=TIMEOUT_S):
                self._take(record.key(), record.value())
        finally:
            reader.close()
        self._position = end

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
