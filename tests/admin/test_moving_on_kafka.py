"""An import to a real broker, killed in the midst of a transaction: each message is there once, with its past."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from tests.jms.support import receive

KILLED = """
import os, signal, sys
from jbm_kafka.admin import Admin
from jbm_kafka.admin.moving import importing, sole_members
from jbm_kafka.admin.moving.channel_writer import ChannelWriter

bootstrap, namespace, file, to = sys.argv[1:]
importing.SLICE_MESSAGES = 5
sole_members.SESSION_TIMEOUT_MS = 2_000
written = 0
mark = ChannelWriter._mark_row

def kill(self, done):
    # Messages are on the broker, and their transaction is open.
    global written
    written += 1
    if written == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return mark(self, done)

ChannelWriter._mark_row = kill
with Admin(bootstrap, namespace=namespace) as admin:
    admin.import_messages(file, to=to)
"""
RULES = {"#": AddressSettings(partitions=2, max_delivery_attempts=3, redelivery_delay_ms=3_600_000)}


def seen(admin: Admin, queue: Queue) -> list[tuple[Any, ...]]:
    found = admin.browse(queue, include="all")
    return [(m.body, m.unit_of_order, m.delivery_count, m.delivery_time, m.message_id, m.timestamp) for m in found]


@pytest.mark.thorough
def test_a_kill_during_an_import_loses_and_doubles_nothing(bootstrap: str, kafka_name: str, tmp_path: Path) -> None:
    """Of LOG-13: to another namespace of the same cluster; in memory it is killed at each step."""
    orders, restored, file = Queue(kafka_name), Queue(f"{kafka_name}.restored"), tmp_path / "orders.avro"
    factory = ConnectionFactory(bootstrap, namespace=kafka_name, address_settings=RULES)
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        producer = jms.create_producer()
        for number in range(40):
            producer.send(orders, str(number), unit_of_order=str(number % 8), duplicate_id=str(number))
        consumer = jms.create_consumer(orders)
        for each in [receive(consumer) for _ in range(6)]:
            each.nack() if int(each.body) % 2 else each.acknowledge()
    namespace = f"{kafka_name}-b"
    with Admin(bootstrap, namespace=kafka_name) as old, Admin(bootstrap, namespace=namespace) as new:
        before = seen(old, orders)
        report = old.export_messages(orders, file)
        assert (report.messages, report.members) == (len(before), 0)
        arguments = [bootstrap, namespace, str(file), restored.name]
        killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], timeout=90, check=False)
        assert killed.returncode == -signal.SIGKILL
        done = new.import_messages(file, to=restored)
        assert (done.messages > 0, done.present > 0, done.messages + done.present) == (True, True, len(before))
        assert new.import_messages(file, to=restored).messages == 0
        assert seen(new, restored) == before
        assert {row[2] for row in before} == {0, 1}
    there = ConnectionFactory(bootstrap, namespace=namespace, address_settings=RULES)
    with there.create_context() as jms:
        jms.create_producer().send(restored, "again", unit_of_order="7", duplicate_id="7")
        consumer = jms.create_consumer(restored)
        blocked = {row[1] for row in before if row[2]}
        free = [row[0] for row in before if row[1] not in blocked]
        assert sorted(str(receive(consumer).body) for _ in free) == sorted(free)
        assert consumer.receive_nowait() is None
