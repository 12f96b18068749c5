"""What `explain` says of units that go on while they are looked at: a checkpoint records what is settled, and later."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue
from jbm_kafka.admin import Admin, Explanation, Reason, Rule
from jbm_kafka.admin.asking_present import PresentOwners, Told
from jbm_kafka.admin.explained_firsts import first_now, still_to_ask
from jbm_kafka.admin.held_units import HeldMessageRow
from jbm_kafka.admin.reasons import GOING_ON_MS, going_on, of_the_next
from jbm_kafka.browsing.browse import browse
from jbm_kafka.jms.connection import Connection
from jbm_kafka.memory.memory_kafka import MemoryCluster
from tests.admin.owners.brokers import Brokers
from tests.admin.test_explain import only, rules, until
from tests.jms.support import receive

ONE_UNIT = "messages of one unit follow one another: more receivers or processes do not help it"
SETTLED = "it is settled (acknowledged, given up or expired), and that is not recorded yet"
WAITS = "the process that has its partition waits for a checkpoint, and hands over no more before"


@pytest.fixture
def unrecorded(url: str, kafka_name: str, cluster: MemoryCluster, admin: Admin) -> Iterator[Connection]:
    """A connection whose acknowledgements are not recorded for long."""
    factory = ConnectionFactory(url, namespace=kafka_name, checkpoint_interval_ms=60_000)
    with factory.create_connection() as made:
        yield made


class Worker:
    """A listener that is fast, and stays in one message until its test ends."""

    def __init__(self, connection: Connection, queue: Queue, stays_in: str) -> None:
        self.is_in_it, self._goes_on, self._stays_in = threading.Event(), threading.Event(), stays_in
        connection.create_session(AcknowledgeMode.AUTO).create_consumer(queue, prefetch=3).set_listener(self._work)

    def _work(self, message: Message) -> None:
        if message.get_body(str) == self._stays_in:
            self.is_in_it.set()
            self._goes_on.wait(60)

    def __enter__(self) -> Worker:
        assert self.is_in_it.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._goes_on.set()


def send_big(connection: Connection, queue: Queue, count: int, unit: str = "big") -> list[str]:
    """So many of one unit, with their ids."""
    session = connection.create_session()
    producer = session.create_producer(queue)
    sent = [session.create_text_message(str(number)) for number in range(count)]
    for message in sent:
        producer.send(message, unit_of_order=unit)
    return [str(message.message_id) for message in sent]


def test_the_operator_was_told_only_that_the_first_of_a_busy_unit_was_finished_a_moment_ago(
    admin: Admin, unrecorded: Connection, orders: Queue
) -> None:
    """UNIT-17: and neither who works on it, nor that more workers do not help it."""
    ids = send_big(unrecorded, orders, 300)
    with Worker(unrecorded, orders, "20"):
        found = only(admin.explain(orders, unit="big"))
        assert (found.message_id, found.behind, rules(found)) == (ids[20], 279, [Rule.IN_HAND])
        assert found.reasons[0].text.startswith("its unit goes on, message after message: it is in the hand of ")
        assert f" in process {os.getpid()} at " in found.reasons[0].text
        assert found.reasons[0].remedy == ONE_UNIT
        settled, in_hand = only(admin.explain(orders)).reasons
        assert (settled.rule, str(settled)) == (Rule.SETTLED, f"{SETTLED}; the first of its unit is at offset 20 now")
        assert (in_hand.rule, in_hand.remedy) == (Rule.IN_HAND, ONE_UNIT)
        behind = only(admin.explain(orders, message_id=ids[100]))
        assert rules(behind) == [Rule.BEHIND, Rule.SETTLED, Rule.IN_HAND]


def test_of_who_has_it_for_long_it_is_not_said_that_the_unit_goes_on() -> None:
    in_hand = Reason(rule=Rule.IN_HAND, text="it is in the hand of joe", since_ms=1_000, remedy="stop him")
    assert going_on(in_hand, 1_000 + GOING_ON_MS).remedy == ONE_UNIT
    assert going_on(in_hand, 1_001 + GOING_ON_MS) == in_hand
    nobody_asks = Reason(rule=Rule.RECEIVERS_BUSY, text="no receiver asks for one now")
    assert going_on(nobody_asks, 0) == nobody_asks


@pytest.mark.parametrize("rule", [Rule.READY, Rule.RECEIVERS_BUSY, Rule.IN_HAND])
def test_one_message_was_said_to_be_settled_and_to_wait_for_a_receiver(rule: Rule) -> None:
    """Both stood below one unit: the second is said of the message behind."""
    found = Reason(rule=rule, text="it could go", remedy="start more")
    assert of_the_next(found) == replace(found, text="the next of its unit: it could go")


def test_a_process_that_works_on_the_unit_was_to_be_stopped_while_its_listener_was_in_the_next(
    admin: Admin, unrecorded: Connection, orders: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-17: what is told of the first message and what of its receiver are some milliseconds apart."""
    send_big(unrecorded, orders, 300)
    ask = PresentOwners.ask

    def a_bit_later(*values: Any, **named: Any) -> Told:
        told = ask(*values, **named)
        for answer in told.results.values():
            for each in answer["receivers"]:
                each["taken"]["offset"] += 1
        return told

    monkeypatch.setattr(PresentOwners, "ask", a_bit_later)
    with Worker(unrecorded, orders, "20"):
        found = only(admin.explain(orders, unit="big"))
    assert rules(found) == [Rule.IN_HAND, Rule.RECEIVERS_BUSY]
    assert found.reasons[1].text.startswith("its unit goes on, message after message: the listener of receiver ")
    assert [each.remedy for each in found.reasons] == ["", ONE_UNIT]


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
            assert str(found.reasons[0]) == f"{SETTLED}: {WAITS}"
            assert "see the log of the process that has its partition" in found.reasons[1].remedy


def test_whose_first_is_settled_and_what_follows_is_not_known() -> None:
    """It has the rule of one that waits behind it, or none: what its owner has not read is not the first."""
    first = HeldMessageRow(0, 7, b"joe", "ID:7", 0, 0, Rule.READY, 0, behind=2, later=[8, 9])

    def told(**eight: object) -> Told:
        said = [{"offset": 7, "rule": "settled"}, {"offset": 8, **eight}, {"offset": 9, "rule": "not-read"}]
        return Told({0: {"messages": said}})

    assert first_now(first, told(rule="settled")) is None
    assert first_now(first, told(rule="behind")) is None, "the held store has it"
    assert first_now(first, told(rule="behind", head=7)) is None, "it is settled meanwhile"
    assert still_to_ask([first], told(rule="behind", head=5)) == {0: [(5, b"joe".hex())]}
    assert still_to_ask([first], told(rule="behind", head=5, holder={"session": "a"})) == {}
    assert (first_now(first, told(rule="on-hold")) or {})["offset"] == 8


def test_what_came_while_it_was_looked_was_said_not_to_be_more_than_0_s_old(
    admin: Admin, orders: Queue, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-17: on a busy queue, and always with a sender whose clock is ahead; of a unit, that nothing is held."""
    look = browse

    def came_since(*values: Any, **named: Any) -> Any:
        send_big(connection, orders, 1, unit="joe")
        return look(*values, **named)

    monkeypatch.setattr("jbm_kafka.admin.explaining.browse", came_since)
    assert len(admin.explain(orders).messages) == 1
    assert only(admin.explain(orders, unit="joe")).behind == 1
