"""The belongings of a queue that go with it, the objections, and the deleting itself.

A topic of Kafka is the same queue in every namespace; the changelog, the group and the record in the registry are one
namespace's own. So what a worker left that ran once in a wrong namespace can go, while the topic stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jbm_kafka.codec.registry_records import SubscriptionRecord, subscription_key, subscriptions_in
from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, Queue, Topic, with_namespace
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.core.summary import summary
from jbm_kafka.ports import KafkaAdmin, TopicDescription
from jbm_kafka.registry.other_namespaces import namespaces_among
from jbm_kafka.registry.readers import private_readers
from jbm_kafka.registry.registry import Registry

NAMED = 3
"""So many subscriptions are named in an error."""
UNSUBSCRIBE = "Admin.unsubscribe"
"""The call that ends them."""
THERE_ARE = "Admin.destinations() has those there are, and jbm-kafka list shows them"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReport:
    """The things that were deleted, or, of a dry run, would be."""

    destination: Queue | Topic
    """Which was to be deleted."""
    is_dry_run: bool
    """Nothing was done: the rest tells what would be."""
    topics: Sequence[str]
    """Kafka topics, with all their records."""
    groups: Sequence[str]
    """Consumer groups, with their offsets."""
    registry: str | None
    """The topic from which the queue's record goes; None: it has none."""
    held: int | None
    """Messages that nobody has received, gone with it; None: they could not be counted."""
    receivers: int
    """Processes that received from it when it was looked at; 0 unless it was forced."""
    in_use: Sequence[str]
    """Subscriptions that are left, by their full names, for processes receive from them: stop those, and delete again
    with force. Empty unless it was forced."""
    kept: Sequence[str]
    """The things that look as if they belonged to the queue and are left, each with the reason; not those in use."""
    is_topic_kept: bool = False
    """Other namespaces use its Kafka topic, which is left with its messages: only what this one kept of it goes."""

    def __repr__(self) -> str:
        return summary(
            self,
            self.destination,
            is_dry_run=self.is_dry_run,
            held=self.held,
            receivers=self.receivers,
            topics=self.topics,
            groups=self.groups,
            in_use=self.in_use,
            kept=self.kept,
            is_topic_kept=self.is_topic_kept,
        )


@dataclass(frozen=True, slots=True)
class Belongings:
    """Kafka's belongings of a queue in one namespace."""

    destination: Queue | Topic
    """Which of both it is."""
    topic: TopicDescription | None
    changelog: str | None
    group: str | None
    receivers: int
    listeners: int
    """Processes with private subscriptions of it, which no group shows."""
    is_recorded: bool
    others: Sequence[str]
    """Other namespaces in which the topic is a queue; "" is the one without a name."""
    subscriptions: Mapping[str, SubscriptionRecord]
    """The subscriptions of this namespace by consumer group, also such as are ending, but for those in use: they go
    with their topic."""
    names: Sequence[str]
    """The names of all subscriptions that are not ending. Then it is a JMS topic."""
    in_use: Sequence[str]
    """The names of subscriptions that processes receive from."""
    kept: Sequence[str]
    companions: Sequence[str] = ()
    """Groups that say how much was parked of those that go."""
    is_topic_kept: bool = False
    """The topic is there, and not to be deleted: other namespaces use it."""

    @property
    def topics(self) -> list[str]:
        """The Kafka topics to delete."""
        return [name for name in (self.topic and self.topic.name, self.changelog) if name]

    @property
    def groups(self) -> list[str]:
        """The consumer groups to delete: one with members cannot be."""
        own = [self.group] if self.group is not None and not self.receivers else []
        return [*own, *sorted(self.subscriptions), *self.companions]


def belongings(queue: Queue, namespace: str, *, admin: KafkaAdmin, registry: Registry, now_ms: int) -> Belongings:
    """Look for all that there is of the queue.

    Raises:
        KafkaClientError: no answer.
    """
    names, groups = admin.topic_names(), admin.groups()
    topic, changelog, group = queue.kafka_topic(namespace), queue.changelog_topic(namespace), queue.group_id(namespace)
    described = admin.describe([topic]).get(topic)
    registry.refresh()
    kept, user = [], _other_user(changelog, queue, namespace, names)
    if changelog in names and user is not None:
        kept.append(f"topic {changelog}: it is the changelog of {user} too")
    subscriptions = _subscriptions(queue, described, namespace, registry)
    in_use = [each for each in subscriptions if each in groups and admin.group_members(each)]
    full_names = {group: record.subscription.full_name for group, record in subscriptions.items()}
    names_of = sorted(full_names[group] for group, record in subscriptions.items() if not record.is_ending)
    is_topic = bool(names_of) or (described is not None and registry.is_topic(queue.name, described.topic_id))
    receivers = admin.group_members(group) if group in groups else 0
    going = [*([] if receivers else [group]), *sorted(each for each in subscriptions if each not in in_use)]
    return Belongings(
        destination=Topic(queue.name) if is_topic else queue,
        topic=described,
        changelog=changelog if changelog in names and user is None else None,
        group=group if group in groups else None,
        receivers=receivers,
        listeners=len(private_readers(registry.log.values(), now_ms, topic=topic)),
        is_recorded=registry.is_recorded(queue.name, None if described is None else described.topic_id),
        others=sorted({*namespaces_among(queue, groups), *_by_changelogs(queue, names)} - {namespace}),
        subscriptions={group: record for group, record in subscriptions.items() if group not in in_use},
        names=names_of,
        in_use=sorted(full_names[each] for each in in_use),
        kept=kept,
        companions=[each for each in map(companion_of, going) if each in groups],
    )


def without_shared(found: Belongings) -> Belongings:
    """Return what is this namespace's alone: a topic that others use is kept."""
    if found.topic is None or not found.others:
        return found
    whose = " and ".join(f"namespace {each!r}" if each else "no namespace" for each in found.others)
    kept = f"topic {found.topic.name}: {found.destination} of {whose} uses it, too; it goes for all of them if forced"
    return replace(found, topic=None, is_topic_kept=True, kept=[*found.kept, kept])


def check_deletable(queue: Queue, namespace: str, found: Belongings, *, is_topic: bool, force: bool) -> None:
    """Raise unless it may go; `is_topic`: it was asked for as one.

    Raises:
        InvalidDestinationError: there is nothing of it; or, unless forced, it does not look like a queue of ours.
        IllegalStateError: unless forced: somebody receives from it, or it has subscriptions.
    """
    shown = found.destination
    if not (found.topics or found.groups or found.is_recorded or found.receivers or found.in_use):
        here = f" in namespace {namespace!r}" if namespace else ""
        missing = Topic(queue.name) if is_topic else queue
        raise InvalidDestinationError(
            f"{missing}: there is no such {missing.kind}{here}, and nothing is left of one; "
            + (f"kept: {'; '.join(found.kept)}" if found.is_topic_kept else THERE_ARE),
            destination=queue.name,
        )
    if force:
        return
    if found.receivers:
        processes = "1 process receives" if found.receivers == 1 else f"{found.receivers} processes receive"
        raise IllegalStateError(
            f"{shown}: {processes} from it (consumer group {found.group}); stop them first (one that was killed counts "
            f"for its session timeout still, 10 s unless it sets another), or delete it with force=True",
            destination=queue.name,
            receivers=found.receivers,
        )
    if found.listeners:
        processes = "1 process has" if found.listeners == 1 else f"{found.listeners} processes have"
        raise IllegalStateError(
            f"{shown}: {processes} consumers of it; stop them first (one that was killed counts for a minute still, or "
            f"three times its session timeout), or delete it with force=True",
            destination=queue.name,
            receivers=found.listeners,
        )
    if found.names:
        named = ", ".join(repr(each) for each in found.names[:NAMED])
        more = f" and {len(found.names) - NAMED} more" if len(found.names) > NAMED else ""
        raise IllegalStateError(
            f"{shown}: it is a JMS topic with subscriptions ({named}{more}); end them first with {UNSUBSCRIBE}, "
            f"or delete it with force=True",
            destination=queue.name,
            subscriptions=found.names,
        )
    if found.topic is not None and found.changelog is None and not (found.kept or found.in_use):
        raise InvalidDestinationError(
            f"{queue}: the Kafka topic {queue.name!r} has no {queue.changelog_topic(namespace)} beside it, so it is "
            f"not a queue that jbm-kafka made or received from; delete it with force=True if it is meant all the same",
            destination=queue.name,
        )


def delete_all(queue: Queue, found: Belongings, *, admin: KafkaAdmin, registry: Registry) -> None:
    """Delete it; where that ends early, a second time deletes the rest.

    Raises:
        KafkaClientError: some of it could not be deleted.
    """
    admin.delete_topics(found.topics)  # first: what is left without its topic does no harm
    admin.delete_groups(found.groups)
    if found.subscriptions:
        registry.log.write({subscription_key(group): None for group in found.subscriptions})
    if found.is_recorded:
        registry.forget(queue.name, None if found.topic is None else found.topic.topic_id)


def _by_changelogs(queue: Queue, topics: Collection[str]) -> Iterator[str]:
    """The namespaces that have a changelog for the queue, as far as it cannot be another queue's."""
    end = queue.changelog_topic()
    for topic in topics:
        if topic == end:
            yield ""
        elif topic.endswith(f".{end}"):
            other = topic.removesuffix(f".{end}")
            if f"{other}.{queue.name}" not in topics and f"{other}.jbm.registry" in topics:
                yield other


def _subscriptions(
    queue: Queue, topic: TopicDescription | None, namespace: str, registry: Registry
) -> dict[str, SubscriptionRecord]:
    """Return those that are recorded of the topic, or, where it is gone, of any of the name, by group."""
    records = [record for _, record in subscriptions_in(registry.log.values())]
    return {
        record.subscription.group_id(namespace): record
        for record in records
        if record.subscription.topic.name == queue.name and (topic is None or record.topic_id == topic.topic_id)
    }


def _other_user(changelog: str, queue: Queue, namespace: str, topics: Collection[str]) -> str | None:
    """Another queue that has this changelog: `shop.orders` and `orders` in the namespace `shop` have the same."""
    parts = changelog.removesuffix(CHANGELOG_SUFFIX).split(".")
    for cut in range(len(parts)):
        other, name = ".".join(parts[:cut]), ".".join(parts[cut:])
        is_own = (other, name) == (namespace, queue.name)
        if not is_own and name in topics and with_namespace("jbm.registry", other) in topics:
            return f"queue:{name}" + (f" in namespace {other!r}" if other else " without a namespace")
    return None


def deletion_report(found: Belongings, held: int | None, registry: str, *, is_dry_run: bool) -> DeletionReport:
    """Return what was deleted, or would be."""
    return DeletionReport(
        destination=found.destination,
        is_dry_run=is_dry_run,
        topics=found.topics,
        groups=found.groups,
        registry=registry if found.is_recorded else None,
        held=held,
        receivers=found.receivers,
        in_use=found.in_use,
        kept=found.kept,
        is_topic_kept=found.is_topic_kept,
    )
