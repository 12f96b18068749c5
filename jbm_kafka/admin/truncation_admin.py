"""Tells what the log of a destination keeps and who needs it, and deletes the rest for an operator."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.log_keepers import WORDS, LogKeeper, keepers_of
from jbm_kafka.codec.registry_records import subscriptions_in
from jbm_kafka.core.channel.truncation import Cut
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.live_settings import LiveSettings
from jbm_kafka.registry.retention import RetentionLook


@dataclass(frozen=True, slots=True)
class KeptPartition:
    """The log of one partition."""

    partition: int
    """The number of the Kafka topic's partition."""
    begin: int
    """Where the log begins."""
    needed_from: int
    """Everybody is done with what lies below; `begin` where nothing may be deleted."""
    end: int
    """One past the last committed record."""
    needed_by: tuple[str, ...]
    """Who is done with the least, as "group NAME" and "reader KIND|NAME"; empty: nobody needs anything of it."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """The part of a destination that was or may be deleted, partition by partition."""

    destination: str
    """Its name."""
    partitions: tuple[KeptPartition, ...]
    """In their order."""
    because: str
    """Why nothing may be deleted at all; empty: what lies below `needed_from` may."""
    keepers: tuple[LogKeeper, ...] = ()
    """For whom the rest is kept, and what lets it go: who keeps most first."""
    not_by_itself: str = ""
    """Why what nobody needs stays until somebody has it deleted; empty: processes that receive delete it."""

    @property
    def deletable(self) -> int:
        """How many records nobody needs."""
        return 0 if self.because else sum(each.needed_from - each.begin for each in self.partitions)

    @property
    def kept(self) -> int:
        """How many records the log has beside those."""
        return sum(each.end - each.begin for each in self.partitions) - self.deletable


class TruncationAdmin:
    """Looks, and deletes. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def truncate(self, destination: Queue | Topic | str, *, is_dry_run: bool) -> Truncation:
        """Delete what everybody is done with, whatever its setting says; what it was before."""
        core = self._core
        with core.asking(f"look what is kept of {destination}"), closing(core.kafka.log_reader()) as reader:
            found = core.catalog.named(destination)
            described = core.catalog.described(found)
            if described is None:
                raise core.catalog.missing(found)
            topic = found.kafka_topic(core.namespace)
            look = RetentionLook(core.admin, core.registry, core.cluster.clock, core.namespace)
            kept = look.look(found, range(described.partitions), setting="settled", reader=reader)
            before = {partition: cut.before for partition, cut in kept.cuts.items() if cut.frees}
            keepers = keepers_of(topic, found.name, kept.cuts, self._subscriptions(found), reader)
            # What the factories of receiving processes say is not known here, and rarely says anything of this.
            recorded = LiveSettings(core.registry.log, {}, namespace=core.namespace)
            recorded.take()
            setting = recorded.resolve(found.name).truncate
            not_by_itself = look.why_kept(found.name, kept.topic_id, setting=setting)
            if before and not kept.because and not is_dry_run:
                core.admin.delete_records(topic, before)
        rows = tuple(_row(partition, cut) for partition, cut in sorted(kept.cuts.items()))
        return Truncation(found.name, rows, kept.because, keepers, not_by_itself)

    def _subscriptions(self, destination: Queue | Topic) -> dict[str, Subscription]:
        """Return those of a topic, by consumer group; the registry was read a moment ago."""
        records = [record for _, record in subscriptions_in(self._core.registry.log.values())]
        return {
            ChannelGroup.of_subscription(
                each.subscription, each, namespace=self._core.namespace
            ).group_id: each.subscription
            for each in records
            if each.subscription.topic == destination
        }


def _row(partition: int, cut: Cut) -> KeptPartition:
    needed_by = tuple(sorted({f"{WORDS[pin.kind]} {pin.name}" for pin in cut.pins}))
    return KeptPartition(partition, cut.begin, cut.before, cut.end, needed_by)
