"""Questions about the cluster and changes to its topics, each bounded by one timeout."""

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ imports them without exporting
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from jbm_kafka.kafka.connection_faults import ConnectionFaults
from jbm_kafka.kafka.coordinator_client import GIVEN_UP_BY_US, CoordinatorClient
from jbm_kafka.kafka.first_contact import FirstContact, check_brokers
from jbm_kafka.kafka.leaked_references import Unheeded, let_topic_id_go
from jbm_kafka.kafka.questions import Deadline, Questions, only, result
from jbm_kafka.kafka.stable_ends import StableEnds
from jbm_kafka.kafka.translated_errors import FENCED, NOT_ALLOWED, UNKNOWN_TOPIC, cause, trouble
from jbm_kafka.ports import (
    CommittedOffset,
    GroupDescription,
    GroupFenced,
    GroupKind,
    GroupMember,
    KafkaClientError,
    LogPlace,
    NobodyAnswers,
    PositionOutOfRange,
    TopicDescription,
    UnknownTopic,
)
from jbm_kafka.ports.access_rules import AccessRule, ResourceKind

_ASKED_TOPIC = "__consumer_offsets"
"""Asked for where only an answer is wanted: it need not be there."""
APPEARS_S = 5.0
"""For so long after a topic was first seen some broker may deny it: each learns of it in its own time."""
_KINDS = {ConsumerGroupType.CLASSIC: GroupKind.CLASSIC, ConsumerGroupType.CONSUMER: GroupKind.CONSUMER}


_ANY_ANSWER_S = 1.0
"""For any broker to say anything."""
_RESOURCES = {
    ResourceKind.TOPIC: ResourceType.TOPIC,
    ResourceKind.GROUP: ResourceType.GROUP,
    ResourceKind.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    ResourceKind.CLUSTER: ResourceType.BROKER,
}
_BROKERS_OWN = -1
"""The `default.replication.factor`."""
_NONE_SINCE = -1
"""Kafka's answer for a partition that has no record of a time or later."""
_NOT_NOW = (*UNKNOWN_TOPIC, *NOT_ALLOWED, KafkaError._NOENT, KafkaError.LEADER_NOT_AVAILABLE)
"""Errors that say of one partition that nothing is known of it now, however the others are."""
_ELSEWHERE = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
"""Stands for an answer that another broker, or the same one later, gives otherwise: the question is repeated."""


class ConfluentAdmin:
    """Implements `ports.KafkaAdmin`."""

    def __init__(
        self, settings: dict[str, Any], *, group_settings: dict[str, Any], bootstrap: str, timeout_s: float
    ) -> None:
        """`group_settings` are those of a consumer that reads nothing; for a group's offsets it has that `group.id`."""
        self._faults = ConnectionFaults()
        client_settings = {**settings, **self._faults.settings}
        self._open_client: AdminClient | None = AdminClient(client_settings)
        self._coordinators = CoordinatorClient(client_settings)
        self._group_settings = group_settings
        self._uses_tls = str(settings.get("security.protocol", "")).upper().endswith("SSL")
        self._bootstrap = bootstrap
        self._stable_ends = StableEnds(group_settings)
        self._made_at: dict[str, float] = {}
        """When topics that this client asked for were there, on the monotonic clock."""
        self._questions = Questions(
            bootstrap=bootstrap,
            timeout_s=timeout_s,
            faults=self._faults,
            poll=self._poll,
            is_answered=self._is_answered,
        )

    @property
    def _client(self) -> AdminClient:
        client = self._open_client
        if client is None:
            raise KafkaClientError(f"the connection to Kafka at {self._bootstrap} is closed")
        return client

    def _poll(self, timeout_s: float) -> object:
        return self._client.poll(timeout_s)

    def _is_answered(self) -> bool:
        with Unheeded():
            self._client.list_topics(_ASKED_TOPIC, timeout=_ANY_ANSWER_S)
            return True
        return False

    # -- topics ------------------------------------------------------------------------------------------------------

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        names = list(dict.fromkeys(topics))
        if not names:
            return {}

        def question(deadline: Deadline) -> dict[str, TopicDescription]:
            found = self._described(names, deadline)
            topics = {name: _topic(name, each) for name, each in found.items()}
            return self._with_config(topics, deadline) if with_config and topics else topics

        return self._questions.ask("describe topics " + ", ".join(names), question)

    def _described(self, names: list[str], deadline: Deadline) -> dict[str, Any]:
        # A broker that is alone, and just back, says for a moment that there is none. A question for which no broker is
        # known waits without asking for another list; the next one asks.
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=deadline.next_try_s())
        found = {}
        for name, future in futures.items():
            try:
                described = found[name] = result(future, deadline)
            except KafkaException as error:
                if cause(error).code() in NOT_ALLOWED:
                    about, right = f"describe topic {name}", f"Describe on topic {name}"
                    raise trouble(cause(error), about, self._bootstrap, right=right) from None
                if cause(error).code() not in UNKNOWN_TOPIC:
                    raise
            else:
                let_topic_id_go(described)
        if any(name not in found and self._is_new(name) for name in names):
            raise KafkaException(_ELSEWHERE)
        return found

    def unwritable(self, topics: Sequence[str]) -> frozenset[str]:
        names = list(dict.fromkeys(topics))

        def question(deadline: Deadline) -> frozenset[str]:
            futures = self._client.describe_topics(
                TopicCollection(names), include_authorized_operations=True, request_timeout=deadline.next_try_s()
            )
            return frozenset(name for name, future in futures.items() if not _may_write(future, deadline))

        return self._questions.ask("ask for rights on " + ", ".join(names), question) if names else frozenset()

    def _is_new(self, name: str) -> bool:
        """It was there moments ago, so a broker that does not know it has only not heard of it yet."""
        made_at = self._made_at.get(name)
        if made_at is None:
            return False
        if time.monotonic() - made_at < APPEARS_S:
            return True
        self._made_at.pop(name, None)
        return False

    def _with_config(self, topics: Mapping[str, TopicDescription], deadline: Deadline) -> dict[str, TopicDescription]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        futures = self._client.describe_configs(resources, request_timeout=deadline.remaining_s())
        found = {}
        for resource, future in futures.items():
            topic = topics[resource.name]
            try:
                entries = result(future, deadline)
            except KafkaException as error:
                if cause(error).code() in NOT_ALLOWED:
                    about, right = f"describe topic {topic.name}", f"DescribeConfigs on topic {topic.name}"
                    raise trouble(cause(error), about, self._bootstrap, right=right) from None
                if cause(error).code() not in UNKNOWN_TOPIC:
                    raise
                # Another broker than the one that has just described it: it is new there, or gone since.
                raise KafkaException(_ELSEWHERE) from None
            config = {name: entry.value for name, entry in entries.items() if entry.value is not None}
            found[topic.name] = replace(topic, config=config)
        return found

    def check_answered(self, timeout_s: float) -> None:
        def question(deadline: Deadline) -> None:
            # Not a request of the admin's: librdkafka 2.16 aborts the process by an assertion when the answer to one
            # comes after its time, as from a broker that stood still (rd_kafka_enq_once_del_source_return).
            self._client.list_topics(_ASKED_TOPIC, timeout=deadline.remaining_s())

        self._questions.ask("describe the cluster", question, timeout_s)

    def topic_names(self) -> frozenset[str]:
        def question(deadline: Deadline) -> frozenset[str]:
            return frozenset(self._client.list_topics(timeout=deadline.remaining_s()).topics)

        return self._questions.ask("list topics", question)

    def create_topic(
        self, name: str, *, partitions: int, config: Mapping[str, str], replication: int | None = None
    ) -> bool:
        about = f"create topic {name}"
        topic = NewTopic(name, partitions, _BROKERS_OWN if replication is None else replication, config=dict(config))

        def question(deadline: Deadline) -> bool:
            try:
                result(only(self._client.create_topics([topic], request_timeout=deadline.remaining_s())), deadline)
            except KafkaException as error:
                if cause(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        created = self._questions.ask(about, question, right=f"Create on topic {name}, or on the cluster")
        self._made_at[name] = time.monotonic()
        self._wait_usable(about, name, partitions if created else 1)
        self._made_at[name] = time.monotonic()
        return created

    def alter_config(self, name: str, config: Mapping[str, str]) -> None:
        changes = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)

        def question(deadline: Deadline) -> None:
            seconds = deadline.remaining_s()
            futures = self._client.incremental_alter_configs([resource], request_timeout=seconds)
            result(only(futures), deadline)

        about = f"change {', '.join(config)} of topic {name}"
        self._questions.ask(about, question, right=f"AlterConfigs on topic {name}")
        # A broker takes a change some moments later than the controller that has confirmed it.
        self._questions.wait(about, lambda: self._shows(name, config), "the brokers still show other values")

    def _shows(self, name: str, config: Mapping[str, str]) -> bool:
        found = self.describe([name], with_config=True).get(name)
        return found is None or config.items() <= found.config.items()

    def add_partitions(self, name: str, partitions: int) -> None:
        about = f"give topic {name} {partitions} partitions"
        wanted = NewPartitions(name, partitions)

        def question(deadline: Deadline) -> None:
            try:
                result(only(self._client.create_partitions([wanted], request_timeout=deadline.remaining_s())), deadline)
            except KafkaException as error:
                if cause(error).code() != KafkaError.INVALID_PARTITIONS:
                    raise
                self._check_grown(error, name, partitions, deadline)

        self._questions.ask(about, question, right=f"Alter on topic {name}")
        self._wait_usable(about, name, partitions)

    def _check_grown(self, error: KafkaException, name: str, partitions: int, deadline: Deadline) -> None:
        """Return when the topic has so many: another process was quicker. Else raises `error`.

        Kafka has one error code for a count that is there already and for a smaller one.
        """
        found = self._described([name], deadline).get(name)
        if found is not None and len(found.partitions) < partitions:
            # The controller has more already than this broker shows: asked again, it shows them.
            raise KafkaException(_ELSEWHERE)
        if found is None or len(found.partitions) > partitions:
            raise error

    def delete_topics(self, names: Sequence[str]) -> None:
        if not names:
            return
        about = "delete topics " + ", ".join(names)
        for name in names:
            self._made_at.pop(name, None)

        def question(deadline: Deadline) -> None:
            futures = self._client.delete_topics(list(names), request_timeout=deadline.remaining_s())
            for future in futures.values():
                try:
                    result(future, deadline)
                except KafkaException as error:
                    if cause(error).code() not in UNKNOWN_TOPIC:
                        raise

        self._questions.ask(about, question, right="Delete on each of them")
        self._questions.wait(about, lambda: not self.describe(names), "they are still there")

    def _wait_usable(self, about: str, name: str, partitions: int) -> None:
        def has_leaders() -> bool:
            topic = self._questions.ask(about, lambda deadline: self._described([name], deadline)).get(name)
            leaders = [p for p in topic.partitions if p.leader is not None and p.leader.id >= 0] if topic else []
            return len(leaders) >= partitions

        self._questions.wait(about, has_leaders, "it exists, but its partitions have no leaders")

    # -- positions ---------------------------------------------------------------------------------------------------

    def begin_positions(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        return self._positions(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_positions(
        self, topic: str, partitions: Sequence[int], *, stable: bool, timeout_s: float | None = None
    ) -> Mapping[int, int]:
        if not partitions:  # nothing is asked, so nothing is known of the brokers either
            return {}
        if stable:
            ends = self._stable_ends
            return self._questions.ask(
                f"positions of topic {topic}",
                lambda deadline: ends.ask(topic, partitions, deadline),
                timeout_s,
                right=f"Describe on topic {topic}",
            )
        return self._positions(topic, partitions, OffsetSpec.latest(), timeout_s)  # type: ignore[no-untyped-call]

    def positions_since(self, topic: str, partitions: Sequence[int], since_ms: int) -> Mapping[int, int]:
        spec = OffsetSpec.for_timestamp(max(since_ms, 0))
        found = self._positions(topic, partitions, spec, lowest=_NONE_SINCE)
        without = [partition for partition, position in found.items() if position == _NONE_SINCE]
        return {**found, **self.end_positions(topic, without, stable=False)}

    def _positions(
        self,
        topic: str,
        partitions: Sequence[int],
        spec: OffsetSpec,
        timeout_s: float | None = None,
        *,
        lowest: int = 0,
    ) -> Mapping[int, int]:
        if not partitions:
            return {}
        places = {TopicPartition(topic, partition): spec for partition in partitions}

        def question(deadline: Deadline) -> dict[int, int]:
            # Waits for a connection, which the search for leaders does not: without one librdkafka leaves it out, and
            # searches again 3 s later. Not `describe_cluster`: where no broker is named it ends the process.
            self._described([topic], deadline)
            seconds = deadline.remaining_s()
            futures = self._client.list_offsets(
                places, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=seconds
            )
            try:
                found = {place.partition: result(future, deadline).offset for place, future in futures.items()}
            except KafkaException as error:
                raise self._without_leaders(error, f"positions of topic {topic}", topic, partitions, deadline) from None
            if min(found.values()) < lowest:
                # A leader that does not answer is no error to librdkafka: it gives -1001 for its partitions.
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return found

        return self._questions.ask(
            f"positions of topic {topic}", question, timeout_s, right=f"Describe on topic {topic}"
        )

    def positions(self, topics: Mapping[str, int], at: LogPlace) -> Mapping[str, Mapping[int, int]]:
        spec = OffsetSpec.earliest() if at is LogPlace.BEGIN else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        places = {TopicPartition(name, p): spec for name, count in topics.items() for p in range(count)}
        isolation = IsolationLevel.READ_COMMITTED if at is LogPlace.STABLE_END else IsolationLevel.READ_UNCOMMITTED

        def question(deadline: Deadline) -> dict[str, dict[int, int]]:
            found: dict[str, dict[int, int]] = {name: {} for name in topics}
            futures = self._client.list_offsets(
                places, isolation_level=isolation, request_timeout=deadline.remaining_s()
            )
            for place, future in futures.items():
                try:
                    position = result(future, deadline).offset
                except KafkaException as error:
                    if cause(error).code() not in _NOT_NOW:
                        raise
                    position = -1
                if position >= 0:
                    found[place.topic][place.partition] = position
            return {name: positions for name, positions in found.items() if len(positions) == topics[name]}

        return self._questions.ask(f"positions of {len(topics)} topics", question) if places else {}

    def delete_records(self, topic: str, before: Mapping[int, int]) -> Mapping[int, int]:
        if not before:
            return {}
        assert min(before.values()) >= 0, before  # to Kafka -1 is the end of a log
        places = [TopicPartition(topic, partition, position) for partition, position in before.items()]
        about = f"delete records of {topic}"

        def question(deadline: Deadline) -> dict[int, int]:
            seconds = deadline.remaining_s()
            futures = self._client.delete_records(places, request_timeout=seconds, operation_timeout=seconds)
            begins = {}
            for place, future in futures.items():
                try:
                    begins[place.partition] = result(future, deadline).low_watermark
                except KafkaException as error:
                    if cause(error).code() != KafkaError.OFFSET_OUT_OF_RANGE:
                        raise self._without_leaders(error, about, topic, before, deadline) from None
                    text = f"{about}[{place.partition}]: position {before[place.partition]} is outside the log"
                    raise PositionOutOfRange(text, partition=place.partition) from None
            return begins

        return self._questions.ask(about, question, right=f"Delete on topic {topic}")

    def _without_leaders(
        self, error: KafkaException, about: str, topic: str, partitions: Collection[int], deadline: Deadline
    ) -> Exception:
        """Return what "no leaders" means: either there is no such partition, or a leader is being elected; else the
        error."""
        if cause(error).code() != KafkaError._NOENT:
            return error
        described = self._described([topic], deadline).get(topic)
        if described is None or max(partitions) >= len(described.partitions):
            return UnknownTopic(f"{about}: no such topic or partition")
        return KafkaException(_ELSEWHERE)

    # -- groups ------------------------------------------------------------------------------------------------------

    def committed(
        self, group: str, topic: str, partitions: Sequence[int], *, timeout_s: float | None = None
    ) -> Mapping[int, CommittedOffset]:
        if not partitions:
            return {}
        places = [TopicPartition(topic, partition) for partition in partitions]

        def question(deadline: Deadline) -> dict[int, CommittedOffset]:
            try:
                answers = client.committed(places, timeout=deadline.next_try_s())
            except KafkaException:
                # Where the group may not be described it waits in vain; only its own queue says why.
                event = client.poll(0)
                refusal = None if event is None else event.error()
                if refusal is not None and refusal.code() in NOT_ALLOWED:
                    raise KafkaException(refusal) from None
                raise
            for place in answers:
                if place.error is not None:
                    raise KafkaException(place.error)
            # -1001 stands for "nothing committed".
            return {p.partition: CommittedOffset(p.offset, p.metadata or "") for p in answers if p.offset >= 0}

        # Not `list_consumer_group_offsets`: where a coordinator is new or has moved, that ends the process (librdkafka
        # issue 5040, up to 2.16.0). This consumer joins nothing.
        client = Consumer({**self._group_settings, "group.id": group})
        try:
            return self._questions.ask(
                f"committed offsets of group {group} for topic {topic}, which open transactions hold back, and brokers "
                "that have just started",
                question,
                timeout_s,
                right=f"Describe on group {group}, or on topic {topic}",
                is_of_a_broker=False,  # silence is most often such a transaction here: no other broker takes it over
            )
        finally:
            client.close()

    def group_members(self, group: str) -> int:
        return len(self._members(group))

    def member_counts(self, groups: Sequence[str]) -> Mapping[str, int]:
        names = list(dict.fromkeys(groups))

        def request(client: AdminClient, until: Deadline) -> dict[str, int]:
            found = {}
            for name, future in client.describe_consumer_groups(names, request_timeout=GIVEN_UP_BY_US).items():
                try:
                    found[name] = len(result(future, until).members)
                except KafkaException as error:
                    if cause(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
                        found[name] = 0
                    elif cause(error).code() not in NOT_ALLOWED:
                        raise
            return found

        def question(deadline: Deadline) -> dict[str, int]:
            return self._coordinators.ask(request, deadline)

        return self._questions.ask(f"members of {len(names)} groups", question) if names else {}

    def members(self, group: str, topic: str) -> Sequence[GroupMember]:
        return [_member(each, topic) for each in self._members(group)]

    def _members(self, group: str) -> Sequence[Any]:
        def request(client: AdminClient, until: Deadline) -> Any:
            return result(only(client.describe_consumer_groups([group], request_timeout=GIVEN_UP_BY_US)), until)

        def question(deadline: Deadline) -> Sequence[Any]:
            try:
                return list(self._coordinators.ask(request, deadline).members)
            except KafkaException as error:
                if cause(error).code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise
                return []

        return self._questions.ask(f"members of group {group}", question, right=f"Describe on group {group}")

    def sees_all_groups(self) -> bool:
        # Lists of ACLs need the same right as whole lists of groups, and answer with an error without it.
        nothing = AclBindingFilter(
            ResourceType.TOPIC, "jbm", ResourcePatternType.LITERAL,
            None, None, AclOperation.ALL, AclPermissionType.ALLOW,  # type: ignore[arg-type]
        )  # fmt: skip

        def question(deadline: Deadline) -> bool:
            try:
                result(self._client.describe_acls(nothing, request_timeout=deadline.remaining_s()), deadline)
            except KafkaException as error:
                if cause(error).code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                    return False
                if cause(error).code() != KafkaError.SECURITY_DISABLED:
                    raise
            return True

        return self._questions.ask("ask whether all groups may be described", question)

    def groups(self) -> Mapping[str, GroupDescription]:
        def question(deadline: Deadline) -> dict[str, GroupDescription]:
            answer = result(self._client.list_consumer_groups(request_timeout=deadline.remaining_s()), deadline)
            for error in answer.errors:  # of one broker: its groups are missing
                raise error if isinstance(error, KafkaException) else KafkaException(error)
            return {each.group_id: _group(each) for each in answer.valid}

        return self._questions.ask("list groups", question)

    def alter_offsets(self, group: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        if not offsets:
            return
        places = [TopicPartition(topic, p, each.position, each.metadata) for p, each in offsets.items()]

        about = f"offsets of group {group} for topic {topic}"

        def request(client: AdminClient, until: Deadline) -> Any:
            wanted = ConsumerGroupTopicPartitions(group, places)
            return result(only(client.alter_consumer_group_offsets([wanted], request_timeout=GIVEN_UP_BY_US)), until)

        def question(deadline: Deadline) -> None:
            try:
                for place in self._coordinators.ask(request, deadline).topic_partitions:
                    if place.error is not None:
                        raise KafkaException(place.error)
            except KafkaException as error:
                if cause(error).code() not in FENCED:
                    raise
                raise GroupFenced(f"{about}: it has members, and positions are theirs", group=group) from None

        self._questions.ask(about, question)

    def delete_groups(self, groups: Sequence[str]) -> None:
        if not groups:
            return

        def request(client: AdminClient, until: Deadline) -> None:
            for future in client.delete_consumer_groups(list(groups), request_timeout=GIVEN_UP_BY_US).values():
                try:
                    result(future, until)
                except KafkaException as error:
                    if cause(error).code() != KafkaError.GROUP_ID_NOT_FOUND:
                        raise

        def question(deadline: Deadline) -> None:
            self._coordinators.ask(request, deadline)

        self._questions.ask("delete groups " + ", ".join(groups), question, right="Delete on each of them")

    def allow(self, principal: str, rules: Sequence[AccessRule]) -> None:
        bindings = [
            AclBinding(
                _RESOURCES[rule.kind],
                rule.name,
                ResourcePatternType.PREFIXED if rule.is_prefix else ResourcePatternType.LITERAL,
                principal,
                "*",
                AclOperation[operation.name],
                AclPermissionType.ALLOW,
            )
            for rule in rules
            for operation in rule.operations
        ]

        def question(deadline: Deadline) -> None:
            for future in self._client.create_acls(bindings, request_timeout=deadline.remaining_s()).values():
                result(future, deadline)

        if bindings:
            self._questions.ask(f"set access rules of {principal}", question, right="Alter on the cluster")

    def brokers(self) -> int:
        def question(deadline: Deadline) -> int:
            return len(self._client.list_topics(_ASKED_TOPIC, timeout=deadline.remaining_s()).brokers)

        return self._questions.ask("count the brokers", question)

    def allowed(self, topics: Sequence[str], groups: Sequence[str]) -> Mapping[tuple[str, str], frozenset[str]]:
        def of_topics(deadline: Deadline) -> dict[tuple[str, str], frozenset[str]]:
            asked = TopicCollection(list(topics))
            futures = self._client.describe_topics(
                asked, include_authorized_operations=True, request_timeout=deadline.next_try_s()
            )
            found = {}
            for name, future in futures.items():
                try:
                    described = result(future, deadline)
                except KafkaException as error:
                    if cause(error).code() not in (*UNKNOWN_TOPIC, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                        raise
                    if cause(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        found["topic", name] = frozenset[str]()
                else:
                    found["topic", name] = _operations(described)
                    let_topic_id_go(described)
            return found

        def of_group(client: AdminClient, group: str, until: Deadline) -> frozenset[str] | None:
            future = only(
                client.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=GIVEN_UP_BY_US
                )
            )
            try:
                return _operations(result(future, until))
            except KafkaException as error:
                if cause(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return None
                if cause(error).code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    return frozenset()
                raise

        about = "ask what these credentials may do"
        found = self._questions.ask(about, of_topics) if topics else {}
        for group in groups:

            def question(deadline: Deadline, group: str = group) -> frozenset[str] | None:
                return self._coordinators.ask(lambda client, until: of_group(client, group, until), deadline)

            may = self._questions.ask(about, question)
            if may is not None:
                found["group", group] = may
        return found

    def cluster_id(self) -> str:
        contact = FirstContact(
            bootstrap=self._bootstrap, uses_tls=self._uses_tls, faults=self._faults, poll=self._client.poll
        )

        def question(deadline: Deadline) -> str:
            found = contact.answer(lambda: self._client.list_topics(timeout=deadline.remaining_s()))
            check_brokers([str(broker.host) for broker in found.brokers.values()], self._bootstrap)
            return str(found.cluster_id)

        try:
            return self._questions.ask("describe the cluster", question)
        except NobodyAnswers:
            if (silent := contact.silent_listeners) is not None:
                raise NobodyAnswers(silent, bootstrap=self._bootstrap) from None
            raise

    def close(self) -> None:
        self._stable_ends.close()
        self._coordinators.close()
        self._open_client = None  # it ends with its last reference: a call that is under way has one


def _topic(name: str, found: Any) -> TopicDescription:
    partitions = found.partitions
    return TopicDescription(
        name,
        str(found.topic_id),
        len(partitions),
        replicas=min((len(each.replicas) for each in partitions), default=0),
        in_sync=min((len(each.isr) for each in partitions), default=0),
    )


def _operations(found: Any) -> frozenset[str]:
    return frozenset(each.name for each in found.authorized_operations or ())


def _may_write(answer: Future[Any], deadline: Deadline) -> bool:
    try:
        described = result(answer, deadline)
    except KafkaException as error:
        if cause(error).code() in UNKNOWN_TOPIC:
            return True  # not for want of a right
        if cause(error).code() in NOT_ALLOWED:
            return False
        raise
    let_topic_id_go(described)
    return described.authorized_operations is None or AclOperation.WRITE in described.authorized_operations


def _group(listing: Any) -> GroupDescription:
    kind = _KINDS.get(listing.type, GroupKind.OTHER)
    return GroupDescription(listing.group_id, kind, is_empty=listing.state is ConsumerGroupState.EMPTY)


def _member(found: Any, topic: str) -> GroupMember:
    mine = [place.partition for place in found.assignment.topic_partitions if place.topic == topic]
    return GroupMember(found.member_id, found.client_id, found.host.lstrip("/"), frozenset(mine))
