"""Questions about groups, after the broker that coordinates them was away."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.thorough
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


_ASKING = """
import logging, sys, threading
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset, KafkaClientError

logging.disable(logging.CRITICAL)
admin = ConfluentKafka(sys.argv[1]).admin()
over = threading.Event()

def ask(question):
    while not over.is_set():
        try:
            question()
        except KafkaClientError:
            pass

questions = (
    lambda: admin.group_members("workers"),
    lambda: admin.group_members("workers"),
    lambda: admin.alter_offsets("readers", "orders", {0: CommittedOffset(0, "")}),
    lambda: admin.delete_groups(["nobody"]),
)
threads = [threading.Thread(target=ask, args=(each,)) for each in questions]
for each in threads:
    each.start()
print("asking", flush=True)
sys.stdin.readline()
over.set()
for each in threads:
    each.join()
print("answered", admin.group_members("workers"), flush=True)
"""


@pytest.mark.thorough
@pytest.mark.timeout(150)
def test_a_broker_that_came_back_ended_the_process_that_asked_it_for_groups(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """Of CONN-3: librdkafka aborted it, where a request had been given up before its coordinator was found."""
    broker = dedicated_broker()
    admin = ConfluentKafka(broker.bootstrap).admin()
    admin.create_topic(TOPIC, partitions=1, config={})
    with subprocess.Popen(
        [sys.executable, "-c", _ASKING, broker.bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asking:
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "asking\n"
            for _ in range(3):
                broker.stop()
                with pytest.raises(subprocess.TimeoutExpired):
                    asking.wait(timeout=2.5)  # so that tries end while nobody is there
                broker.start()
                wait_until(lambda: admin.group_members(GROUP) == 0, about="an answer of the broker", timeout_s=WAIT_S)
            told, _ = asking.communicate("\n", timeout=WAIT_S)
        finally:
            asking.kill()
    assert (asking.returncode, told) == (0, "answered 0\n")
