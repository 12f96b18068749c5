"""Administration of the queues of one cluster."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType
from typing import Self

from jbm_kafka.admin.administered import administered
from jbm_kafka.admin.counts import QueueCounts, Tally, counts_of, tallies
from jbm_kafka.admin.deletion import DeletionReport, belongings, check_deletable, delete
from jbm_kafka.admin.letter_search import queues_that_end_in_letters
from jbm_kafka.admin.letters import DeadLetter, LetterFilter, RetryReport, letter_of, reason_fault
from jbm_kafka.admin.looking import as_browsed, patiently
from jbm_kafka.admin.queue_look import QueueLook, Wait, wait_of
from jbm_kafka.admin.retry import carry_out, sort_out
from jbm_kafka.admin.retry_plan import RetryPlan, RetryPlanner, passed_over
from jbm_kafka.admin.subscription_counts import SubscriptionCounts, subscription_counts
from jbm_kafka.core.call_arguments import explained
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, Queue, Topic, name_fault, with_namespace
from jbm_kafka.core.errors import (
    IllegalStateError,
    InvalidDestinationError,
    JMSError,
)
from jbm_kafka.core.selectors.selector import Selector, parse_selector
from jbm_kafka.core.wrong_values import checked_int, wrong_type, wrong_value
from jbm_kafka.jms.arguments import as_queue, as_topic, checked_flag, checked_seconds
from jbm_kafka.jms.browser import check_include
from jbm_kafka.jms.factory import ConnectionFactory, check_namespace
from jbm_kafka.jms.messages import Message
from jbm_kafka.ports import LogReader, TopicDescription
from jbm_kafka.ports.client_errors import told_as_jms_errors
from jbm_kafka.ports.provider import Seen, TopicInfo
from jbm_kafka.sidecar.browse import browse
from jbm_kafka.sidecar.registry import Registry
from jbm_kafka.sidecar.topic_watch import LOOK_S
from jbm_kafka.sidecar.topics import Topics

DEFAULT_PARTITIONS = 16
PARTITIONS_MAX = 10_000
SHIPPED_DEAD_LETTERS = "DLQ"
SHIPPED = (SHIPPED_DEAD_LETTERS, "ExpiryQueue")
RETRY_TIMEOUT_S = 10.0
COUNT_MAX = 50_000
"""Messages read for one count: a second's work."""


@explained
class Admin:
    """Any thread. As a context manager it closes itself.

    Args:
        bootstrap: `host:port`, several with commas; or `memory://NAME`, whose world it keeps until it is closed.
        kafka: librdkafka properties such as security settings.
        namespace: prefix of everything of ours.
    """

    def __init__(
        self, bootstrap: str, *, kafka: Mapping[str, object] | None = None, namespace: str = "", timeout_s: float = 10.0
    ) -> None:
        check_namespace(namespace)
        if kafka is not None and not isinstance(kafka, Mapping):
            raise wrong_type("kafka", kafka, "it is a dict of librdkafka properties, or None")
        timeout_s = checked_seconds("timeout_s", timeout_s)
        self._bootstrap, self._settings = bootstrap, kafka
        self._cluster = administered(bootstrap, kafka, timeout_s)
        self._kafka = self._cluster.kafka
        self._admin = self._kafka.admin()
        self._namespace = namespace
        self._lock, self._is_closed, self._is_met = Lock(), False, False
        self._registry = Registry(self._kafka, self._admin, with_namespace("jbm.registry", namespace))

    def create_queue(self, name: str, *, partitions: int | None = None) -> bool:
        """Make the queue's topic and its changelog: True when it was not there, False when it is as asked already.

        Raises:
            InvalidDestinationError: the name is not legal or not free, or it exists with other partitions.
        """
        return self._create(Queue(name), partitions)

    def create_topic(self, name: str, *, partitions: int | None = None) -> bool:
        """Make a topic; as `create_queue`."""
        return self._create(Topic(name), partitions)

    def _create(self, destination: Queue | Topic, partitions: int | None) -> bool:
        if partitions is not None:
            checked_int("partitions", partitions, 1, PARTITIONS_MAX, "")
        with self._asking(f"create {destination}"):
            found = self._described(destination)
            if found is not None and partitions not in (None, found.partitions):
                raise InvalidDestinationError(
                    f"{destination} exists with {found.partitions} partitions, not {partitions}; "
                    f"another number would move units",
                    destination=destination.name,
                    partitions=found.partitions,
                )
            topics = Topics(self._admin, namespace=self._namespace, registry=self._registry)
            topics.ensure(destination, create=True, partitions=partitions or DEFAULT_PARTITIONS)
            return found is None

    def subscriptions(self, topic: Topic | str | None = None) -> list[SubscriptionCounts]:
        """The subscriptions of a topic, or all, with what each has not received (TOPIC-5).

        Raises:
            InvalidDestinationError: the topic's name is not legal.
        """
        wanted = None if topic is None else Topic(topic) if isinstance(topic, str) else as_topic(topic)
        with self._asking("list subscriptions"):
            return subscription_counts(self._registry.log, self._admin, self._namespace, wanted)

    def delete_destination(self, queue: Queue | str, *, force: bool = False, dry_run: bool = False) -> DeletionReport:
        """Delete a queue with everything that Kafka keeps of it in this namespace: its messages too, for good.

        Deleted are its topic, its changelog, its consumer group and its record in the registry. A queue that is made
        anew under the name knows nothing of it. Where this ends early, a second call deletes the rest.

        Args:
            force: also while processes receive from it; when its topic is a queue in other namespaces, whose changelog
                and group stay; and when it does not look like a queue of ours. Processes with `auto_create` that go
                on make it again.
            dry_run: nothing is deleted; the report has what would be.

        Raises:
            InvalidDestinationError: there is no such queue; or, unless forced, its topic has no changelog.
            IllegalStateError: unless forced: processes receive from it, or other namespaces do.
            JMSSecurityError: these credentials may not delete it.
        """
        queue = _queue(queue)
        checked_flag("force", force)
        checked_flag("dry_run", dry_run)
        with self._asking(f"delete {queue}"):
            found = belongings(queue, self._namespace, admin=self._admin, registry=self._registry)
            check_deletable(queue, self._namespace, found, force=force)
            held: int | None = 0
            if found.topic is not None:
                held = None
                with suppress(JMSError):  # whatever is wrong with it, it may be deleted
                    held = self.counts(queue).held
            if not dry_run:
                delete(queue, found, admin=self._admin, registry=self._registry)
            return DeletionReport(
                queue=queue,
                is_dry_run=dry_run,
                topics=found.topics,
                groups=found.groups,
                registry=self._registry.log.topic if found.is_recorded else None,
                held=held,
                receivers=found.receivers,
                kept=found.kept,
            )

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
        queue, wait_s = _queue(queue), checked_seconds("wait_s", wait_s)
        checked_flag("force", force)
        with self._asking(f"admit partitions of {queue}"):
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
        """Every queue: each Kafka topic that has a changelog and is not a JMS topic.

        One that nobody received from yet is not among them.
        """
        with self._asking("list queues"):
            topics = self._admin.topic_names()
            self._registry.refresh()
            marked = self._registry.topics_of(self._admin.describe(self._registry.marked_names()))
        prefix = with_namespace("", self._namespace)
        changelogs = [t for t in topics if t.endswith(CHANGELOG_SUFFIX) and t.startswith(prefix)]
        names = [topic.removesuffix(CHANGELOG_SUFFIX).removeprefix(prefix) for topic in changelogs]
        queues = [name for name in names if name in topics and name not in marked and name_fault(name) is None]
        return [Queue(name) for name in sorted(queues)]

    def counts(self, queue: Queue | str, *, count_max: int = COUNT_MAX) -> QueueCounts:
        """What the queue holds, computed from its topic and its changelog; of more than `count_max` only how many.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        queue = _queue(queue)
        checked_int("count_max", count_max, 0, None, "messages")
        with self._asking(f"count {queue}"):
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
            found = tallies(self._seen(queue), routes, time.time_ns() // 1_000_000) if is_countable else {}
            return QueueCounts(
                name=queue.name,
                group=group,
                members=self._admin.group_members(group),
                partitions=tuple(
                    counts_of(
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

    def browse(self, queue: Queue | str, *, selector: str | None = None, include: str = "deliverable") -> QueueLook:
        """The messages of the queue, as a browser shows them (UNIT-13); nothing is consumed, no group joined.

        What it gives is an iterator of messages; at its end `not_shown` tells how many others there are, and why.

        Raises:
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidDestinationError: when the first is asked for: there is no such queue.
        """
        check_include(include)
        not_shown = Counter[Wait]()
        return QueueLook(self._browse(_queue(queue), parse_selector(selector), include, not_shown), not_shown)

    def _browse(
        self, queue: Queue, selector: Selector | None, include: str, not_shown: Counter[Wait]
    ) -> Iterator[Message]:
        with self._asking(f"browse {queue}"):
            self._existing(queue)
            now_ms = self._cluster.clock.now_ms()
            for seen in self._seen(queue, selector):
                if include == "all" or seen.is_deliverable:
                    yield as_browsed(seen, queue)
                else:
                    not_shown[wait_of(seen, now_ms)] += 1

    def dead_letters(
        self,
        queue: Queue | str = SHIPPED_DEAD_LETTERS,
        *,
        origin: Queue | str | None = None,
        reason: str | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        selector: str | None = None,
    ) -> Iterator[tuple[DeadLetter, Message]]:
        """The messages of a dead-letter or expiry queue, with where each was and why it left; nothing is consumed.

        Filters as of `retry_dead_letters`.

        Raises:
            InvalidSettingError: no message leaves for this `reason`.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidDestinationError: when the first is asked for: there is no such queue.
        """
        return self._dead_letters(
            _queue(queue), _filter(origin, selector, reason=reason, unit=unit, message_id=message_id)
        )

    def _dead_letters(self, queue: Queue, wanted: LetterFilter) -> Iterator[tuple[DeadLetter, Message]]:
        with self._asking(f"list dead letters of {queue}"):
            if not self._is_unused(queue):
                self._existing(queue)
                for seen in self._seen(queue):
                    letter = letter_of(seen.record)
                    if wanted.matches(letter, seen.record):
                        yield letter, as_browsed(seen, queue)

    def queues_with_dead_letters(self, *, queues_max: int = 50) -> list[Queue]:
        """Queues that hold dead letters or expired messages, found by a quick look at what was sent to each last.

        So it misses one where many other messages follow; and it looks into the first `queues_max` queues by name.
        """
        checked_int("queues_max", queues_max, 0, None, "queues")
        with self._asking("look for dead letters"), closing(self._kafka.log_reader()) as reader:
            topics = {each.kafka_topic(self._namespace): each for each in self.destinations()[:queues_max]}
            found = queues_that_end_in_letters(list(topics), admin=self._admin, reader=reader)
            return [topics[topic] for topic in found if self._holds_letters(topics[topic])]

    def _holds_letters(self, queue: Queue) -> bool:
        return any(letter_of(seen.record).reason is not None for seen in self._seen(queue))

    def retry_dead_letters(
        self,
        queue: Queue | str = SHIPPED_DEAD_LETTERS,
        *,
        origin: Queue | str | None = None,
        reason: str | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        selector: str | None = None,
        count: int | None = None,
        dry_run: bool = False,
        timeout_s: float = RETRY_TIMEOUT_S,
    ) -> RetryReport:
        """Send dead letters of `queue` to the queues they came from: of those that match, the `count` oldest, or all.

        What is sent leaves `queue` in the same transaction (REDELIVER-9); what is not stays, uncounted, in its place.
        Letters that come meanwhile are left for another time. It ends when none came for `timeout_s` seconds.

        Args:
            origin: only what came from there.
            reason: only what left for this reason, as `dead_letters` tells it.
            message_id: only what has this id; ids may repeat.
            selector: only what it chooses of the dead letters' properties (docs/selectors.md).
            dry_run: nothing is received nor sent; the report has what would be.

        Raises:
            InvalidDestinationError: there is no such queue.
            InvalidSettingError: no message leaves for this `reason`.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            TransactionInDoubtError: nobody knows whether the latest batch, a few hundred, was sent; it was sent whole
                and left, or neither. Retry again: what was not sent is still there.
        """
        source, timeout_s = _queue(queue), checked_seconds("timeout_s", timeout_s)
        checked_flag("dry_run", dry_run)
        if count is not None:
            checked_int("count", count, 1, None, "letters")
        asked = _filter(origin, selector, reason=reason, unit=unit, message_id=message_id)
        with self._asking(f"retry dead letters of {source}"), closing(self._kafka.log_reader()) as reader:
            if self._is_unused(source):
                return _report(source, RetryPlan(), is_dry_run=dry_run)
            self._existing(source)
            planner = RetryPlanner(source, admin=self._admin, reader=reader, info_of=self._info_of)
            plan = patiently(lambda: planner.plan((seen.record for seen in self._seen(source)), asked, count))
            if dry_run or not plan.letters:
                return _report(source, plan, is_dry_run=dry_run)
            return self._send_again(source, plan, reader, timeout_s)

    def exists(self, queue: Queue | str) -> bool:
        """Whether there is a Kafka topic for it."""
        queue = _queue(queue)
        with self._asking(f"look for {queue}"):
            return self._described(queue) is not None

    def close(self) -> None:
        """Again: nothing happens."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._registry.close()
        self._admin.close()
        self._cluster.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _asking(self, about: str) -> Iterator[None]:
        """What Kafka's client raises, as an error for the caller."""
        if self._is_closed:
            raise IllegalStateError("the admin is closed; make a new one")
        with told_as_jms_errors(about):
            if not self._is_met:
                self._admin.cluster_id()  # tells at once that nobody is there, or that we are not let in
                self._is_met = True
            self._cluster.settle()
            yield

    def _seen(self, queue: Queue, selector: Selector | None = None) -> Iterator[Seen]:
        return browse(
            self._kafka,
            queue,
            namespace=self._namespace,
            now_ms=self._cluster.clock.now_ms(),
            group_worker=None,
            include_all=True,
            selector=selector,
        )

    def _send_again(self, source: Queue, plan: RetryPlan, reader: LogReader, timeout_s: float) -> RetryReport:
        """Over a connection of its own: the folder makes that it shares no sidecar, nor its settings."""
        with TemporaryDirectory(prefix="jbm-retry-") as folder:
            factory = ConnectionFactory(
                self._bootstrap,
                kafka=self._settings,
                namespace=self._namespace,
                state_dir=folder,
                auto_create=False,
            )
            connection = factory.create_connection()
            sending = RetryPlanner(source, admin=self._admin, reader=reader, info_of=connection.provider.ensure)
            done = carry_out(connection, source, plan.letters, sending.outgoing, timeout_s)
        left, taken = patiently(lambda: sort_out(done, self._seen(source), timeout_s)) if done.wanted else ([], [])
        stayed = [*done.kept, *left]
        return RetryReport(
            source=source,
            is_dry_run=False,
            letters=done.sent,
            kept=[*plan.kept, *stayed],
            taken=taken,
            warnings=[*plan.warnings, *passed_over(source, done.sent, [row.letter for row in stayed])],
        )

    def _is_unused(self, queue: Queue) -> bool:
        """A shipped address that nobody needed yet: it is made with the first receiver of any queue."""
        return queue.name in SHIPPED and self._described(queue) is None

    def _info_of(self, queue: Queue) -> TopicInfo:
        if self._described(queue) is None:
            raise InvalidDestinationError(
                f"{queue}, where it came from, is not there any more; create it again with: "
                f"jbm-kafka create {queue.name}",
                destination=queue.name,
            )
        topics = Topics(self._admin, namespace=self._namespace, registry=self._registry)
        return topics.ensure(queue, create=False, partitions=DEFAULT_PARTITIONS)

    def _described(self, destination: Queue | Topic) -> TopicDescription | None:
        topic = destination.kafka_topic(self._namespace)
        return self._admin.describe([topic]).get(topic)

    def _existing(self, queue: Queue) -> TopicDescription:
        found = self._described(queue)
        if found is None:
            names = [name for name in self._admin.topic_names() if name_fault(name) is None]
            likely = get_close_matches(queue.name, names, n=1, cutoff=0.7)
            hint = f"did you mean {likely[0]!r}? Or " if likely else ""
            raise InvalidDestinationError(
                f"{queue}: there is no Kafka topic {queue.name!r}; {hint}create it with: jbm-kafka create {queue.name}",
                destination=queue.name,
            )
        self._refuse_topic(queue)
        return found

    def _refuse_topic(self, queue: Queue) -> None:
        """A topic's messages are its subscriptions', and no queue's."""
        self._registry.refresh()
        described = self._described(queue)
        if described is not None and self._registry.is_topic(queue.name, described.topic_id):
            raise InvalidDestinationError(
                f"{queue}: {queue.name!r} is a topic, and this is for queues; Admin.subscriptions({queue.name!r}) "
                f"tells what its subscriptions hold",
                destination=queue.name,
            )


def _filter(origin: Queue | str | None, selector: str | None, **texts: str | None) -> LetterFilter:
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise wrong_type(name, text, "it is a str, or None for any")
    reason = texts["reason"]
    if reason is not None and (fault := reason_fault(reason)):
        raise wrong_value("reason", reason, fault)
    return LetterFilter(None if origin is None else _queue(origin), selector=parse_selector(selector), **texts)


def _queue(queue: Queue | str) -> Queue:
    return Queue(queue) if isinstance(queue, str) else as_queue(queue, "queue")


def _report(source: Queue, plan: RetryPlan, *, is_dry_run: bool) -> RetryReport:
    return RetryReport(
        source=source, is_dry_run=is_dry_run, letters=plan.letters, kept=plan.kept, taken=(), warnings=plan.warnings
    )
