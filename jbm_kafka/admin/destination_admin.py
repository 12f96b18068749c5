"""Queues, topics and subscriptions: made and deleted."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress

from jbm_kafka.admin.cluster.admin_arguments import queue_of
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.cluster.catalog import DEFAULT_PARTITIONS
from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts, durable_of, subscription_counts, to_be_ended
from jbm_kafka.admin.deletion import (
    Belongings,
    DeletionReport,
    belongings,
    check_deletable,
    delete_all,
    deletion_report,
    without_shared,
)
from jbm_kafka.admin.looking_admin import LookingAdmin
from jbm_kafka.admin.prepared_admin import PreparedAdmin
from jbm_kafka.codec.registry_records import decode_subscription, encode_subscription, owner_key, subscription_key
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, JMSError
from jbm_kafka.core.subscription import Subscription, checked_subscription_name
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import as_topic, checked_flag
from jbm_kafka.registry.registry_log import Changes, Values
from jbm_kafka.registry.subscriptions import begun, check_retention, refuse_other_kind
from jbm_kafka.registry.topics import Topics

PARTITIONS_MAX = 10_000
LEAVES_S = 2.0
"""A process that has just closed may still be a member of its group. One that is so for longer is a receiver."""
LOOKS_S = 0.2


class DestinationAdmin:
    """Makes and ends destinations. Any thread."""

    def __init__(self, core: AdminCore, looks: LookingAdmin, prepared: PreparedAdmin) -> None:
        self._core = core
        self._prepared = prepared
        self._looks = looks

    def create(self, destination: Queue | Topic, partitions: int | None) -> bool:
        """Make its topic and its changelog: True when it was not there."""
        if partitions is not None:
            checked_int("partitions", partitions, 1, PARTITIONS_MAX, "")
        with self._core.asking(f"create {destination}"):
            found = self._core.catalog.described(destination)
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
            topics = Topics(self._core.admin, namespace=self._core.namespace, registry=self._core.registry)
            topics.ensure(destination, create=True, partitions=partitions or DEFAULT_PARTITIONS)
            return found is None

    def _to_widen(self, destination: Queue | Topic, partitions: int) -> str:
        if self._core.catalog.is_in_memory:
            return f"Admin.admit_partitions({destination.name!r}, partitions={partitions})"
        return f"jbm-kafka admit-partitions {destination.name} --partitions {partitions}"

    def delete(self, destination: Queue | Topic | str, *, force: bool, dry_run: bool) -> DeletionReport:
        """Delete it with everything that Kafka keeps of it in this namespace."""
        asked = destination
        queue = Queue(asked.name) if isinstance(asked, Topic) else queue_of(asked, "destination")
        checked_flag("force", force)
        checked_flag("dry_run", dry_run)
        with self._core.asking(f"delete {asked}"):
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
            check_deletable(queue, self._core.namespace, found, is_topic=isinstance(asked, Topic), force=force)
            if not force:
                self._prepared.check_free(f"delete {asked}", {*found.groups, found.group or ""})
            held: int | None = 0
            if found.topic is not None:
                held = None
                with suppress(JMSError):  # whatever is wrong with it, it may be deleted
                    held = self._looks.counts(queue, None, "").held
            if not dry_run:
                delete_all(queue, found, admin=self._core.admin, registry=self._core.registry)
            return deletion_report(found, held, self._core.registry.log.topic, is_dry_run=dry_run)

    def _belongings(self, queue: Queue, *, waits: bool) -> Belongings:
        """All that there is of it; `waits`: receivers count that are there a moment later, too."""
        found, deadline_s = self._found(queue), time.monotonic() + LEAVES_S
        while waits and (found.receivers or found.listeners) and time.monotonic() < deadline_s:
            time.sleep(LOOKS_S)
            if found.group is None or not found.receivers or not self._core.admin.group_members(found.group):
                found = self._found(queue)
        return found

    def _found(self, queue: Queue) -> Belongings:
        core = self._core
        now_ms = core.cluster.clock.now_ms()
        return belongings(queue, core.namespace, admin=core.admin, registry=core.registry, now_ms=now_ms)

    def create_subscription(self, wanted: Subscription) -> bool:
        """Make a durable subscription: True when it was not there."""
        core, topic = self._core, wanted.topic
        group, is_new = wanted.group_id(core.namespace), [False]
        with core.asking(f"create subscription {wanted.name!r} of {topic}"):
            core.catalog.named(topic)
            topics = Topics(core.admin, namespace=core.namespace, registry=core.registry)
            info = topics.ensure(topic, create=False, partitions=DEFAULT_PARTITIONS)
            check_retention(core.admin, info, wanted)
            incarnation = secrets.token_hex(8)

            def claim(values: Values) -> Changes:
                refuse_other_kind(values, wanted, core.namespace)
                value = values.get(subscription_key(group))
                found = None if value is None else decode_subscription(value)
                if found is not None and not found.is_ending:
                    is_new[0] = found.incarnation == incarnation  # a try without an answer had written it
                    if found.subscription.choice != wanted.choice:
                        raise IllegalStateError(
                            f"{wanted} is there already, as one of {found.subscription.choice_text}; this one would be "
                            f"of {wanted.choice_text}: end it before (unsubscribe), or choose another name",
                            name=wanted.name,
                        )
                    return {}
                is_new[0] = True
                made = begun(wanted, info, incarnation, core.admin, core.cluster.clock.now_ms())
                return {subscription_key(group): encode_subscription(made)}

            core.registry.refresh()
            if claim(core.registry.log.values()):
                # Before it is there: offsets of one that ended would count as an operator's reset of this one.
                core.admin.delete_groups([group])
            core.registry.log.update(claim)
            return is_new[0]

    def subscriptions(self, topic: Topic | str | None) -> list[SubscriptionCounts]:
        """Return those of the topic, or all, with what each has not received."""
        wanted = None if topic is None else Topic(topic) if isinstance(topic, str) else as_topic(topic)
        with self._core.asking("list subscriptions"):
            if wanted is not None:
                self._core.catalog.named(wanted)
            core = self._core
            now_ms = core.cluster.clock.now_ms()
            return subscription_counts(core.registry.log, core.admin, core.namespace, wanted, now_ms=now_ms)

    def release(self, name: str, client_id: str) -> SubscriptionCounts:
        """Have a durable subscription be nobody's; as it was."""
        checked_subscription_name(name)
        with self._core.asking(f"release subscription {name!r}"):
            found = durable_of(self.subscriptions(None), name, client_id)
            if found.owner:
                self._core.registry.log.write({owner_key(found.group): None})
            return found

    def unsubscribe(self, name: str, client_id: str) -> SubscriptionCounts:
        """End a durable subscription."""
        checked_subscription_name(name)
        with self._core.asking(f"unsubscribe {name!r}"):
            counts = to_be_ended(self.subscriptions(None), name, client_id)
            self._prepared.check_free(f"unsubscribe {name!r}", [counts.group])
            with self._core.connections.provider() as provider:
                provider.unsubscribe(client_id, name)
            return counts
