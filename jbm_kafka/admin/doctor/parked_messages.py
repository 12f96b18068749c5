"""How many messages of a queue or subscription stand in its changelog alone, as that changelog says now."""

from __future__ import annotations

from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.store.changelog_reader import ChangelogScope, read_changelogs
from jbm_kafka.store.no_journal import NoJournal
from jbm_kafka.store.recovered_entries import decode_values

READ_TIMEOUT_S = 10.0


def parked_messages(kafka: Kafka, admin: KafkaAdmin, group: ChannelGroup, topic_id: str, partitions: int) -> int | None:
    """Their number; None: it cannot be known, for the changelog is missing or cannot be read."""
    scope = ChangelogScope(group.group_id, group.topic, group.log_id(topic_id), group.changelog_topic)
    reader = kafka.log_reader()
    try:
        found = read_changelogs(
            scope, range(partitions), admin=admin, reader=reader, journal=NoJournal(), timeout_s=READ_TIMEOUT_S
        )
    except KafkaClientError:
        return None
    finally:
        reader.close()
    entries = [entry for each in found.values() for entry in decode_values(each.values).others.values()]
    return sum(isinstance(entry, Parked) for entry in entries)
