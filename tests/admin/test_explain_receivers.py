"""What `explain` says of receivers that hang, work, wait, or are never called: over one world in memory."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue, XAConnectionFactory
from jbm_kafka.admin import Admin, ExplainedMessage, ExplainedReceiver, Explanation, Holder, Rule, Taken
from jbm_kafka.admin.explain.reasons import _words, busy, in_hand, prepared, working_on
from jbm_kafka.admin.explain.receiver_states import Doing, does, doing, receivers_of
from jbm_kafka.core.channel.branch import NONCE_HEX, checked_xid
from jbm_kafka.core.channel.process_names import process_name
from jbm_kafka.jms.connection import Connection
from jbm_kafka.ports import AccessRefused
from jbm_kafka.providers.in_memory import use_world
from tests.admin.test_explain import now_ms, rules, until
from tests.jms.support import receive

HUNG_MS = 1_000
"""A hung listener is looked at after so long."""


@pytest.fixture
def url(kafka_name: str) -> str:
    return f"memory://{kafka_name}"


@pytest.fixture
def orders(admin: Admin, kafka_name: str) -> Queue:
    admin.create_queue(kafka_name, partitions=1)
    return Queue(kafka_name)


@pytest.fixture
def connection(url: str, kafka_name: str, admin: Admin) -> Iterator[Connection]:
    with ConnectionFactory(url, namespace=kafka_name).create_connection() as made:
        yield made


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """What a listener waits for that hangs; its test ends it."""
    end = threading.Event()
    yield end
    end.set()


def send_units(connection: Connection, queue: Queue) -> None:
    producer = connection.create_session().create_producer(queue)
    for unit in "aaabbbccc":
        producer.send(unit, unit_of_order=unit)


def of_mode(found: Explanation, mode: str) -> ExplainedReceiver:
    return next(each for each in found.receivers if each.mode == mode)


def is_hung(found: Explanation) -> bool:
    return any(each.asks.is_in_listener and (each.asks.ago_ms or 0) >= HUNG_MS for each in found.receivers)


def test_a_hung_listener_was_said_to_ask_for_more(
    admin: Admin, connection: Connection, orders: Queue, hanging: threading.Event
) -> None:
    """UNIT-17: it is told that it has been in one message, for how long, and that units wait for that."""
    send_units(connection, orders)
    connection.create_session(AcknowledgeMode.AUTO).create_consumer(orders).set_listener(lambda m: hanging.wait(60))
    found = until(lambda: admin.explain(orders), is_hung)
    (receiver,) = found.receivers
    assert (receiver.asks.is_waiting, receiver.is_idle, found.idle_receivers) == (False, False, 0)
    assert does(receiver).startswith("in its listener for 1 s: ")
    busy = [reason for each in found.messages for reason in each.reasons if reason.rule is Rule.RECEIVERS_BUSY]
    assert all("1 in its listener" in each.text for each in busy)


def test_a_hung_listener_beside_one_that_never_receives_was_told_the_wrong_way_round(
    admin: Admin, connection: Connection, orders: Queue, hanging: threading.Event
) -> None:
    """UNIT-17: the one was "idle, for there is nothing for it", and the other "busy"."""
    send_units(connection, orders)
    never = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(orders)
    hung = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(orders)
    hung.set_listener(lambda message: hanging.wait(60))
    found = until(lambda: admin.explain(orders), is_hung)
    assert not of_mode(found, "INDIVIDUAL").is_idle
    assert doing(of_mode(found, "INDIVIDUAL")) is Doing.IN_LISTENER
    assert not of_mode(found, "CLIENT").asks.has_asked
    assert doing(of_mode(found, "CLIENT")) is Doing.NOT_CALLED
    never.close()


def test_a_program_that_never_receives_was_called_busy(admin: Admin, connection: Connection, orders: Queue) -> None:
    """UNIT-17: who creates a consumer and forgets to receive is told so, and what to do."""
    send_units(connection, orders)
    consumer = connection.create_session(AcknowledgeMode.AUTO).create_consumer(orders)
    found = until(lambda: admin.explain(orders), lambda found: found.receivers)
    (receiver,) = found.receivers
    assert doing(receiver) is Doing.NOT_CALLED
    (first, *_) = found.messages
    assert rules(first) == [Rule.RECEIVERS_BUSY]
    assert first.reasons[0].remedy.startswith("call receive ")
    consumer.close()


def test_who_works_on_a_message_is_told_apart_from_who_waits(
    admin: Admin, connection: Connection, orders: Queue
) -> None:
    """UNIT-17: the same after an acknowledgement, when nobody has called it again."""
    producer, session = (
        connection.create_session().create_producer(orders),
        connection.create_session(AcknowledgeMode.CLIENT),
    )
    producer.send("1", unit_of_order="a")
    consumer = session.create_consumer(orders, prefetch=1)
    message = receive(consumer)
    (receiver,) = until(lambda: admin.explain(orders), lambda found: found.receivers).receivers
    assert doing(receiver) is Doing.WORKING
    message.acknowledge()
    (receiver,) = until(lambda: admin.explain(orders), lambda found: not found.receivers[0].in_hand).receivers
    assert doing(receiver) is Doing.BETWEEN
    waiting = threading.Thread(target=consumer.receive, args=(60,))
    waiting.start()
    (receiver,) = until(lambda: admin.explain(orders), lambda found: found.receivers[0].asks.is_waiting).receivers
    assert doing(receiver) is Doing.IDLE
    producer.send("2", unit_of_order="a")
    waiting.join(60)


def described(**fields: object) -> ExplainedReceiver:
    """A receiver as its process describes it."""
    (found,) = receivers_of([{"process": {"id": 1, "host": "h"}, "receivers": [{"receiver": "r", **fields}]}])
    return found


TAKEN = {"partition": 0, "offset": 7, "message_id": "ID:1"}


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"is_stopped": True, "asked_ms_ago": 5}, Doing.STOPPED),
        ({"is_in_listener": True, "has_listener": True, "asked_ms_ago": 9_000}, Doing.IN_LISTENER),
        ({"has_listener": True, "is_waiting": True, "asked_ms_ago": 9_000, "is_idle": True}, Doing.ELSEWHERE),
        ({"has_listener": True, "is_waiting": True, "asked_ms_ago": 5, "is_idle": True}, Doing.IDLE),
        ({"has_listener": True, "is_waiting": True, "asked_ms_ago": 5}, Doing.ASKING),
        ({"has_listener": True, "asked_ms_ago": 10}, Doing.ELSEWHERE),
        ({"has_asked": False, "asked_ms_ago": 5}, Doing.NOT_CALLED),
        ({"in_hand": 1, "asked_ms_ago": 10}, Doing.WORKING),
        ({"asked_ms_ago": 900}, Doing.BETWEEN),
        ({"asked_ms_ago": 5_000}, Doing.NOT_CALLED),
        ({"another version": True}, Doing.BETWEEN),
    ],
)
def test_what_a_receiver_does_follows_from_what_its_process_says(values: dict[str, object], what: Doing) -> None:
    """Of UNIT-17."""
    assert doing(described(**values)) is what


def test_only_a_process_that_has_had_a_message_for_long_is_to_be_stopped() -> None:
    """A healthy worker was, with kill -9, for a message that it had had for less than a second."""
    hung = described(is_in_listener=True, has_listener=True, asked_ms_ago=30_000, taken=TAKEN)
    young = replace(hung, asks=replace(hung.asks, ago_ms=29_999))
    idle = replace(
        described(has_listener=True, is_waiting=True, asked_ms_ago=5, is_idle=True), process="process 2 at h"
    )
    assert [busy([each, idle], hung.process, has_idle=True).remedy for each in (hung, young)] == [
        "if it hangs, stop process 1 at h: others get its partitions", "",
    ]  # fmt: skip
    assert "more receivers" in busy([young], hung.process, has_idle=False).remedy
    assert busy([], hung.process, has_idle=False).remedy == ""
    has = Holder(process="p", session="s", receiver="r")
    assert [bool(in_hand(has, since, 31_000).remedy) for since in (1_001, 1_000, None)] == [False, True, True]
    elsewhere = [described(has_listener=True, asked_ms_ago=ago) for ago in (29_999, 30_000)]
    assert [bool(working_on(each, now_ms=60_000).remedy) for each in elsewhere] == [False, True]


def hangs_in(connection: Connection, queue: Queue, hanging: threading.Event, at: int) -> None:
    """A listener that is fast and returns of each message but the one with this number."""
    session = connection.create_session(AcknowledgeMode.AUTO)

    def listener(message: Message) -> None:
        if message.properties["number"] == at:
            hanging.wait(60)

    session.create_consumer(queue, prefetch=5).set_listener(listener)


def test_the_message_that_a_listener_hangs_in_was_not_named_to_those_who_wait_in_its_buffer(
    admin: Admin, connection: Connection, orders: Queue, hanging: threading.Event
) -> None:
    """UNIT-17: an operator asks about a unit that waits, and must find the message of another unit that hangs."""
    session = connection.create_session()
    producer = session.create_producer(orders)
    sent = []
    for number in range(60):
        message = session.create_text_message(str(number))
        message.properties["number"] = number
        producer.send(message, unit_of_order=f"u{number}")
        sent.append(str(message.message_id))
    began_ms = now_ms()
    hangs_in(connection, orders, hanging, at=30)
    found = until(lambda: admin.explain(orders), lambda found: is_hung(found) and in_buffer(found))
    (receiver,) = found.receivers
    hung = receiver.asks.taken
    assert (hung and hung.partition, hung and hung.offset, hung and hung.message_id) == (0, 30, sent[30])
    assert does(receiver).endswith(f": {sent[30]} (partition 0 offset 30)")
    unit = in_buffer(found)[0].unit
    (asked,) = admin.explain(orders, unit=unit).messages
    unread, why = asked.reasons
    assert (unread.rule, why.rule) == (Rule.IN_HAND, Rule.RECEIVERS_BUSY)
    assert why.text == f"receiver {receiver.receiver} is in its listener: {hung}"
    assert why.since_ms is not None
    assert began_ms - 1_000 <= why.since_ms <= now_ms()
    process = process_name(platform.node(), os.getpid())
    assert why.remedy == "", "it has had it for less than 30 s"
    assert working_on(receiver, now_ms() + 60_000).remedy.startswith(f"if it hangs, stop {process}: ")
    (first,) = admin.explain(orders, unit="u30").messages
    assert rules(first) == [Rule.IN_HAND]
    (last,) = admin.explain(orders, unit="u59").messages
    assert last.reasons[0].rule is Rule.RECEIVERS_BUSY
    assert last.reasons[0].text.endswith(f": {hung}")


def test_what_waits_for_a_listener_of_another_queue_was_said_to_hang_itself(
    admin: Admin, connection: Connection, orders: Queue, hanging: threading.Event, kafka_name: str
) -> None:
    """UNIT-17: one session has one thread; the message is named where it is looked for in the other queue."""
    admin.create_queue(f"{kafka_name}-2", partitions=1)
    other, session = Queue(f"{kafka_name}-2"), connection.create_session(AcknowledgeMode.AUTO)
    session.create_consumer(orders).set_listener(lambda message: hanging.wait(60))
    session.create_consumer(other).set_listener(lambda message: None)
    until(lambda: admin.explain(other), lambda found: found.receivers and found.receivers[0].asks.is_waiting)
    producer = connection.create_session().create_producer()
    producer.send("hangs", destination=orders, unit_of_order="joe")
    until(lambda: admin.explain(orders), lambda found: found.receivers and found.receivers[0].asks.taken)
    producer.send("waits", destination=other, unit_of_order="joe")
    found = until(lambda: admin.explain(other), lambda found: found.messages and len(found.messages[0].reasons) == 2)
    unread, why = found.messages[0].reasons
    assert (unread.holder and unread.holder.is_unread, unread.remedy) == (True, "")
    assert why.text.startswith(f"receiver {found.receivers[0].receiver} is in another listener of its session: ")


def in_buffer(found: Explanation) -> list[ExplainedMessage]:
    holders = [(each, reason.holder) for each in found.messages for reason in each.reasons]
    return [each for each, holder in holders if holder is not None and holder.is_unread]


def test_the_message_that_a_program_works_on_between_two_receives_was_not_named(
    admin: Admin, connection: Connection, orders: Queue
) -> None:
    """UNIT-17: one that hangs there has no listener; when it has acknowledged, it works on nothing of ours."""
    send_units(connection, orders)
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(orders)
    message = receive(consumer)
    (receiver,) = until(lambda: admin.explain(orders), lambda found: found.receivers).receivers
    taken = receiver.asks.taken
    assert (taken and taken.offset, taken and taken.message_id) == (0, message.message_id)
    assert does(receiver).endswith(f": {message.message_id} (partition 0 offset 0)")
    message.acknowledge()
    (receiver,) = until(lambda: admin.explain(orders), lambda found: not found.receivers[0].asks.taken).receivers
    assert receiver.asks.taken is None


def test_an_id_that_fills_a_record_of_its_own_is_left_out() -> None:
    """A foreign program may write one of a megabyte; the place is enough to find it."""
    assert str(Taken(partition=2, offset=7, message_id="", since_ms=1)) == "the message at partition 2 offset 7"
    asks = described(is_in_listener=True, asked_ms_ago=9_000, taken={"partition": 2, "offset": 7})
    assert does(asks).endswith(": the message at partition 2 offset 7")


def test_who_may_not_make_topics_was_told_that_a_healthy_worker_had_died(
    admin: Admin, connection: Connection, orders: Queue, kafka_name: str
) -> None:
    """Of UNIT-17: to ask the owners, the topic of commands was asked to be made though it was there."""
    send_units(connection, orders)
    assert receive(connection.create_session(AcknowledgeMode.CLIENT).create_consumer(orders)).body == "a"

    def refuse(name: str) -> None:
        raise AccessRefused(f"create topic {name}: no access rule allows it")

    world = use_world(kafka_name)
    try:
        world.cluster.faults.create = refuse
        assert "did not say" not in str(admin.explain(orders))
    finally:
        world.let_go()


def test_explain_died_of_what_a_prepared_branch_has(admin: Admin, orders: Queue, url: str, kafka_name: str) -> None:
    """Of ACK-10, UNIT-17: it is told, and the command that ends it."""
    with XAConnectionFactory(url, namespace=kafka_name).create_xa_connection() as made:
        send_units(made, orders)
        session = made.create_xa_session()
        session.tpc_begin(session.xid(1, "g", "b"))
        assert receive(session.create_consumer(orders)).body == "a"
        session.tpc_prepare()
        text = str(admin.explain(orders))
        behind = [
            str(admin.explain(orders, message_id=each.message_id)) for each in admin.browse(orders, include="all")
        ]
        session.tpc_rollback()
    assert "prepared branch 1:g:b of a transaction across systems (XA) has it" in text
    assert "jbm-kafka prepared resolve 1:g:b commit" in text
    assert any("of its unit, with prepared branch 1:g:b" in each for each in behind)


def test_a_branch_is_named_as_the_commands_take_it() -> None:
    """Of ACK-10: quoted; by its id where that is of another version."""
    branch = checked_xid(1, "of joe", "b").hex + "0" * NONCE_HEX
    assert "prepared resolve '1:of joe:b' commit" in prepared(branch).remedy
    assert "prepared branch 00x of" in prepared("00x").text


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_its_words(rule: Rule) -> None:
    """Of UNIT-17."""
    sentence, _ = _words(rule)
    assert sentence
