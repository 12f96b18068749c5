"""A call that does not return holds up its caller for as long as was agreed, and no longer."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.kafka.bounded_call import bounded


def test_a_call_that_does_not_return_is_given_up() -> None:
    """Of CONN-3: librdkafka's `send_offsets_to_transaction` was seen not to return after a broker's crash."""
    never = threading.Event()
    with pytest.raises(KafkaException, match="did not return") as raised:
        bounded(never.wait, 0.05)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    never.set()


def test_what_a_call_raises_is_raised() -> None:
    called: list[int] = []
    bounded(lambda: called.append(1), 10)
    assert called == [1]
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, 10)
