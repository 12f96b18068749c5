"""Messages that wait for a time are let go before it, while somebody receives and while nobody does (SEND-10)."""

from __future__ import annotations

import json

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.cli.main import main
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import receive

ORDERS = Queue("orders")
SLOW = {"#": AddressSettings(partitions=1, redelivery_delay_ms=3_600_000)}


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld()


def test_scheduled_and_delayed_ones_go_at_once_and_the_report_says_which(world: MemoryWorld) -> None:
    """SEND-10, by the process that receives."""
    with world, world.factory(address_settings=SLOW).create_connection() as connection, Admin(world.url) as admin:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, consumer = session.create_producer(ORDERS), session.create_consumer(ORDERS)
        producer.send("fails")
        receive(consumer).nack()
        producer.send("later", delivery_delay_ms=7_200_000)
        producer.send("much later", delivery_delay_ms=14_400_000)
        assert consumer.receive(timeout=0.2) is None
        dry = admin.send_now(ORDERS, everything=True, dry_run=True)
        assert (len(dry.messages), dry.is_dry_run, dry.verb) == (3, True, "send-now")
        first, second, third = dry.messages
        report = admin.send_now(ORDERS, message_id=[first.message_id, second.message_id])
        assert (report.messages, report.kept, report.gone, report.in_hand) == ([first, second], [], [], [])
        failed, later = receive(consumer), receive(consumer)
        assert (failed.body, failed.delivery_count, failed.redelivered) == ("fails", 2, True)
        assert (later.body, later.delivery_count, later.redelivered) == ("later", 1, False)
        assert consumer.receive(timeout=0.2) is None
        later.acknowledge()
        failed.acknowledge()
        assert admin.send_now(ORDERS, everything=True, count=5).messages == [third]
        assert receive(consumer).body == "much later"


def test_where_nobody_receives_it_is_recorded_and_a_unit_keeps_its_order(world: MemoryWorld) -> None:
    """SEND-10: this process joins for a moment. Of UNIT-1."""
    with world, Admin(world.url) as admin:
        with world.factory(address_settings=SLOW).create_connection() as connection:
            producer = connection.create_session().create_producer(ORDERS)
            producer.send("first", unit_of_order="joe", delivery_delay_ms=7_200_000)
            producer.send("second", unit_of_order="joe")
        (row,) = [each for each in admin.page(ORDERS).messages if each.state == "scheduled"]
        assert [each.message_id for each in admin.send_now(ORDERS, unit="joe").messages] == [row.message_id]
        assert [each.state for each in admin.page(ORDERS).messages] == ["ready", "blocked"]
        with world.factory().create_connection() as connection:
            consumer = connection.create_session().create_consumer(ORDERS)
            assert [receive(consumer).body for _ in range(2)] == ["first", "second"]
        assert admin.send_now(ORDERS, everything=True).messages == []


def test_the_command_does_so(world: MemoryWorld, capsys: pytest.CaptureFixture[str]) -> None:
    with world, world.factory(address_settings=SLOW).create_connection() as connection:
        producer = connection.create_session().create_producer(ORDERS)
        producer.send("later", delivery_delay_ms=7_200_000)
        assert main(["send-now", "orders", "--all", "--json", "--bootstrap", world.url]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["verb"], len(told["messages"]), told["kept"]) == ("send-now", 1, [])
        assert main(["send-now", "orders", "--id", "ID:none", "--bootstrap", world.url]) != 0
        assert receive(connection.create_session().create_consumer(ORDERS)).body == "later"
