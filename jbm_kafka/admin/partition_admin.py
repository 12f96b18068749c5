"""More partitions for a queue or topic in use, and what becomes of its units (UNIT-11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jbm_kafka.admin.cluster.admin_core import AdminCore, Tell
from jbm_kafka.admin.deletion import belongings
from jbm_kafka.admin.destination_admin import PARTITIONS_MAX
from jbm_kafka.admin.partition_admission import DestinationInUse, PathsEnded, admit, end_paths, log, unit_paths
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.codec.registry_records import SubscriptionRecord, subscriptions_in
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.subscription import NAME_LENGTH_MAX, Subscription, SubscriptionKind
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import check_callable, checked_flag, checked_seconds
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.readers import private_readers


def _all_from(reader: RegisteredReader, topic: Topic) -> SubscriptionRecord:
    """Return what a process's private subscriptions may hold, as if one that chooses nothing had settled all before."""
    begins = tuple(reader.positions.get(partition, 0) for partition in range(max(reader.positions, default=-1) + 1))
    made_up = Subscription(topic, SubscriptionKind.PRIVATE, reader.name[:NAME_LENGTH_MAX])
    return SubscriptionRecord(made_up, reader.topic_id, "", begins)


class PartitionAdmin:
    """Widens queues and topics. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def admit(
        self,
        destination: Queue | Topic | str,
        partitions: int | None,
        *,
        force: bool,
        wait_s: float,
        tell: Tell | None,
    ) -> tuple[int, int]:
        """Route its units by more partitions: the count before, and now."""
        wait_s = checked_seconds("wait_s", wait_s)
        checked_flag("force", force)
        check_callable("tell", tell)
        if partitions is not None:
            checked_int("partitions", partitions, 1, PARTITIONS_MAX, "")
        with self._core.asking(f"admit partitions of {destination}"):
            used = self._in_use(destination)
            same_log = Queue(used.destination.name)
            core, now_ms = self._core, self._core.cluster.clock.now_ms()
            found = belongings(same_log, core.namespace, admin=core.admin, registry=core.registry, now_ms=now_ms)
            wanted = partitions or max(used.found.partitions, used.now().next_partitions)
            grow = self._core.catalog.grower(used.destination)
            return admit(used, wanted, add=grow, others=found.others, force=force, wait_s=wait_s, tell=tell or log.info)

    def end_paths(self, destination: Queue | Topic | str, wait_s: float, tell: Tell | None) -> PathsEnded:
        """Route units by their hash again of which nothing is held."""
        wait_s = checked_seconds("wait_s", wait_s)
        check_callable("tell", tell)
        with self._core.asking(f"end paths of {destination}"):
            return end_paths(self._in_use(destination), wait_s=wait_s, tell=tell or log.info)

    def unit_paths(self, destination: Queue | Topic | str) -> Mapping[str, int]:
        """The units that keep a partition, with it."""
        with self._core.asking(f"look at units of {destination}"):
            return unit_paths(self._in_use(destination).now())

    def _in_use(self, destination: Queue | Topic | str) -> DestinationInUse:
        named = self._core.catalog.named(destination)
        found = self._core.catalog.described(named)
        if found is None:
            raise self._core.catalog.missing(named)  # deleted in between
        self._core.registry.refresh()
        places, heard = self._core.registry.places, self._core.cluster.heard
        return DestinationInUse(named, found, places, self._core.admin, held=lambda: self._held_of(named), heard=heard)

    def _held_of(self, destination: Queue | Topic) -> Iterator[Seen]:
        """All that it holds; of a topic what each subscription that there is by then holds.

        One that is made later begins where the log ends then, and holds nothing that was sent before (decision 52).
        """
        if isinstance(destination, Queue):
            yield from self._core.seen(destination)
            return
        self._core.registry.refresh()
        for _, record in subscriptions_in(self._core.registry.log.values()):
            if record.subscription.topic == destination and not record.is_ending:
                yield from self._core.seen(record)
        now_ms, topic = self._core.cluster.clock.now_ms(), destination.kafka_topic(self._core.namespace)
        for reader in private_readers(self._core.registry.log.values(), now_ms, topic=topic):
            yield from self._core.seen(_all_from(reader, destination))
