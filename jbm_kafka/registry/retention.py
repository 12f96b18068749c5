"""Finds out how much of a destination's log may be deleted, and who needs the rest, from what Kafka has recorded
(decision 73)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jbm_kafka.codec.reader_record import LETTER_KIND, PRIVATE_KIND, readers_in
from jbm_kafka.codec.registry_records import subscriptions_in, unreadable_subscriptions
from jbm_kafka.core.channel.truncation import (
    RECEIVERS,
    ChannelFacts,
    Cut,
    Pin,
    PinKind,
    decide_cut,
    is_truncated,
    needed_from,
    reader_pin,
)
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports import Clock, KafkaAdmin, LogReader
from jbm_kafka.registry.changelog_positions import ChangelogPositions
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.foreign_groups import ForeignGroups
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.registry_log import Values

BY_SETTING = "its setting truncate says never"
BY_MAKER = "jbm-kafka did not make its topic, and no setting says what becomes of it"
NOBODY_SETTLED = "nobody has received from it yet"


@dataclass(frozen=True, slots=True)
class Retention:
    """The part of a destination's log that is kept, and why."""

    cuts: Mapping[int, Cut]
    """The cut of each partition."""
    because: str
    """Why nothing is deleted at all, for people; empty: up to the cuts everything is."""
    topic_id: str = ""


class RetentionLook:
    """Looks at one destination after the other. One thread."""

    def __init__(self, admin: KafkaAdmin, registry: Registry, clock: Clock, namespace: str) -> None:
        self._admin = admin
        self._registry = registry
        self._clock = clock
        self._namespace = namespace
        self._foreign = ForeignGroups(admin, clock, namespace)
        self._positions: dict[str, ChangelogPositions] = {}

    def look(
        self, destination: Destination, partitions: Sequence[int], *, setting: str | None, reader: LogReader
    ) -> Retention:
        """Return what of these partitions may go now.

        Raises:
            KafkaClientError: no answer, or no such topic.
        """
        topic = destination.kafka_topic(self._namespace)
        # Before everything else: a subscription that is not in the registry yet needs nothing below.
        ends = self._admin.end_positions(topic, partitions, stable=True)
        begins = self._admin.begin_positions(topic, partitions)
        described = self._admin.describe([topic]).get(topic)
        self._registry.refresh()
        values = self._registry.log.values()
        topic_id = "" if described is None else described.topic_id
        because = self.why_kept(destination.name, topic_id, setting=setting)
        because = because or _unreadable(values)
        groups = self._groups(destination, values)
        pins = self._channel_pins(topic_id, groups, partitions, reader)
        self._add_readers(pins, topic, topic_id, values)
        if not any(pin.kind in RECEIVERS for found in pins.values() for pin in found):
            because = because or NOBODY_SETTLED
        cuts = {p: decide_cut(begin=begins[p], end=ends[p], pins=pins[p]) for p in partitions}
        if any(cut.frees for cut in cuts.values()) or because:  # else nobody need be asked
            because = because or self._foreign.why_unknown()
            ours = {group.group_id for group in groups}
            for name, offsets in self._foreign.committed(topic, partitions, ours).items():
                for partition, offset in offsets.items():
                    pins[partition].append(Pin(PinKind.GROUP, name, offset))
            cuts = {p: decide_cut(begin=begins[p], end=ends[p], pins=pins[p]) for p in partitions}
        return Retention(cuts, because, topic_id)

    def why_kept(self, name: str, topic_id: str, *, setting: str | None) -> str:
        """Why nothing of a destination is deleted by itself, by what was read last; empty: what is settled is."""
        if is_truncated(setting, is_ours=self._registry.is_made_by_us(name, topic_id)):
            return ""
        return BY_MAKER if setting is None else BY_SETTING

    def _groups(self, destination: Destination, values: Values) -> list[ChannelGroup]:
        """Return those of the queue, or of the subscriptions that the topic has."""
        if isinstance(destination, Queue):
            return [ChannelGroup.of_queue(destination, namespace=self._namespace)]
        return [
            ChannelGroup.of_subscription(record.subscription, record, namespace=self._namespace)
            for _, record in subscriptions_in(values)
            if record.subscription.topic == destination and not record.is_ending
        ]

    def _channel_pins(
        self, topic_id: str, groups: Sequence[ChannelGroup], partitions: Sequence[int], reader: LogReader
    ) -> dict[int, list[Pin]]:
        pins: dict[int, list[Pin]] = {partition: [] for partition in partitions}
        if groups:
            changelog = groups[0].changelog_topic
            positions = self._positions.setdefault(changelog, ChangelogPositions(changelog))
            positions.read_on(partitions, admin=self._admin, reader=reader)
        for group in groups:
            committed = self._admin.committed(group.group_id, group.topic, partitions)
            begins = group.begins(topic_id)
            for partition in partitions:
                begin = None if group.subscription is None else begins.get(partition, 0)
                try:
                    position = positions.of(partition, group.group_id)
                except CorruptRecordError:
                    needed: int | None = 0
                else:
                    offset = committed[partition].position if partition in committed else None
                    needed = needed_from(ChannelFacts(group.log_id(topic_id), position, offset, begin))
                if needed is not None:
                    branch = positions.branch_with(partition, group.group_id, needed)
                    pins[partition].append(Pin(PinKind.CHANNEL, group.group_id, needed, branch))
        return pins

    def _add_readers(self, pins: dict[int, list[Pin]], topic: str, topic_id: str, values: Values) -> None:
        now_ms = self._clock.now_ms()
        for _, reader in readers_in(values):
            if reader is None or reader.topic != topic or not reader.counts(now_ms):
                continue
            is_private, positions = reader.kind == PRIVATE_KIND, reader.positions
            if reader.topic_id != topic_id:
                if not is_private:
                    continue
                positions = {}  # the topic was made anew, and its process reads that from the beginning
            kind = PinKind.PRIVATE if is_private else PinKind.READER
            for partition, found in pins.items():
                name = f"{reader.kind}|{reader.name}"
                pin = reader_pin(name, positions, partition, reads_all=reader.kind != LETTER_KIND, kind=kind)
                if pin is not None:
                    found.append(pin)


def _unreadable(values: Values) -> str:
    """Why it is not known who needs what; empty: it is."""
    bad = [key for key, reader in readers_in(values) if reader is None] or unreadable_subscriptions(values)
    return f"the record {bad[0].decode(errors='replace')!r} of the registry cannot be read here" if bad else ""
