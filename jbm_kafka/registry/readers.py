"""Readers that join no group and must not be overtaken by deletion, as the registry has them (decision 63)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jbm_kafka.codec.reader_record import (
    LETTER_KIND,
    PRIVATE_KIND,
    RegisteredReader,
    encode_reader,
    reader_key,
    readers_in,
)
from jbm_kafka.registry.registry_log import Changes, RegistryLog

SPARK_LEASE_MS = 7 * 24 * 60 * 60 * 1000
"""A reader of Spark counts so long after it was heard of last."""


FOR_EVER_MS = 253_402_214_400_000
"""The last day that dates can show."""


def renew_reader(registry: RegistryLog, reader: RegisteredReader) -> None:
    """Record how far it is. What it may still read is kept for it from now on, until its lease ends.

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    key, value = reader_key(reader.kind, reader.name), encode_reader(reader)
    registry.update(lambda values: {} if values.get(key) == value else {key: value})


def renew_readers(
    registry: RegistryLog, readers: Sequence[RegisteredReader], ended: Sequence[RegisteredReader]
) -> None:
    """Record how far these are, and that nothing is kept any more for those that ended; all in one write.

    Nothing is compared, for nobody else changes them: many processes may renew theirs at the same time.

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    changes: Changes = {reader_key(each.kind, each.name): None for each in ended}
    registry.write({**changes, **{reader_key(each.kind, each.name): encode_reader(each) for each in readers}})


def private_readers(values: Mapping[bytes, bytes], now_ms: int, *, topic: str | None = None) -> list[RegisteredReader]:
    """One for each process and topic with private subscriptions, as far as it was heard of lately.

    `topic`: the Kafka topic whose are wanted; None: of all.
    """
    found = [reader for _, reader in readers_in(values) if reader is not None and reader.kind == PRIVATE_KIND]
    return [each for each in found if topic in (None, each.topic) and each.counts(now_ms)]


def is_kept(values: Mapping[bytes, bytes], topic: str, topic_id: str, partition: int, offset: int) -> bool:
    """Return True if the registry says that this record stays: it is the original of a dead letter without its body."""
    found = [reader for _, reader in readers_in(values) if reader is not None and reader.kind == LETTER_KIND]
    return any(
        (each.topic, each.topic_id) == (topic, topic_id) and each.positions.get(partition, offset + 1) <= offset
        for each in found
    )


def keep_original(registry: RegistryLog, topic: str, topic_id: str, partition: int, offset: int) -> None:
    """Record that this record and all behind it stay in the log, until an operator ends that (REDELIVER-4).

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    key = reader_key(LETTER_KIND, topic)

    def kept(values: Mapping[bytes, bytes]) -> Changes:
        if is_kept(values, topic, topic_id, partition, offset):
            return {}
        found = {each.name: each for _, each in readers_in(values) if each is not None and each.kind == LETTER_KIND}
        before = found.get(topic)
        positions = dict(before.positions) if before is not None and before.topic_id == topic_id else {}
        reader = RegisteredReader(LETTER_KIND, topic, topic, topic_id, {**positions, partition: offset}, 0, FOR_EVER_MS)
        return {key: encode_reader(reader)}

    registry.update(kept)


def registered_readers(registry: RegistryLog) -> list[RegisteredReader]:
    """All whose records can be read here, by topic and name; also those that are forgotten.

    Raises:
        KafkaClientError: no answer.
    """
    registry.refresh()
    found = [reader for _, reader in readers_in(registry.values()) if reader is not None]
    return sorted(found, key=lambda each: (each.topic, each.kind, each.name))


def end_reader(registry: RegistryLog, kind: str, name: str) -> bool:
    """Nothing is kept for it any more; False: there was no such reader.

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    key = reader_key(kind, name)
    registry.refresh()
    is_there = registry.get(key) is not None

    def without(values: Mapping[bytes, bytes]) -> Changes:
        return {key: None} if key in values else {}

    registry.update(without)
    return is_there
