"""What confluent-kafka forgets to free is freed, and nothing else."""

import gc
import sys

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition, Uuid
from confluent_kafka.admin import TopicDescription  # type: ignore[attr-defined]  # imported there, not exported

from jbm_kafka.kafka.leaked_references import let_error_go, let_topic_id_go


def errors_in_memory() -> int:
    gc.collect()
    return sum(isinstance(each, KafkaError) for each in gc.get_objects())


def test_an_error_that_a_call_has_raised_goes_with_its_exception() -> None:
    """AMQP-10."""
    client = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "nobody", "log_level": 0})

    def refused(count: int) -> int:
        for _ in range(count):
            with pytest.raises(KafkaException) as raised:
                client.get_watermark_offsets(TopicPartition("away", 0), timeout=0.001)
            let_error_go(raised.value)
            assert "watermark offsets" in raised.value.args[0].str()
        return errors_in_memory()

    before = refused(5)
    assert refused(20) == before
    client.close()


def test_where_nothing_has_leaked_nothing_is_freed() -> None:
    raised, described = KafkaException(KafkaError(KafkaError._FENCED)), TopicDescription("t", Uuid(1, 2), False, [])
    before = sys.getrefcount(raised.args[0]), sys.getrefcount(described.topic_id)
    for _ in range(3):
        let_error_go(raised)
        let_topic_id_go(described)
    assert (sys.getrefcount(raised.args[0]), sys.getrefcount(described.topic_id)) == before
