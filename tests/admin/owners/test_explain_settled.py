"""What `explain` says of units that go on while they are looked at: a checkpoint records what is settled, and later."""

from __future__ import annotations

from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue
from jbm_kafka.admin import Admin, Explanation, Rule
from jbm_kafka.browsing.browse import browse
from jbm_kafka.jms.connection import Connection
from jbm_kafka.memory.memory_kafka import MemoryCluster
from tests.admin.owners.brokers import Brokers
from tests.admin.test_explain import only, rules, until
from tests.jms.support import receive


def send_big(connection: Connection, queue: Queue, count: int, unit: str = "big") -> list[str]:
    """So many of one unit, with their ids."""
    session = connection.create_session()
    producer = session.create_producer(queue)
    sent = [session.create_text_message(str(number)) for number in range(count)]
    for message in sent:
        producer.send(message, unit_of_order=unit)
    return [str(message.message_id) for message in sent]


def test_units_that_waited_for_a_checkpoint_were_said_to_go_next(
    admin: Admin, connection: Connection, orders: Queue, cluster: MemoryCluster
) -> None:
    """UNIT-17: while receivers asked for more."""
    session = connection.create_session(AcknowledgeMode.AUTO)
    producer, consumer = session.create_producer(orders), session.create_consumer(orders, prefetch=1)
    producer.send("first", unit_of_order="first")
    receive(consumer)  # what may be handed over ahead is recorded
    with Brokers(cluster):
        for number in range(200):
            producer.send(str(number), unit_of_order="joe")
        came: list[Message] = []
        consumer.set_listener(came.append)

        def records(found: Explanation) -> bool:
            return Rule.RECORDING in [rule for each in found.messages if each.unit == "joe" for rule in rules(each)]

        of_unit = only(until(lambda: admin.explain(orders, unit="joe"), records))
        (of_all,) = (each for each in admin.explain(orders).messages if each.unit == "joe")
        for found in (of_unit, of_all):
            assert (found.behind, rules(found)) == (199, [Rule.SETTLED, Rule.RECORDING])
            assert "see the log of the process that has its partition" in found.reasons[1].remedy


def test_what_came_while_it_was_looked_was_said_not_to_be_more_than_0_s_old(
    admin: Admin, orders: Queue, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-17: on a busy queue, and always with a sender whose clock is ahead; of a unit, that nothing is held."""
    look = browse

    def came_since(*values: Any, **named: Any) -> Any:
        send_big(connection, orders, 1, unit="joe")
        return look(*values, **named)

    monkeypatch.setattr("jbm_kafka.admin.explain.diagnosis.browse", came_since)
    assert len(admin.explain(orders).messages) == 1
    assert only(admin.explain(orders, unit="joe")).behind == 1
