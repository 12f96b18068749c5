"""Looks into destinations and queues; nothing is consumed, no group joined."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from jbm_kafka.admin.cluster.admin_arguments import named, queue_of
from jbm_kafka.admin.cluster.admin_core import AdminCore, Tell, as_browsed
from jbm_kafka.admin.counts import QueueCounts, count_group, tallies
from jbm_kafka.admin.queue_look import QueueLook, Wait, wait_of
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.core.channel.companion_group import lost_of
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.selectors.selector import Selector, parse_selector
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import check_callable
from jbm_kafka.jms.browser import Include, check_include
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.store.recovery import RecoveredChannel

COUNT_MAX = 50_000
"""Messages read for one count: a second's work."""


class LookingAdmin:
    """Looks into queues. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def counts(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        count_max: int = COUNT_MAX,
    ) -> QueueCounts:
        """Return what the queue, or this subscription of the topic, holds."""
        named(destination, subscription, client_id)
        checked_int("count_max", count_max, 0, None, "messages")
        with self._core.asking(f"count {destination}"):
            source = self._core.source(destination, subscription, client_id)
            group = self._core.group(source)
            topics = self._core.admin.describe([group.topic, group.changelog_topic])
            described = topics[group.topic]
            self._core.registry.refresh()
            name = group.destination.name
            places = self._core.registry.places.of(name, described.topic_id) or UnitPlaces(described.partitions)
            begun: dict[int, RecoveredChannel] = {}
            found = count_group(
                group,
                described,
                admin=self._core.admin,
                seen=lambda: tallies(
                    self._core.seen(source, recovered=begun.update), places, time.time_ns() // 1_000_000
                ),
                count_max=count_max,
                pause=self._core.registry.pauses.of(name),
                places=places,
                has_changelog=group.changelog_topic in topics,
            )
            return replace(found, parked_lost=lost_of(each.parked_lost for each in begun.values()))

    def browse(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        selector: str | None,
        include: Include,
        tell: Tell | None,
    ) -> QueueLook:
        """The messages of the queue, or of this subscription of the topic."""
        check_include(include)
        check_callable("tell", tell)
        destination = named(destination, subscription, client_id)
        if isinstance(destination, Topic) and subscription is None:
            with self._core.asking(f"browse {destination}"):
                self._core.source(
                    destination, None, client_id
                )  # raises: it tells now, and not when the first is asked for
        chosen = parse_selector(selector)

        def look(not_shown: Counter[Wait]) -> Iterator[Message]:
            return self._browse(
                destination, subscription, client_id, chosen, include, not_shown, self._core.hands(tell)
            )

        return QueueLook(look)

    def _browse(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        selector: Selector | None,
        include: Include,
        not_shown: Counter[Wait],
        hands: UnacknowledgedQuery,
    ) -> Iterator[Message]:
        with self._core.asking(f"browse {destination}"):
            source = self._core.source(destination, subscription, client_id)
            found = self._core.group(source).destination
            now_ms = self._core.cluster.clock.now_ms()
            for seen in self._core.seen(source, selector, hands=hands):
                if include == "all" or seen.is_deliverable:
                    yield as_browsed(seen, found, self._core.bodies)
                else:
                    not_shown[wait_of(seen, now_ms)] += 1

    def exists(self, destination: Queue | Topic | str) -> bool:
        """Return True if there is a Kafka topic for it; of a Topic: whether it is one of JMS."""
        if isinstance(destination, Topic):
            with self._core.asking(f"look for {destination}"):
                return self._core.catalog.has_topic(destination)
        queue = queue_of(destination, "destination")
        with self._core.asking(f"look for {queue}"):
            return self._core.catalog.described(queue) is not None

    def partitions(self, destination: Queue | Topic | str) -> int:
        """How many it has."""
        with self._core.asking(f"count the partitions of {destination}"):
            found = self._core.catalog.named(destination)
            described = self._core.catalog.described(found)
            if described is None:
                raise self._core.catalog.missing(found)  # deleted in between
            return described.partitions

    def destinations(self) -> list[Queue | Topic]:
        """Every queue and topic, by name."""
        with self._core.asking("list queues and topics"):
            found: list[Queue | Topic] = [*self._core.catalog.queues(), *self._core.catalog.topics()]
            return sorted(found, key=lambda each: each.name)
