"""Queues, topics and subscriptions: made and deleted."""

from __future__ import annotations

import time
from contextlib import suppress

from jbm_kafka.admin.asked import queue_of
from jbm_kafka.admin.deletion import (
    Belongings,
    DeletionReport,
    belongings,
    check_deletable,
    delete,
    deletion_report,
    without_shared,
)
from jbm_kafka.admin.found_destinations import DEFAULT_PARTITIONS
from jbm_kafka.admin.looking_admin import LookingAdmin
from jbm_kafka.admin.subscription_counts import SubscriptionCounts, subscription_counts, to_be_ended
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import (
    InvalidDestinationError,
    JMSError,
)
from jbm_kafka.core.subscription import checked_subscription_name
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.arguments import as_topic, checked_flag
from jbm_kafka.registry.topics import Topics

PARTITIONS_MAX = 10_000
LEAVES_S = 2.0
"""Who has closed just now may be a member of its group still: so long is waited before that is taken for a receiver."""
LOOKS_S = 0.2


class DestinationAdmin(LookingAdmin):
    """Makes and ends destinations. Any thread."""

    def create_queue(self, name: str | Queue, *, partitions: int | None = None) -> bool:
        """Make the queue's topic and its changelog: True when it was not there, False when it is as asked already.

        Raises:
            InvalidDestinationError: the name is not legal or not free, or it exists with other partitions.
            InvalidSettingError: `partitions` is not from 1 to 10,000; of a wrong type InvalidTypeError.
        """
        return self._create(name if isinstance(name, Queue) else Queue(name), partitions)

    def create_topic(self, name: str | Topic, *, partitions: int | None = None) -> bool:
        """Make a topic; as `create_queue`.

        Raises:
            InvalidDestinationError, InvalidSettingError: as of `create_queue`.
        """
        return self._create(name if isinstance(name, Topic) else Topic(name), partitions)

    def _create(self, destination: Queue | Topic, partitions: int | None) -> bool:
        if partitions is not None:
            checked_int("partitions", partitions, 1, PARTITIONS_MAX, "")
        with self._asking(f"create {destination}"):
            found = self._found.described(destination)
            if found is not None and partitions not in (None, found.partitions):
                remedy = (
                    f"; to have more in use, each unit in its order: {self._to_widen(destination, partitions)}"
                    if partitions > found.partitions
                    else ", and Kafka takes none away"
                )
                raise InvalidDestinationError(
                    f"{destination} exists with {found.partitions} partitions, not {partitions}{remedy}",
                    destination=destination.name,
                    partitions=found.partitions,
                )
            topics = Topics(self._admin, namespace=self._namespace, registry=self._registry)
            topics.ensure(destination, create=True, partitions=partitions or DEFAULT_PARTITIONS)
            return found is None

    def _to_widen(self, destination: Queue | Topic, partitions: int) -> str:
        if self._found.is_in_memory:
            return f"Admin.admit_partitions({destination.name!r}, partitions={partitions})"
        return f"jbm-kafka admit-partitions {destination.name} --partitions {partitions}"

    def delete_destination(
        self, destination: Queue | Topic | str, *, force: bool = False, dry_run: bool = False
    ) -> DeletionReport:
        """Delete a queue or topic with everything that Kafka keeps of it in this namespace: its messages too, for good.

        Deleted are its topic, its changelog, its consumer group and its record in the registry. A queue that is made
        anew under the name knows nothing of it. Where this ends early, a second call deletes the rest. A topic that
        other namespaces use too is kept, and with it its messages.

        Args:
            force: also while processes receive from it; when it is a topic with subscriptions, which go with it; when
                it does not look like a queue of ours; and also a Kafka topic that other namespaces use, whose
                changelogs and groups stay. Processes with `auto_create` that go on make it again.
            dry_run: nothing is deleted; the report has what would be.

        Raises:
            InvalidDestinationError: there is no such queue or topic; or, unless forced, its topic has no changelog.
            IllegalStateError: unless forced: processes receive from it, or it has subscriptions.
            JMSSecurityError: these credentials may not delete it.
        """
        asked = destination
        queue = Queue(asked.name) if isinstance(asked, Topic) else queue_of(asked, "destination")
        checked_flag("force", force)
        checked_flag("dry_run", dry_run)
        with self._asking(f"delete {asked}"):
            found = self._belongings(queue, waits=not force)
            if isinstance(asked, Topic) and found.topic is not None and found.destination == queue:
                raise InvalidDestinationError(
                    f"{asked}: {queue.name!r} is a queue, not a topic", destination=queue.name
                )
            if isinstance(asked, Queue) and isinstance(found.destination, Topic):
                raise InvalidDestinationError(
                    f"{asked}: {queue.name!r} is a topic, not a queue; use Topic({queue.name!r})",
                    destination=queue.name,
                )
            if not force:
                found = without_shared(found)
            check_deletable(queue, self._namespace, found, is_topic=isinstance(asked, Topic), force=force)
            held: int | None = 0
            if found.topic is not None:
                held = None
                with suppress(JMSError):  # whatever is wrong with it, it may be deleted
                    held = self.counts(queue).held
            if not dry_run:
                delete(queue, found, admin=self._admin, registry=self._registry)
            return deletion_report(found, held, self._registry.log.topic, is_dry_run=dry_run)

    def _belongings(self, queue: Queue, *, waits: bool) -> Belongings:
        """All that there is of it; `waits`: receivers count that are there a moment later, too."""
        found = belongings(queue, self._namespace, admin=self._admin, registry=self._registry)
        group, deadline_s = found.group, time.monotonic() + LEAVES_S
        while waits and group is not None and found.receivers and time.monotonic() < deadline_s:
            time.sleep(LOOKS_S)
            if not self._admin.group_members(group):
                return belongings(queue, self._namespace, admin=self._admin, registry=self._registry)
        return found

    def subscriptions(self, topic: Topic | str | None = None) -> list[SubscriptionCounts]:
        """The subscriptions of a topic, or all, with what each has not received.

        Raises:
            InvalidDestinationError: there is no such topic.
        """
        wanted = None if topic is None else Topic(topic) if isinstance(topic, str) else as_topic(topic)
        with self._asking("list subscriptions"):
            if wanted is not None:
                self._found.named(wanted)
            return subscription_counts(self._registry.log, self._admin, self._namespace, wanted)

    def unsubscribe(self, name: str, *, client_id: str = "") -> SubscriptionCounts:
        """End a durable subscription, from outside and for good: what it had not received. Its group goes, too.

        Raises:
            InvalidDestinationError: there is none of this name with this client id.
            IllegalStateError: processes receive from it.
        """
        checked_subscription_name(name)
        with self._asking(f"unsubscribe {name!r}"):
            counts = to_be_ended(self.subscriptions(), name, client_id)
            with self._connections.open() as connection:
                connection._core.provider.unsubscribe(client_id, name)
            return counts
