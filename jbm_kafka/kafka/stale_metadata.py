"""Records that librdkafka refuses as for nowhere by metadata that is stale: their topic is there."""

from confluent_kafka import KafkaError, Producer

from jbm_kafka.kafka.leaked_references import Unheeded
from jbm_kafka.kafka.translated_errors import UNKNOWN_TOPIC

ASK_TIMEOUT_S = 5.0
"""How long a refused record's sender waits to hear whether its topic is there."""


def is_metadata_stale(error: KafkaError, producer: Producer, topic: str, partition: int) -> bool:
    """Return True if the cluster has the partition that `producer` has just refused a record for; then it may try
    again.

    A producer remembers for up to a second that a topic is gone, also when it was created again meanwhile. Asked by it,
    the answer is the producer's own to remember.
    """
    if error.code() not in UNKNOWN_TOPIC:
        return False
    with Unheeded():
        found = producer.list_topics(topic, timeout=ASK_TIMEOUT_S).topics[topic]
        return found.error is None and partition in found.partitions
    return False
