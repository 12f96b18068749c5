"""A partition without a leader: a send there is told so, and what that means for its unit."""

from __future__ import annotations

import queue

import pytest

from jbm_kafka import Topic, errors
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError, LeaderMissing, Outgoing, Unreachable
from jbm_kafka.providers.sidecar_provider import SidecarProvider
from tests.kafka.world import WAIT_S
from tests.support.wire_broker import wire_broker

SEND_TIMEOUT_MS = 1_000
SENDS = 3


def failure_of_a_send(bootstrap: str, key: bytes | None) -> KafkaClientError:
    """What each of some sends is told that nobody confirms."""
    sender = ConfluentKafka(bootstrap, send_timeout_ms=SEND_TIMEOUT_MS).sender()
    told: queue.Queue[KafkaClientError | None] = queue.Queue()
    for _ in range(SENDS):
        sender.send(Outgoing("orders", 0, key, b"x"), told.put)
    try:
        failures = [told.get(timeout=WAIT_S) for _ in range(SENDS)]
    finally:
        sender.close(WAIT_S)
    (failure,) = {type(each): each for each in failures}.values()
    assert failure is not None
    return failure


@pytest.mark.parametrize("destination", [Queue("orders"), Topic("orders")])
def test_a_send_of_a_unit_whose_partition_has_no_leader_is_an_order_error(destination: Destination) -> None:
    """Of UNIT-11: it names unit, partition and remedy, when the send is given up, and goes nowhere else."""
    with wire_broker("orders", has_leader=False) as bootstrap:
        failure = failure_of_a_send(bootstrap, b"joe")
    assert isinstance(failure, LeaderMissing)
    told = SidecarProvider.send_error(None, failure, destination)  # type: ignore[arg-type]
    assert isinstance(told, errors.OrderError)
    assert str(told).splitlines() == [
        f"{destination}: partition 0 has no leader, so nothing can be written there, and unit 'joe' is in it and goes "
        f"nowhere else; bring a broker back that has a replica of it (kafka-topics.sh --describe --topic orders tells "
        f"which), and send again; the message counts as not sent"
    ]


def test_a_send_without_a_unit_there_is_a_timeout_that_says_why() -> None:
    with wire_broker("orders", has_leader=False) as bootstrap:
        failure = failure_of_a_send(bootstrap, None)
    told = SidecarProvider.send_error(None, failure, Queue("orders"))  # type: ignore[arg-type]
    assert isinstance(told, errors.SendTimeoutError)
    assert "partition 0 has no leader" in str(told)


def test_a_send_that_no_broker_hears_of_says_nothing_of_leaders() -> None:
    with wire_broker("orders", has_leader=False) as bootstrap:
        pass
    failure = failure_of_a_send(bootstrap, b"joe")
    assert isinstance(failure, Unreachable)
    assert not isinstance(failure, LeaderMissing)
