"""What there is, and what queues hold; nothing is consumed, no group joined."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from jbm_kafka.admin.asked import named, queue_of
from jbm_kafka.admin.asking import Asking
from jbm_kafka.admin.counts import QueueCounts, count_group, tallies
from jbm_kafka.admin.looking import as_browsed
from jbm_kafka.admin.partition_admission import Tell
from jbm_kafka.admin.queue_look import QueueLook, Wait, wait_of
from jbm_kafka.browsing.unacknowledged_query import Hands
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.selectors.selector import Selector, parse_selector
from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.arguments import check_callable
from jbm_kafka.jms.browser import Include, check_include
from jbm_kafka.jms.message import Message

COUNT_MAX = 50_000
"""Messages read for one count: a second's work."""


class LookingAdmin(Asking):
    """Looks into queues. Any thread."""

    def counts(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        count_max: int = COUNT_MAX,
    ) -> QueueCounts:
        """What the queue, or this subscription of the topic, holds; of more than `count_max` only how many.

        It is computed from the topic and its changelog.

        Raises:
            InvalidDestinationError: there is no such queue, or no such subscription.
            InvalidSettingError: `count_max` is negative; of a wrong type InvalidTypeError.
        """
        named(destination, subscription, client_id)
        checked_int("count_max", count_max, 0, None, "messages")
        with self._asking(f"count {destination}"):
            source = self._source(destination, subscription, client_id)
            group = self._group(source)
            topics = self._admin.describe([group.topic, group.changelog_topic])
            described = topics[group.topic]
            self._registry.refresh()
            name = group.destination.name
            places = self._registry.places.of(name, described.topic_id) or UnitPlaces(described.partitions)
            return count_group(
                group,
                described,
                admin=self._admin,
                seen=lambda: tallies(self._seen(source), places, time.time_ns() // 1_000_000),
                count_max=count_max,
                pause=self._registry.pauses.of(name),
                places=places,
                has_changelog=group.changelog_topic in topics,
            )

    def browse(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        include: Include = "deliverable",
        tell: Tell | None = None,
    ) -> QueueLook:
        """The messages of the queue, or of this subscription of the topic, as a browser shows them.

        Iterate what it gives; each iteration looks anew, and at its end `not_shown` tells how many others there are,
        and why. Nothing is consumed, no group joined.

        Args:
            destination: a Queue, or a Topic with `subscription`, or the name of either.
            subscription: its name, of a topic only; not given: it is a queue that is looked into.
            client_id: of the connection that it belongs to; '': it belongs to none.
            selector: which messages, as in JMS: "region = 'EU' AND qty > 10"; None: every one.
            include: 'deliverable': what could be received now, of each unit the first at most; 'all': everything that
                is held, and `message.state` tells what is in a receiver's hand.
            tell: is called with a line that says so where a process takes long to tell what it has in hand; None: it is
                logged.

        Raises:
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidTypeError, InvalidSettingError: another argument is; the text names it.
            InvalidDestinationError: it is a Topic, and no subscription is named; or, when an iteration asks for its
                first message, there is no such queue or subscription.
            JMSError: in an iteration: the cluster does not answer within the Admin's `timeout_s`.
        """
        check_include(include)
        check_callable("tell", tell)
        destination = named(destination, subscription, client_id)
        if isinstance(destination, Topic) and subscription is None:
            with self._asking(f"browse {destination}"):
                self._source(destination, None, client_id)  # raises: it tells now, and not when the first is asked for
        chosen = parse_selector(selector)

        def look(not_shown: Counter[Wait]) -> Iterator[Message]:
            return self._browse(destination, subscription, client_id, chosen, include, not_shown, self._hands(tell))

        return QueueLook(look)

    def _browse(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        selector: Selector | None,
        include: Include,
        not_shown: Counter[Wait],
        hands: Hands,
    ) -> Iterator[Message]:
        with self._asking(f"browse {destination}"):
            source = self._source(destination, subscription, client_id)
            now_ms = self._cluster.clock.now_ms()
            for seen in self._seen(source, selector, hands=hands):
                if include == "all" or seen.is_deliverable:
                    yield as_browsed(seen, self._group(source).destination)
                else:
                    not_shown[wait_of(seen, now_ms)] += 1

    def exists(self, destination: Queue | Topic | str) -> bool:
        """Whether there is a Kafka topic for it; of `Topic(…)`: for a JMS topic."""
        if isinstance(destination, Topic):
            with self._asking(f"look for {destination}"):
                return self._found.has_topic(destination)
        queue = queue_of(destination, "destination")
        with self._asking(f"look for {queue}"):
            return self._found.described(queue) is not None

    def partitions(self, destination: Queue | Topic | str) -> int:
        """How many partitions the queue or topic has.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
        """
        with self._asking(f"count the partitions of {destination}"):
            found = self._found.named(destination)
            described = self._found.described(found)
            if described is None:
                raise self._found.missing(found)  # deleted in between
            return described.partitions

    def destinations(self) -> list[Queue | Topic]:
        """Every queue and topic, by name.

        A queue is each Kafka topic that has a changelog or was used as a queue, and is not a JMS topic; a topic is what
        was created or used as one. What nobody of ours used yet is not among them.
        """
        with self._asking("list queues and topics"):
            found: list[Queue | Topic] = [*self._found.queues(), *self._found.topics()]
            return sorted(found, key=lambda each: each.name)
