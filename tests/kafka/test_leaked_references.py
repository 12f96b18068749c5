"""What confluent-kafka forgets to free is freed, and nothing else."""

import gc
import sys
import weakref
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition, Uuid
from confluent_kafka.admin import TopicDescription  # type: ignore[attr-defined]  # imported there, not exported

from jbm_kafka.kafka.leaked_references import Unheeded, let_error_go, let_topic_id_go
from jbm_kafka.kafka.profiles import transactional_settings
from jbm_kafka.kafka.transactional_producer import ConfluentTransactionalProducer
from jbm_kafka.kafka.translated_errors import cause
from jbm_kafka.ports import KafkaClientError, Outgoing

NOWHERE = "127.0.0.1:1"


def errors_in_memory() -> int:
    gc.collect()
    return sum(isinstance(each, KafkaError) for each in gc.get_objects())


def test_an_error_that_a_call_has_raised_goes_with_its_exception() -> None:
    """AMQP-10."""
    client = Consumer({"bootstrap.servers": NOWHERE, "group.id": "nobody", "log_level": 0})

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


class Handled(Exception):
    """One that a weak reference may be made to."""


def looked_into(refused: Callable[[], object]) -> None:
    with pytest.raises(KafkaException) as raised:
        refused()
    cause(raised.value)


def unheeded(refused: Callable[[], object]) -> None:
    with Unheeded():
        refused()


@pytest.mark.parametrize("way", [looked_into, unheeded])
def test_what_was_handled_when_a_call_failed_goes(way: Callable[[Callable[[], object]], None]) -> None:
    client = Producer({"bootstrap.servers": NOWHERE, "transactional.id": "nobody", "log_level": 0})

    def handle() -> weakref.ref[Handled]:
        try:
            raise Handled
        except Handled as error:
            way(client.begin_transaction)
            return weakref.ref(error)

    handled = handle()
    gc.collect()
    assert handled() is None


def test_a_producer_whose_transaction_was_refused_goes_when_it_is_let_go() -> None:
    """Its threads and connections stayed, so a bridge that was refused again and again had more and more of them."""
    ours = transactional_settings("nobody", 1_000, 1_000, 1 << 20)
    settings = {**ours, "bootstrap.servers": NOWHERE, "log_level": 0, "error_cb": lambda error: None}
    producer = ConfluentTransactionalProducer(settings, bootstrap=NOWHERE)
    with pytest.raises(KafkaClientError, match="produce to t"):
        producer.produce(Outgoing("t", 0, None, b"never begun"))
    producer.close()
    left = weakref.ref(producer)
    del producer
    gc.collect()
    assert left() is None
