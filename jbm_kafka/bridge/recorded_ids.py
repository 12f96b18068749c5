"""How much bridges have recorded in a cluster, for those who look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing

from jbm_kafka.codec.bridge_marks import recorded_batches
from jbm_kafka.ports import Kafka, KafkaAdmin
from jbm_kafka.registry.own_topics import bridges_topic
from jbm_kafka.registry.registry_log import RegistryLog


def recorded_ids(kafka: Kafka, admin: KafkaAdmin, namespace: str) -> Mapping[str, int]:
    """Returns by bridge into this namespace how many messages it has taken on that may come again.

    Raises:
        KafkaClientError: no answer, or no right to read it.
        CorruptRecordError: a newer version has recorded it.
    """
    with closing(RegistryLog(kafka, admin, bridges_topic(namespace))) as log:
        log.refresh()
        found: dict[str, dict[bytes, bytes]] = defaultdict(dict)
        for key, value in log.values().items():
            name, _, rest = key.partition(b"|")
            found[name.decode()][rest] = value
    return {name: sum(map(len, recorded_batches(records).values())) for name, records in found.items()}
