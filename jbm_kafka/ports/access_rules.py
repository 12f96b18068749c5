"""Access rules of Kafka's (ACLs): what a user may do with a resource."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

CLUSTER = "kafka-cluster"
"""The name of the only resource of its kind."""


class Operation(Enum):
    """An operation, as Kafka's own tool spells it. Read, Write, Delete and Alter contain Describe."""

    READ = "Read"
    WRITE = "Write"
    DELETE = "Delete"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class ResourceKind(Enum):
    """With what, as Kafka's own tool calls its options."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Operations that are allowed on one resource, or on all whose names begin so."""

    kind: ResourceKind
    name: str
    operations: frozenset[Operation]
    is_prefix: bool = False

    @property
    def spelt(self) -> list[str]:
        """The operations as Kafka's own tool spells them, in the order of `Operation`."""
        return [each.value for each in Operation if each in self.operations]
