"""Destinations in `jbm.registry`, as read last, and the writing of them."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping

from jbm_kafka.codec.destination_record import (
    DestinationRecord,
    decode_destination,
    destination_key,
    encode_destination,
)
from jbm_kafka.codec.pause_record import pause_key
from jbm_kafka.codec.registry_records import (
    adopted_key,
    decode_topic,
    encode_topic,
    maker_key,
    selectors_key,
    topic_key,
)
from jbm_kafka.codec.unit_place_records import is_place_readable, moving_key, path_key, paths_of, without_unit
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError
from jbm_kafka.ports import Clock, Kafka, KafkaAdmin, TopicDescription
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.steps import pause_thread
from jbm_kafka.registry.own_addresses import first_records
from jbm_kafka.registry.pauses import Pauses
from jbm_kafka.registry.registry_log import Changes, RegistryLog
from jbm_kafka.registry.unit_paths import UnitPaths

log = logging.getLogger(__name__)


class Registry:
    """The records of destinations. Any thread may call it.

    The latest record of a name counts: decision 13.
    """

    def __init__(
        self,
        kafka: Kafka,
        admin: KafkaAdmin,
        topic: str,
        *,
        clock: Clock | None = None,
        pause: Callable[[float], None] = pause_thread,
        chance: Callable[[], float] = random.random,
    ) -> None:
        clock = clock or SystemClock()
        self.log = RegistryLog(
            kafka,
            admin,
            topic,
            is_taken=self._is_taken,
            first=first_records(topic),
            clock=clock,
            pause=pause,
            chance=chance,
        )
        """All records, for callers that know the other kinds."""
        self.pauses = Pauses(self.log)
        self.places = UnitPaths(self.log)
        self._topic = topic

    def recorded(self, name: str, topic_id: str) -> int | None:
        """The count that routes the destination's units, as read last; None: nothing is known of this topic."""
        key = destination_key(name)
        value = self.log.get(key)
        found = None if value is None else decode_destination(key, value)
        return found[1].partitions if found is not None and found[1].topic_id == topic_id else None

    def recorded_of(self, described: Mapping[str, TopicDescription]) -> frozenset[str]:
        """Return those of them that somebody used as a queue or a topic. One whose record cannot be read is among
        them."""

        def is_recorded(name: str, topic_id: str) -> bool:
            try:
                return self.recorded(name, topic_id) is not None
            except (CorruptRecordError, NewerRecordError):
                return True  # a newer version wrote it: it is used

        return frozenset(name for name, found in described.items() if is_recorded(name, found.topic_id))

    def names_among(self, names: Collection[str]) -> list[str]:
        """Return those of them of which a count is recorded, for any topic of the name."""
        return [name for name in names if self.log.get(destination_key(name)) is not None]

    def is_topic(self, name: str, topic_id: str) -> bool:
        """The destination of this name is a topic and not a queue, as read last."""
        value = self.log.get(topic_key(name))
        return value is not None and decode_topic(value) == topic_id

    def marked_names(self) -> list[str]:
        """Names that a topic has or had."""
        return [key.removeprefix(topic_key("")).decode() for key in self.log.values() if key.startswith(topic_key(""))]

    def topics_of(self, described: Mapping[str, TopicDescription]) -> frozenset[str]:
        """Return those of them that are topics."""
        return frozenset(name for name, found in described.items() if self.is_topic(name, found.topic_id))

    def ensure_topic(self, name: str, topic_id: str) -> bool:
        """Record that the destination is a topic; False: it is a queue's name already.

        Raises:
            KafkaClientError: it cannot be read or recorded.
        """
        if self.is_topic(name, topic_id):
            return True

        def claim(values: Mapping[bytes, bytes]) -> Changes:
            found = values.get(topic_key(name))
            if found is not None and decode_topic(found) == topic_id:
                return {}
            return {} if self.recorded(name, topic_id) is not None else {topic_key(name): encode_topic(topic_id)}

        self.log.update(claim)
        return self.is_topic(name, topic_id)

    def note_made(self, name: str, topic_id: str) -> None:
        """Record that we made the destination's topic (decision 73).

        Raises:
            KafkaClientError: it cannot be recorded; then it counts as somebody else's.
        """
        self.log.write({maker_key(name): encode_topic(topic_id)})

    def is_made_by_us(self, name: str, topic_id: str | None = None) -> bool:
        """Return True if this topic of the destination, or without an id any, is one that we made, as read last."""
        value = self.log.get(maker_key(name))
        if value is None or self.is_adopted(name, decode_topic(value)):
            return False
        return topic_id in (None, decode_topic(value))

    def note_adopted(self, name: str, topic_id: str) -> None:
        """Record that others made this topic: copies have the configuration by which we know our own.

        Raises:
            KafkaClientError: it cannot be read or recorded.
        """
        self.log.write({adopted_key(name): encode_topic(topic_id)})

    def is_adopted(self, name: str, topic_id: str) -> bool:
        """Return True if others made this topic of the destination, as read last."""
        value = self.log.get(adopted_key(name))
        return value is not None and decode_topic(value) == topic_id

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
        key, value = encode_destination(name, DestinationRecord(topic_id, partitions))
        self.log.write({key: value})

    def is_recorded(self, name: str, topic_id: str | None) -> bool:
        """Return True if anything is recorded of this topic, as read last; of None: of any topic of that name."""
        return bool(self._keys(name, topic_id))

    def forget(self, name: str, topic_id: str | None) -> None:
        """Delete what is recorded of this topic, or, of None, of any of that name. Again: nothing happens.

        Raises:
            KafkaClientError: it cannot be read or written.
        """
        self.refresh()
        keys = self._keys(name, topic_id)
        if keys:
            keys += [
                key
                for key in (pause_key(name), moving_key(name), maker_key(name), adopted_key(name))
                if self.log.get(key) is not None
            ]
            keys += [path_key(name, unit) for unit in paths_of(self.log.values(), name)]
        if keys:
            self.log.write(dict.fromkeys(keys))

    def _keys(self, name: str, topic_id: str | None) -> list[bytes]:
        """Return the keys of the records that tell of this topic, or, of None, of any of that name."""
        count, kind, selectors = destination_key(name), topic_key(name), selectors_key(name)
        if topic_id is None:
            return [key for key in (count, kind, selectors) if self.log.get(key) is not None]
        found = {
            count: self.recorded(name, topic_id) is not None,
            kind: self.is_topic(name, topic_id),
            selectors: self.log.get(selectors) is not None,
        }
        return [key for key, is_recorded in found.items() if is_recorded]

    def refresh(self) -> None:
        """Read on to the end. Records that a registry made anew does not have are written again.

        Raises:
            KafkaClientError: no answer.
        """
        self.log.refresh()

    def close(self) -> None:
        """Read nothing more; what was read stays known."""
        self.log.close()

    def _is_taken(self, key: bytes, value: bytes) -> bool:
        """A record of where units are that cannot be read leaves what was known before it."""
        try:
            is_place_readable(key, value)
        except (CorruptRecordError, NewerRecordError) as error:
            log.warning("topic %s: the record of key %r is passed over: %s", self._topic, without_unit(key), error)
            return False
        return True
