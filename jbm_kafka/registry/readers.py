"""Readers that join no group and must not be overtaken by deletion, as the registry has them (decision 63)."""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.codec.reader_record import RegisteredReader, encode_reader, reader_key, readers_in
from jbm_kafka.registry.registry_log import Changes, RegistryLog

SPARK_LEASE_MS = 7 * 24 * 60 * 60 * 1000
"""A reader of Spark counts so long after it was heard of last."""


def renew_reader(registry: RegistryLog, reader: RegisteredReader) -> None:
    """Record how far it is. What it may still read is kept for it from now on, until its lease ends.

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    key, value = reader_key(reader.kind, reader.name), encode_reader(reader)
    registry.update(lambda values: {} if values.get(key) == value else {key: value})


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
