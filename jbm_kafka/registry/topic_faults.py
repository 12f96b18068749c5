"""Which settings of a Kafka topic lose messages, with the remedy: pure. The doctor and processes in use of it tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REPLICAS_WANTED = 3
FOREVER = ("-1", None)


@dataclass(frozen=True, slots=True)
class TopicFault:
    """One fault of one topic."""

    text: str
    """It names the setting and its value."""
    remedy: str
    """NAME stands for the topic."""


def cleanup_fault(config: Mapping[str, str], *, is_compacted: bool) -> TopicFault | None:
    """The fault of a topic that is to be compacted, or is not to be, and has another policy."""
    policy, wanted = config.get("cleanup.policy", "delete"), "compact" if is_compacted else "delete"
    if policy == wanted:
        return None
    harm = "what is to be kept goes by age" if is_compacted else "later messages of a unit replace earlier ones"
    return TopicFault(f"cleanup.policy is {policy} and must be {wanted}: {harm}", setting("cleanup.policy", wanted))


def retention_fault(config: Mapping[str, str]) -> TopicFault | None:
    """The fault of a destination of which Kafka deletes messages by age or size."""
    limits = [name for name in ("retention.ms", "retention.bytes") if config.get(name) not in FOREVER]
    if not limits or "delete" not in config.get("cleanup.policy", "delete"):
        return None
    text = f"{' and '.join(f'{each} is {config[each]}' for each in limits)}: Kafka deletes messages unread"
    return TopicFault(text, setting(*[part for name in limits for part in (name, "-1")]))


def copies_fault(replicas: int, brokers: int) -> TopicFault | None:
    """The fault of a topic that fewer brokers have than could."""
    wanted = min(REPLICAS_WANTED, brokers)
    if replicas >= wanted:
        return None
    text = f"it is on {replicas} of {brokers} brokers; {wanted} are wanted, so that one may be lost"
    return TopicFault(text, "kafka-reassign-partitions.sh gives NAME more replicas")


def setting(*pairs: str) -> str:
    """The command that gives the topic NAME these settings: names and values in turn."""
    changes = ",".join(f"{name}={value}" for name, value in zip(pairs[::2], pairs[1::2], strict=True))
    return f"kafka-configs.sh --alter --entity-type topics --entity-name NAME --add-config {changes}"
