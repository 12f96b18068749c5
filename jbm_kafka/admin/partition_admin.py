"""More partitions for a queue or topic in use, and what becomes of its units (UNIT-11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jbm_kafka.admin.deletion import belongings
from jbm_kafka.admin.destination_admin import PARTITIONS_MAX
from jbm_kafka.admin.looking_admin import LookingAdmin
from jbm_kafka.admin.partition_admission import DestinationInUse, PathsEnded, Tell, admit, end_paths, log, unit_paths
from jbm_kafka.codec.registry_records import subscriptions_in
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.arguments import check_callable, checked_flag, checked_seconds
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.unit_paths import SETTLED_AFTER_S


class PartitionAdmin(LookingAdmin):
    """Widens queues and topics. Any thread."""

    def admit_partitions(
        self,
        destination: Queue | Topic | str,
        *,
        partitions: int | None = None,
        force: bool = False,
        wait_s: float = SETTLED_AFTER_S,
        tell: Tell | None = None,
    ) -> tuple[int, int]:
        """Route the units of a queue or topic in use by more partitions: the count before, and now.

        A unit of which anything is held, by the queue or by any subscription of the topic, stays where it is, by a
        path, until `end_paths`. Killed at any moment: again.

        Args:
            partitions: so many, which its topic gets; None: as many as it has, or as an admission that was killed gives
                it. The count that it has already takes such an admission back.
            force: whatever is held, at once: order across that point is given up.
            wait_s: until every sender that has not heard of it has stopped going by the old count, or was given up. In
                memory it waits only until all have heard.
            tell: is called with a line that says so before that wait; None: it is logged.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            IllegalStateError: it is used in other namespaces too, an open transaction hides what it holds, or that
                is of too many units; nothing is changed.
        """
        wait_s = checked_seconds("wait_s", wait_s)
        checked_flag("force", force)
        check_callable("tell", tell)
        if partitions is not None:
            checked_int("partitions", partitions, 1, PARTITIONS_MAX, "")
        with self._asking(f"admit partitions of {destination}"):
            used = self._in_use(destination)
            same_log = Queue(used.destination.name)
            found = belongings(same_log, self._namespace, admin=self._admin, registry=self._registry)
            wanted = partitions or max(used.found.partitions, used.now().next_partitions)
            grow = self._found.grower(used.destination)
            return admit(used, wanted, add=grow, others=found.others, force=force, wait_s=wait_s, tell=tell or log.info)

    def end_paths(
        self, destination: Queue | Topic | str, *, wait_s: float = SETTLED_AFTER_S, tell: Tell | None = None
    ) -> PathsEnded:
        """Route units by their hash again that kept their partition, and of which nothing is held any more.

        `tell` as of `admit_partitions`.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            IllegalStateError: an open transaction hides what it holds.
        """
        wait_s = checked_seconds("wait_s", wait_s)
        check_callable("tell", tell)
        with self._asking(f"end paths of {destination}"):
            return end_paths(self._in_use(destination), wait_s=wait_s, tell=tell or log.info)

    def unit_paths(self, destination: Queue | Topic | str) -> Mapping[str, int]:
        """The units of a queue or topic that keep a partition, whatever their hash says, with that partition."""
        with self._asking(f"look at units of {destination}"):
            return unit_paths(self._in_use(destination).now())

    def _in_use(self, destination: Queue | Topic | str) -> DestinationInUse:
        named = self._found.named(destination)
        found = self._found.described(named)
        if found is None:
            raise self._found.missing(named)  # deleted in between
        self._registry.refresh()
        places, heard = self._registry.places, self._cluster.heard
        return DestinationInUse(named, found, places, self._admin, held=lambda: self._held_of(named), heard=heard)

    def _held_of(self, destination: Queue | Topic) -> Iterator[Seen]:
        """All that it holds; of a topic what each subscription that there is by then holds.

        One that is made later begins where the log ends then, and holds nothing that was sent before (decision 52).
        """
        if isinstance(destination, Queue):
            yield from self._seen(destination)
            return
        self._registry.refresh()
        for _, record in subscriptions_in(self._registry.log.values()):
            if record.subscription.topic == destination and not record.is_ending:
                yield from self._seen(record)
