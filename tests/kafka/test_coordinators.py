"""Questions about groups, after the broker that coordinates them was away."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset, GroupFenced
from tests.kafka.world import WAIT_S
from tests.support.waiting import wait_until

GROUP, TOPIC = "workers", "orders"


def join(consumer: Consumer) -> None:
    """It is a member, and has its partition."""
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + WAIT_S
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline


@pytest.mark.timeout(120)
def test_groups_were_never_answered_again_after_a_broker_restart(dedicated_broker: Callable[[], LocalBroker]) -> None:
    """Of CONN-3: who asked before the restart is answered after it, and so is who changes something."""
    broker = dedicated_broker()
    admin = ConfluentKafka(broker.bootstrap).admin()
    admin.create_topic(TOPIC, partitions=1, config={})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "error_cb": lambda error: None})
    try:
        join(consumer)
        assert admin.group_members(GROUP) == 1
        broker.stop()
        broker.start()
        wait_until(admin.topic_names, about="an answer of the broker", timeout_s=WAIT_S)
        assert admin.group_members(GROUP) == 1
        with pytest.raises(GroupFenced):
            admin.alter_offsets(GROUP, TOPIC, {0: CommittedOffset(0, "")})
    finally:
        consumer.close()
    admin.delete_groups([GROUP])
    assert GROUP not in admin.groups()
