"""Administration of the queues of one cluster."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from jbm_kafka.admin.counts import PartitionCounts, QueueCounts, Tally, tallies
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, Queue, name_fault, with_namespace
from jbm_kafka.core.errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSettingError,
    JMSError,
    JMSSecurityError,
)
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.messages_wire import from_record
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import AccessRefused, KafkaClientError, TopicDescription
from jbm_kafka.ports.provider import Seen
from jbm_kafka.sidecar.browse import browse
from jbm_kafka.sidecar.registry import Registry
from jbm_kafka.sidecar.topic_watch import LOOK_S
from jbm_kafka.sidecar.topics import Topics

DEFAULT_PARTITIONS = 16
PARTITIONS_MAX = 10_000
COUNT_MAX = 50_000
"""Messages read for one count: a second's work."""


class Admin:
    """Any thread. As a context manager it closes itself.

    Args:
        bootstrap: `host:port`, several with commas.
        kafka: librdkafka properties such as security settings.
        namespace: prefix of everything of ours.
    """

    def __init__(
        self, bootstrap: str, *, kafka: Mapping[str, object] | None = None, namespace: str = "", timeout_s: float = 10.0
    ) -> None:
        self._kafka = ConfluentKafka(bootstrap, kafka, admin_timeout_s=timeout_s)
        self._admin = self._kafka.admin()
        self._namespace = namespace
        self._registry = Registry(self._kafka, self._admin, with_namespace("jbm.registry", namespace))

    def create_queue(self, name: str, *, partitions: int | None = None) -> bool:
        """Make the queue's topic and its changelog: True when it was not there, False when it is as asked already.

        Raises:
            InvalidDestinationError: the name is not legal or not free, or it exists with other partitions.
        """
        if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidSettingError(f"partitions is {partitions}: 1 to {PARTITIONS_MAX}", partitions=partitions)
        queue = Queue(name)
        with _told(f"create {queue}"):
            found = self._described(queue)
            if found is not None and partitions not in (None, found.partitions):
                raise InvalidDestinationError(
                    f"{queue} exists with {found.partitions} partitions, not {partitions}; "
                    f"another number would move units",
                    destination=name,
                    partitions=found.partitions,
                )
            topics = Topics(self._admin, namespace=self._namespace, registry=self._registry)
            topics.ensure(queue, create=True, partitions=partitions or DEFAULT_PARTITIONS)
            return found is None

    def admit_partitions(
        self, queue: Queue | str, *, force: bool = False, wait_s: float = LOOK_S + 1.0
    ) -> tuple[int, int]:
        """Route the units of a queue by the partitions its topic has now: the count before, and now (UNIT-11).

        Senders look at a topic every few seconds and refuse units while it has another count than the recorded one;
        `wait_s` seconds go by first, so that all of them do.

        Raises:
            InvalidDestinationError: there is no such queue.
            IllegalStateError: it still holds messages, whose units would be split, and `force` was not given.
        """
        queue = _queue(queue)
        with _told(f"admit partitions of {queue}"):
            found = self._existing(queue)
            self._registry.refresh()
            before = self._registry.recorded(queue.name, found.topic_id)
            if before is not None and before != found.partitions:
                time.sleep(wait_s)
                held = 0 if force else self.counts(queue).held
                if held:
                    raise IllegalStateError(
                        f"{queue} holds {held} messages, and units among them would be split between their partitions "
                        f"by {before} and by {found.partitions}: let it run empty, or give their order up with force",
                        destination=queue.name,
                        held=held,
                    )
            if before != found.partitions:
                self._registry.record(queue.name, found.topic_id, found.partitions)
            return before or found.partitions, found.partitions

    def destinations(self) -> list[Queue]:
        """Every queue: each Kafka topic that has a changelog. A topic nobody received from yet is not among them."""
        with _told("list queues"):
            topics = self._admin.topic_names()
        prefix = with_namespace("", self._namespace)
        changelogs = [t for t in topics if t.endswith(CHANGELOG_SUFFIX) and t.startswith(prefix)]
        names = [topic.removesuffix(CHANGELOG_SUFFIX).removeprefix(prefix) for topic in changelogs]
        return [Queue(name) for name in sorted(names) if name in topics and name_fault(name) is None]

    def counts(self, queue: Queue | str, *, count_max: int = COUNT_MAX) -> QueueCounts:
        """What the queue holds, computed from its topic and its changelog; of more than `count_max` only how many.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        queue = _queue(queue)
        with _told(f"count {queue}"):
            described = self._existing(queue)
            places = list(range(described.partitions))
            group, topic = queue.group_id(self._namespace), described.name
            begins = self._admin.begin_positions(topic, places)
            # In this order: what is committed in between must not look as if it waited.
            heads = self._admin.end_positions(topic, places, stable=False)
            ends = self._admin.end_positions(topic, places, stable=True)
            committed = self._admin.committed(group, topic, places)
            settled = {p: max(committed[p].position if p in committed else 0, begins[p]) for p in places}
            is_countable = sum(max(ends[p] - settled[p], 0) for p in places) <= count_max
            self._registry.refresh()
            routes = self._registry.recorded(queue.name, described.topic_id) or described.partitions
            found = tallies(self._seen(queue), routes) if is_countable else {}
            return QueueCounts(
                name=queue.name,
                group=group,
                members=self._admin.group_members(group),
                partitions=tuple(
                    _counts(
                        found.get(p, Tally()) if is_countable else None,
                        partition=p,
                        begin=begins[p],
                        settled_to=settled[p],
                        end=ends[p],
                        uncommitted=max(heads[p] - ends[p], 0),
                    )
                    for p in places
                ),
            )

    def browse(self, queue: Queue | str, *, include: str = "deliverable") -> Iterator[Message]:
        """The messages of the queue, as a browser shows them (UNIT-13); nothing is consumed, no group joined.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        queue = _queue(queue)
        with _told(f"browse {queue}"):
            self._existing(queue)
            for seen in self._seen(queue, include_all=include == "all"):
                message = from_record(
                    seen.record,  # type: ignore[arg-type]
                    destination=queue,
                    delivery_count=seen.attempts,
                    redelivered=seen.attempts > 0,
                    settler=None,
                )
                message.state = seen.state
                if seen.due_at_ms:
                    message.delivery_time = seen.due_at_ms
                yield message

    def exists(self, queue: Queue | str) -> bool:
        """Whether there is a Kafka topic for it."""
        queue = _queue(queue)
        with _told(f"look for {queue}"):
            return self._described(queue) is not None

    def close(self) -> None:
        """Again: nothing happens."""
        self._registry.close()
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _seen(self, queue: Queue, *, include_all: bool = True) -> Iterator[Seen]:
        return browse(
            self._kafka,
            queue,
            namespace=self._namespace,
            now_ms=time.time_ns() // 1_000_000,
            lane=None,
            include_all=include_all,
        )

    def _described(self, queue: Queue) -> TopicDescription | None:
        topic = queue.kafka_topic(self._namespace)
        return self._admin.describe([topic]).get(topic)

    def _existing(self, queue: Queue) -> TopicDescription:
        found = self._described(queue)
        if found is None:
            raise InvalidDestinationError(
                f"{queue}: there is no Kafka topic {queue.name!r}; create it with: jbm-kafka create {queue.name}",
                destination=queue.name,
            )
        return found


def _queue(queue: Queue | str) -> Queue:
    return Queue(queue) if isinstance(queue, str) else queue


def _counts(tally: Tally | None, **positions: int) -> PartitionCounts:
    if tally is None:
        return PartitionCounts(**positions, held=None)
    return PartitionCounts(
        **positions,
        held=tally.held,
        delayed=tally.delayed,
        retried=tally.retried,
        misplaced=tally.misplaced,
        oldest_at_ms=tally.oldest_at_ms,
    )


@contextmanager
def _told(about: str) -> Iterator[None]:
    """What Kafka's client raises, as an error for the caller."""
    try:
        yield
    except AccessRefused as error:
        raise JMSSecurityError(f"{about}: {error}") from None
    except KafkaClientError as error:
        raise JMSError(f"{about}: {error}") from None
