"""Writes into `jbm.events` what operators did, beside what checkpoints did."""

from __future__ import annotations

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.operator_actions import OperatorAction, encode_operator_action
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports import KafkaClientError, Outgoing, Unreachable
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import EVENTS_CONFIG, SYSTEM_PARTITIONS

SEND_TIMEOUT_S = 10.0


def write_operator_action(core: AdminCore, done: OperatorAction) -> None:
    """Write it; the topic is made where it is missing.

    Raises:
        JMSError: it is not written: no answer of a broker, or no right to write there.
    """
    topic = events_topic(core.namespace)
    with core.asking(f"write an operator's action into {topic}"):
        described = core.admin.describe([topic]).get(topic)
        if described is None:
            core.admin.create_topic(topic, partitions=SYSTEM_PARTITIONS, config=EVENTS_CONFIG)
        key, value = encode_operator_action(done)
        partition = partition_for(key, SYSTEM_PARTITIONS if described is None else described.partitions)
        refused: list[KafkaClientError] = []
        sender = core.kafka.sender()
        try:
            sender.send(Outgoing(topic, partition, key, value), lambda error: refused.append(error) if error else None)
            if not sender.flush(SEND_TIMEOUT_S):
                raise Unreachable(f"topic {topic}: not written within {SEND_TIMEOUT_S:g} s")
        finally:
            sender.close(SEND_TIMEOUT_S)
        if refused:
            raise refused[0]
