"""More partitions for a queue in use, and what becomes of its units (UNIT-11)."""

from collections.abc import Mapping

from jbm_kafka.admin.asked import queue_of
from jbm_kafka.admin.deletion import belongings
from jbm_kafka.admin.destination_admin import PARTITIONS_MAX
from jbm_kafka.admin.looking_admin import LookingAdmin
from jbm_kafka.admin.partition_admission import PathsEnded, QueueInUse, admit, end_paths, unit_paths
from jbm_kafka.core.call_arguments import explained
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.arguments import checked_flag, checked_seconds
from jbm_kafka.sidecar.places import SETTLED_AFTER_S


@explained
class PartitionAdmin(LookingAdmin):
    """Widens queues. Any thread."""

    def admit_partitions(
        self, queue: Queue | str, *, partitions: int | None = None, force: bool = False, wait_s: float = SETTLED_AFTER_S
    ) -> tuple[int, int]:
        """Route the units of a queue in use by more partitions: the count before, and now (UNIT-11).

        A unit of which anything is held stays where it is, by a path, until `end_paths`. Killed at any moment: again.

        Args:
            partitions: so many, which its topic gets; None: as many as it has, or as an admission that was killed gives
                it. The count that it has already takes such an admission back.
            force: whatever is held, at once: order across that point is given up.
            wait_s: until every sender that has not heard of it has stopped going by the old count, or was given up.

        Raises:
            InvalidDestinationError: there is no such queue, or it is a topic.
            IllegalStateError: it is a queue in other namespaces too, an open transaction hides what it holds, or that
                is of too many units; nothing is changed.
        """
        queue, wait_s = queue_of(queue), checked_seconds("wait_s", wait_s)
        checked_flag("force", force)
        if partitions is not None:
            checked_int("partitions", partitions, 1, PARTITIONS_MAX, "")
        with self._asking(f"admit partitions of {queue}"):
            used = self._in_use(queue)
            found = belongings(queue, self._namespace, admin=self._admin, registry=self._registry)
            wanted = partitions or max(used.found.partitions, used.now().next_partitions)
            return admit(used, wanted, add=self._found.grower(queue), others=found.others, force=force, wait_s=wait_s)

    def end_paths(self, queue: Queue | str, *, wait_s: float = SETTLED_AFTER_S) -> PathsEnded:
        """Route units by their hash again that kept their partition, and of which nothing is held any more.

        Raises:
            InvalidDestinationError: there is no such queue, or it is a topic.
            IllegalStateError: an open transaction hides what it holds.
        """
        queue, wait_s = queue_of(queue), checked_seconds("wait_s", wait_s)
        with self._asking(f"end paths of {queue}"):
            return end_paths(self._in_use(queue), wait_s=wait_s)

    def unit_paths(self, queue: Queue | str) -> Mapping[str, int]:
        """The units of a queue that keep a partition, whatever their hash says, with that partition."""
        queue = queue_of(queue)
        with self._asking(f"look at units of {queue}"):
            return unit_paths(self._in_use(queue).now())

    def _in_use(self, queue: Queue) -> QueueInUse:
        found = self._found.existing(queue)
        self._registry.refresh()
        return QueueInUse(queue, found, self._registry.places, self._admin, held=lambda: self._seen(queue))
