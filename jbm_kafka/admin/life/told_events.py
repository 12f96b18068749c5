"""The events of one consumer group, as far back as somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TypeVar

from jbm_kafka.codec.events import decode_events
from jbm_kafka.codec.operator_actions import OperatorAction, decode_operator_action, operator_action_key
from jbm_kafka.core.channel.entries import ChannelEvents
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports import KafkaAdmin, LogReader
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS

MARGIN_MS = 60_000
"""The clocks of processes may be so far apart."""
CHUNK = 2_000
READ_TIMEOUT_S = 10.0
Told = TypeVar("Told")
READ_S = 10.0
"""Events are read for so long at most: a partition has those of every sixteenth queue, of seven days."""


class ToldEvents:
    """Reads `jbm.events` of one namespace. One thread."""

    def __init__(self, admin: KafkaAdmin, reader: LogReader, namespace: str) -> None:
        self._topic = events_topic(namespace)
        self._admin = admin
        self._reader = reader
        self._kept: dict[tuple[str, str, int], tuple[int, Sequence[ChannelEvents]]] = {}
        self._actions: dict[str, Sequence[OperatorAction]] = {}
        self.notes: list[str] = []
        """The parts that were not read, in words."""

    def of(self, group: str, topic: str, partition: int, since_ms: int) -> Sequence[ChannelEvents]:
        """Return those about this partition of a topic, in the order of checkpoints, since then or a little longer.

        Raises:
            KafkaClientError: they cannot be read.
        """
        key = group, topic, partition
        known = self._kept.get(key)
        if known is not None and known[0] <= since_ms:
            return known[1]
        read = self._read(group.encode(), decode_events, group, since_ms)
        found = [each for each in read if (each.topic, each.partition) == (topic, partition)]
        self._kept[key] = since_ms, found
        return found

    def operator_actions(self, destination: str, since_ms: int) -> Sequence[OperatorAction]:
        """Return what operators did there by the console, each when it began and when it was over.

        Raises:
            KafkaClientError: they cannot be read.
        """
        if destination not in self._actions:
            key = operator_action_key(destination)
            self._actions[destination] = self._read(key, decode_operator_action, destination, since_ms)
        return self._actions[destination]

    def _read(self, key: bytes, decode: Callable[[bytes], Told], of: str, since_ms: int) -> Sequence[Told]:
        described = self._admin.describe([self._topic]).get(self._topic)
        if described is None:
            return ()
        place = partition_for(key, SYSTEM_PARTITIONS)
        end = self._admin.end_positions(self._topic, [place], stable=True)[place]
        at = self._admin.positions_since(self._topic, [place], since_ms - MARGIN_MS)[place]
        found: list[Told] = []
        unreadable, deadline, told_to_ms = 0, monotonic() + READ_S, since_ms
        while at < end:
            if monotonic() > deadline:
                self.notes.append(
                    f"events of {of} were read up to {_when(told_to_ms)} only: there are {end - at} more records "
                    f"in {self._topic} than {READ_S:g} s are enough for"
                )
                break
            upto = min(at + CHUNK, end)
            for record in self._reader.read(self._topic, {place: (at, upto)}, timeout_s=READ_TIMEOUT_S):
                told_to_ms = record.timestamp()[1]
                if record.key() != key:
                    continue
                try:
                    found.append(decode(record.value() or b""))
                except CorruptRecordError:
                    unreadable += 1
            at = upto
        if unreadable:
            self.notes.append(
                f"{unreadable} records of {self._topic} cannot be read here: damaged, or a newer version's"
            )
        return found


def _when(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
