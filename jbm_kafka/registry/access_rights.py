"""Which rights in Kafka each kind of program of ours needs: one table, and the access rules that it means.

`jbm-kafka docs security` shows the table; tests/security plays each role with these rights alone, and some without
each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from jbm_kafka.core.destination import Destination, with_namespace
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC
from jbm_kafka.ports.access_rules import CLUSTER, AccessRule, Operation, ResourceKind
from jbm_kafka.registry.own_topics import (
    branches_topic,
    bridges_topic,
    commands_topic,
    events_topic,
    ledger_topic,
    registry_topic,
)


class Role(Enum):
    """A kind of program. One that does several things has the rights of several roles."""

    PRODUCER = "producer"
    """Programs that only send, also in transactions."""
    WORKER = "worker"
    """Programs that receive: queues, subscriptions, retries, dead letters, browsers. One that sends, too, is also a
    producer; one that receives dead letters names their queue as a queue."""
    SIDECAR = "sidecar"
    """`jbm-kafka sidecar` (docs/amqp.md), for all that its users may; it makes no queue. Its users have no rights in
    Kafka."""
    OPERATOR = "operator"
    """Every command but `create`, `delete` and `admit-partitions`; to delete subscriptions, too."""
    LOOK = "look"
    """`list`, `show`, `browse`, `export`, `Admin`; `explain` says that receivers could not be asked."""
    SPARK = "spark"
    """Jobs of docs/spark.md: reading, writing, archives, replays."""
    REQUESTS = "requests"
    """Besides: temporary queues, `session.request` (docs/recipes.md#request-and-reply), and who answers."""
    SCHEDULES = "schedules"
    """Besides: a worker with docs/schedules.md, which sends their runs."""
    XA = "xa"
    """Besides: branches of transactions of several systems (docs/xa.md)."""
    BRIDGE = "bridge"
    """Besides: a producer that takes messages into the cluster from elsewhere (docs/bridge.md#rights)."""
    MOVING = "moving"
    """`import` and `adopt` (docs/backup-and-moving.md), into topics that are there. For `export` it takes *look*."""
    TRUNCATION = "truncation"
    """Besides: a worker whose settled messages are deleted from the log
    (docs/topics.md#what-is-settled-can-be-deleted), and `jbm-kafka truncate`. Kafka's right for that also deletes the
    topic."""


class Resource(Enum):
    """On what, in the words of docs/security.md."""

    DESTINATIONS = "the queues and topics"
    LETTERS = "the dead-letter and expiry addresses"
    CHANGELOGS = "changelogs of the queues and topics, `<name>.jbm-changelog`"
    LETTERS_CHANGELOGS = "changelogs of those addresses"
    REGISTRY = "`jbm.registry`"
    EVENTS = "`jbm.events`"
    COMMANDS = "`jbm.commands`"
    TEMPORARY = "`jbm.temporary`"
    BRANCHES = "`jbm.branches`"
    BRIDGES = "`jbm.bridges`"
    BATCHES = "`jbm.spark-batches`"
    GROUPS = "groups that begin with `jbm.`"
    ALL_GROUPS = "all groups of the cluster"
    TRANSACTIONAL_IDS = "transactional ids that begin with `jbm.`"
    TRANSACTION_STATE = "Kafka's topic `__transaction_state`"
    CLUSTER = "the cluster"


_NAMED = {each.value: each for each in Operation}

Rights = Mapping[Resource, frozenset[Operation]]


def _rights(**spelt: str) -> Rights:
    return {Resource[name.upper()]: frozenset(_NAMED[word] for word in text.split()) for name, text in spelt.items()}


def _needed(operations: frozenset[Operation]) -> frozenset[Operation]:
    """Without what others of them contain."""
    if operations & {Operation.READ, Operation.WRITE, Operation.DELETE}:
        return operations - {Operation.DESCRIBE}
    return operations


def _all(*several: Rights) -> Rights:
    found: dict[Resource, frozenset[Operation]] = {}
    for rights in several:
        for resource, operations in rights.items():
            found[resource] = _needed(found.get(resource, frozenset()) | operations)
    return found


_PRODUCER = _rights(
    destinations="Write DescribeConfigs",
    changelogs="Describe DescribeConfigs",
    registry="Read DescribeConfigs",
    events="Describe DescribeConfigs",
    commands="Describe DescribeConfigs",
    groups="Read Delete",  # a process marks its latest commit as the offset of a group of its own
    transactional_ids="Write",
)
_WORKER = _rights(
    destinations="Read DescribeConfigs",
    letters="Write DescribeConfigs",
    changelogs="Read Write DescribeConfigs",
    letters_changelogs="Describe DescribeConfigs",
    registry="Read Write DescribeConfigs",  # claims: client ids, subscriptions, selectors
    events="Write DescribeConfigs",
    commands="Read Write DescribeConfigs",
    groups="Read Delete",
    transactional_ids="Write",
)
_REQUESTS = _rights(temporary="Read Write DescribeConfigs", groups="Read Delete")
_LOOK = _rights(
    destinations="Read", letters="Read", changelogs="Read", letters_changelogs="Read", registry="Read", branches="Read",
    bridges="Read", groups="Describe",
)  # fmt: skip
_OPERATOR = _all(
    _WORKER,
    _LOOK,
    _rights(
        destinations="Write",
        letters_changelogs="Write",
        branches="Write",
        transaction_state="Read",
    ),
)

RIGHTS: Mapping[Role, Rights] = MappingProxyType(
    {
        Role.PRODUCER: _PRODUCER,
        Role.WORKER: _WORKER,
        Role.SIDECAR: _all(_PRODUCER, _WORKER, _REQUESTS),
        Role.OPERATOR: _OPERATOR,
        Role.LOOK: _LOOK,
        Role.SPARK: _rights(  # its own readers have no group
            destinations="Read Write DescribeConfigs",
            letters="Read",
            changelogs="Read DescribeConfigs",
            registry="Read Write",
            events="Read",
            batches="Read Write",
            groups="Read",
            transactional_ids="Write",
        ),
        Role.REQUESTS: _REQUESTS,
        Role.SCHEDULES: _rights(destinations="Write DescribeConfigs", registry="Read Write", transactional_ids="Write"),
        Role.XA: _rights(branches="Read Write", groups="Read Delete", transactional_ids="Write"),
        Role.BRIDGE: _rights(bridges="Read Write"),
        Role.MOVING: _rights(
            destinations="Read Write DescribeConfigs",
            changelogs="Read Write DescribeConfigs",
            registry="Read Write",
            groups="Read",
            transactional_ids="Write",
        ),
        # Of groups that are not ours what they have not read stays.
        Role.TRUNCATION: _rights(destinations="Delete", cluster="Describe", all_groups="Describe"),
    }
)
"""Whatever else a role's programs are seen to ask for is refused without harm."""


@dataclass(frozen=True, slots=True)
class NamespaceTopics:
    """The topics that a namespace of a cluster has."""

    namespace: str
    destinations: Sequence[Destination]
    letters: Sequence[Destination]
    """Its dead-letter and expiry addresses."""


def rules_of(roles: Iterable[Role], topics: NamespaceTopics) -> list[AccessRule]:
    """The access rules of who has these roles: one for each resource, and none that it does not need."""
    found: dict[tuple[ResourceKind, str, bool], frozenset[Operation]] = defaultdict(frozenset)
    wanted = _all(*(RIGHTS[role] for role in roles))
    for resource in Resource:
        for kind, name, is_prefix in _places(resource, topics):
            if resource in wanted:
                found[kind, name, is_prefix] = _needed(found[kind, name, is_prefix] | wanted[resource])
    return [AccessRule(kind, name, each, is_prefix) for (kind, name, is_prefix), each in found.items()]


def _places(resource: Resource, topics: NamespaceTopics) -> Iterable[tuple[ResourceKind, str, bool]]:
    """Kafka's resources, as kind, name, and whether the name is a prefix."""
    namespace = topics.namespace
    ours = with_namespace("jbm.", namespace)
    named: Mapping[Resource, Sequence[str]] = {
        Resource.DESTINATIONS: [each.kafka_topic(namespace) for each in topics.destinations],
        Resource.LETTERS: [each.kafka_topic(namespace) for each in topics.letters],
        Resource.CHANGELOGS: [each.changelog_topic(namespace) for each in topics.destinations],
        Resource.LETTERS_CHANGELOGS: [each.changelog_topic(namespace) for each in topics.letters],
        Resource.REGISTRY: [registry_topic(namespace)],
        Resource.EVENTS: [events_topic(namespace)],
        Resource.COMMANDS: [commands_topic(namespace)],
        Resource.TEMPORARY: [with_namespace(TEMPORARY_TOPIC, namespace)],
        Resource.BRANCHES: [branches_topic(namespace)],
        Resource.BRIDGES: [bridges_topic(namespace)],
        Resource.BATCHES: [ledger_topic(namespace)],
        Resource.TRANSACTION_STATE: ["__transaction_state"],
    }
    if resource in named:
        return [(ResourceKind.TOPIC, name, False) for name in named[resource]]
    others = {
        Resource.GROUPS: (ResourceKind.GROUP, ours, True),
        Resource.ALL_GROUPS: (ResourceKind.GROUP, "*", False),
        Resource.TRANSACTIONAL_IDS: (ResourceKind.TRANSACTIONAL_ID, ours, True),
        Resource.CLUSTER: (ResourceKind.CLUSTER, CLUSTER, False),
    }
    return [others[resource]]
