"""Which queues and topics there are on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from jbm_kafka.admin.cluster.admin_arguments import letters_in_topic, which_subscription
from jbm_kafka.codec.registry_records import SubscriptionRecord, subscriptions_in
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, Queue, Topic, name_fault, with_namespace
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.settings.address_settings import DefaultAddresses, default_addresses
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.ports import KafkaAdmin, TopicDescription
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.own_addresses import addresses_of
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.topics import Topics

DEFAULT_PARTITIONS = 16


class Catalog:
    """The queues and topics of one namespace, as the cluster and the registry have them now. Any thread."""

    def __init__(self, admin: KafkaAdmin, registry: Registry, namespace: str, *, is_in_memory: bool = False) -> None:
        """`is_in_memory`: no command of the terminal reaches it, so none is advised."""
        self.is_in_memory = is_in_memory
        self._admin = admin
        self._registry = registry
        self._namespace = namespace

    def queues(self) -> list[Queue]:
        """Each Kafka topic that has a changelog, or was used as a queue, and is not a JMS topic.

        A changelog that somebody deleted is missing until the next use; what the queue holds is there all the same.
        """
        topics = self._admin.topic_names()
        self._registry.refresh()
        marked = self._registry.topics_of(self._admin.describe(self._registry.marked_names()))
        prefix = with_namespace("", self._namespace)
        queues = [topic.removesuffix(CHANGELOG_SUFFIX) for topic in topics if topic.endswith(CHANGELOG_SUFFIX)]
        names = [queue.removeprefix(prefix) for queue in queues if queue.startswith(prefix)]
        beside = [name for name in names if name in topics and name not in marked and name_fault(name) is None]
        found = {*beside, *self._without_changelog(topics - marked - set(beside))}
        if not self._namespace:
            return [Queue(name) for name in sorted(found)]
        # `shop.orders` may be a queue of no namespace that shares this changelog: then the registry says what is ours.
        doubtful = self._admin.describe([name for name in found if prefix + name in topics])
        theirs = {name for name, topic in doubtful.items() if self._registry.recorded(name, topic.topic_id) is None}
        return [Queue(name) for name in sorted(found - theirs)]

    def _without_changelog(self, topics: Collection[str]) -> frozenset[str]:
        """Return those of them that were used as queues."""
        used = [name for name in self._registry.names_among(topics) if name_fault(name) is None]
        return self._registry.recorded_of(self._admin.describe(used)) if used else frozenset()

    def topics(self) -> list[Topic]:
        """Each Kafka topic that was created or used as a JMS topic."""
        self._registry.refresh()
        marked = self._registry.topics_of(self._admin.describe(self._registry.marked_names()))
        return [Topic(name) for name in sorted(marked)]

    def described(self, destination: Queue | Topic) -> TopicDescription | None:
        """Its Kafka topic, if there is one."""
        topic = destination.kafka_topic(self._namespace)
        return self._admin.describe([topic]).get(topic)

    def has_topic(self, topic: Topic) -> bool:
        """There is this JMS topic."""
        self._registry.refresh()
        found = self.described(topic)
        return found is not None and self._registry.is_topic(topic.name, found.topic_id)

    def existing(self, queue: Queue, *, is_target: bool = False) -> TopicDescription:
        """Its Kafka topic; `is_target` as of `missing`.

        Raises:
            InvalidDestinationError: it does not exist, or is a JMS topic's.
        """
        found = self.described(queue)
        if found is None:
            raise self.missing(queue, is_target=is_target)
        self._refuse_topic(queue, found, is_target=is_target)
        return found

    def with_letters(self, queue: Queue) -> TopicDescription:
        """As `existing`, of a dead-letter or expiry queue."""
        found = self.described(queue)
        self._registry.refresh()
        if found is not None and self._registry.is_topic(queue.name, found.topic_id):
            raise letters_in_topic(Topic(queue.name))
        return self.existing(queue)

    def named(self, destination: Queue | Topic | str) -> Queue | Topic:
        """The queue or topic of this name, which is there.

        Raises:
            InvalidDestinationError: it does not exist, or is of the other kind.
        """
        if not isinstance(destination, str | Queue | Topic):
            raise wrong_type("destination", destination, "it is a Queue, a Topic or its name")
        name = destination if isinstance(destination, str) else destination.name
        self._registry.refresh()
        found = self.described(Queue(name))
        is_topic = found is not None and self._registry.is_topic(name, found.topic_id)
        if is_topic and not isinstance(destination, Queue):
            return Topic(name)
        queue = Queue(name)
        if isinstance(destination, Topic):
            if found is not None:
                raise self._no_topic(name)
            raise self.missing(destination)
        self.existing(queue)
        return queue

    def _no_topic(self, name: str) -> InvalidDestinationError:
        """The error for a topic whose Kafka topic nobody has used as a JMS topic."""
        if Queue(name) in self.queues():
            instead = f"name a topic, or {name!r} alone where a queue will do"
            why = f"{name!r} is a queue, and only topics have subscriptions: {instead}"
        else:
            make = f"Admin.create_topic({name!r})" if self.is_in_memory else f"jbm-kafka create {name} --topic"
            why = f"nobody has used the Kafka topic {name!r} as a JMS topic yet; {make} makes it one"
        return InvalidDestinationError(f"topic:{name}: {why}", destination=name)

    def missing(self, destination: Queue | Topic, *, is_target: bool = False) -> InvalidDestinationError:
        """The error for a destination that is not there.

        `is_target`: something is to go there, so it may be made; else it was expected to be there.
        """
        name = destination.name
        known = f"{'Admin.destinations()' if self.is_in_memory else 'jbm-kafka list'} tells which there are"
        is_topic = isinstance(destination, Topic)
        create = f"jbm-kafka create {name}{' --topic' if is_topic else ''}"
        if self.is_in_memory:
            create = f"Admin.create_{'topic' if is_topic else 'queue'}({name!r})"
        remedy = f"create it with: {create}" if is_target else known
        return InvalidDestinationError(
            f"{destination}: there is no Kafka topic {name!r}; {remedy}",
            destination=name,
        )

    def is_unused(self, queue: Queue) -> bool:
        """A shipped address that nobody needed yet: it is made with the first receiver of any queue."""
        return queue.name in self.default_addresses() and self.described(queue) is None

    def default_addresses(self) -> DefaultAddresses:
        """The queues that take letters and expired messages here where no setting names any."""
        if not self._namespace:
            return default_addresses()
        self._registry.refresh()
        return default_addresses(addresses_of(self._namespace, self._registry.log.values()))

    def grower(self, destination: Queue | Topic) -> Callable[[int], None]:
        """Return a call that gives a queue or topic and its changelog so many partitions, and never fewer."""

        def grow(partitions: int) -> None:
            found = self.described(destination)
            if found is None:
                raise self.missing(destination)
            if found.partitions < partitions:
                self._admin.add_partitions(found.name, partitions)
            # Also the changelog gets what it lacks.
            topics = Topics(self._admin, namespace=self._namespace)
            topics.ensure(destination, create=False, partitions=DEFAULT_PARTITIONS)

        return grow

    def subscriptions_of(self, topic: Topic) -> Sequence[Subscription]:
        """Return those that the topic has now."""
        return [record.subscription for record in self.records_of(topic)]

    def subscription(self, topic: Topic, name: str, client_id: str) -> SubscriptionRecord:
        """The topic's subscription of this name and client id; a durable one before others.

        Raises:
            InvalidDestinationError: it does not exist; the text names those of the topic.
        """
        records = self.records_of(topic)
        meant = [each for each in records if (each.subscription.name, each.subscription.client_id) == (name, client_id)]
        if meant:
            return max(meant, key=lambda each: each.subscription.is_durable)
        others = ", ".join(sorted(repr(each.subscription.full_name) for each in records))
        hint = f"it has {others} (client id before the /)" if others else "it has none"
        which = f"{name!r} with client id {client_id!r}" if client_id else repr(name)
        raise InvalidDestinationError(
            f"{topic}: there is no subscription {which}: {hint}", destination=topic.name, name=name
        )

    def records_of(self, topic: Topic) -> Sequence[SubscriptionRecord]:
        """Return what the registry says of the subscriptions that the topic has now."""
        self._registry.refresh()
        found = [record for _, record in subscriptions_in(self._registry.log.values()) if not record.is_ending]
        return [each for each in found if each.subscription.topic == topic]

    def info_of(self, destination: Queue | Topic) -> TopicInfo:
        """Return what is needed to send a dead letter to the queue or topic that it came from.

        Raises:
            InvalidDestinationError: it is not there any more.
        """
        if self.described(destination) is None:
            option = " --topic" if isinstance(destination, Topic) else ""
            raise InvalidDestinationError(
                f"{destination}, where it came from, is not there any more; create it again with: "
                f"jbm-kafka create {destination.name}{option}",
                destination=destination.name,
            )
        topics = Topics(self._admin, namespace=self._namespace, registry=self._registry)
        return topics.ensure(destination, create=False, partitions=DEFAULT_PARTITIONS)

    def _refuse_topic(self, queue: Queue, described: TopicDescription, *, is_target: bool) -> None:
        """A topic's messages are its subscriptions', and no queue's."""
        self._registry.refresh()
        if self._registry.is_topic(queue.name, described.topic_id):
            if is_target:
                raise InvalidDestinationError(
                    f"topic:{queue.name}: {queue.name!r} is a topic, and messages are moved to queues only: name a "
                    f"queue",
                    destination=queue.name,
                )
            raise which_subscription(Topic(queue.name))
