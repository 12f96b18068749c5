"""Messages are moved, removed, expired and dead-lettered by an operator: on Kafka and in memory, while somebody
receives and while nobody does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin, ChosenMessage, MessagesReport
from jbm_kafka.core.jms_errors import InvalidDestinationError, OrderError
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving import listening
from jbm_kafka.jms.session import Session
from tests.jms.support import bodies, eventually, receive

RULES = {"#": AddressSettings(partitions=2)}


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    return ConnectionFactory(url, namespace=kafka_name, address_settings=RULES)


@pytest.fixture
def orders(kafka_name: str, admin: Admin) -> Queue:
    admin.create_queue(kafka_name, partitions=2)
    return Queue(kafka_name)


@pytest.fixture
def parked(orders: Queue, admin: Admin) -> Queue:
    queue = Queue(f"{orders.name}.parked")
    admin.create_queue(queue.name, partitions=2)
    return queue


def send(factory: ConnectionFactory, queue: Queue, *rows: tuple[str, str | None]) -> None:
    """(body, unit) each."""
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        for body, unit in rows:
            producer.send(body, unit_of_order=unit, properties={"body": body})


def units(*messages: ChosenMessage) -> list[str | None]:
    return [message.unit for message in messages]


def held(admin: Admin, queue: Queue) -> list[object]:
    return sorted(bodies(admin.browse(queue, include="all")), key=str)


def received(session: Session, queue: Queue, count: int) -> list[object]:
    with session.create_consumer(queue) as consumer:
        found = []
        for _ in range(count):
            message = receive(consumer)
            found.append(message.body)
            message.acknowledge()
        return found


def test_a_whole_unit_is_moved_in_its_order_while_both_queues_are_paused(
    admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue
) -> None:
    """UNIT-14. Of UNIT-15."""
    send(factory, orders, *[(f"{unit}{number}", unit) for number in range(5) for unit in ("joe", "ann")])
    for queue in (orders, parked):
        admin.pause(queue, wait_s=0)
    dry = admin.move(orders, parked, unit="joe", dry_run=True)
    assert (units(*dry.messages), dry.is_dry_run, dry.warnings) == (["joe"] * 5, True, [])
    report = admin.move(orders, parked, unit="joe")
    assert (report.messages, report.in_hand, report.kept, report.gone, report.address) == (
        dry.messages, [], [], [], parked.name,
    )  # fmt: skip
    assert held(admin, orders) == [f"ann{number}" for number in range(5)]
    admin.resume(parked)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        assert received(session, parked, 5) == [f"joe{number}" for number in range(5)]


def test_who_moves_between_queues_that_are_not_paused_is_warned(
    admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue
) -> None:
    """Of UNIT-14."""
    send(factory, orders, ("a", "joe"), ("b", None))
    report = admin.move(orders, parked, everything=True, dry_run=True)
    (warning,) = report.warnings
    assert str(report) == f"{report!r}\n  {warning}"  # `print` said `warnings=1`, and not which
    assert f"sending to {orders.name}, receiving from {orders.name}, sending to {parked.name}" in warning
    assert not admin.move(orders, parked, selector="body = 'b'", dry_run=True).warnings


def test_a_part_of_a_unit_is_moved_only_when_that_is_asked_for(
    admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue
) -> None:
    """UNIT-14."""
    send(factory, orders, ("a", "joe"), ("b", "joe"), ("c", "ann"))
    with pytest.raises(OrderError, match="unit 'joe': only some"):
        admin.move(orders, parked, selector="body = 'b'")
    with pytest.raises(OrderError):
        admin.move(orders, parked, unit="joe", count=1)
    assert held(admin, orders) == ["a", "b", "c"]
    report = admin.move(orders, parked, selector="body = 'b'", split_units=True)
    assert "order across the two queues is given up" in report.warnings[0]
    assert (held(admin, orders), held(admin, parked)) == (["a", "c"], ["b"])


def test_what_a_worker_has_in_hand_stays_with_him(
    admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue
) -> None:
    send(factory, orders, ("a", "joe"), ("b", "joe"), ("c", "ann"))
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        with session.create_consumer(orders) as consumer:
            got = {message.body: message for message in [receive(consumer)]}
            while "a" not in got:
                message = receive(consumer)
                got[message.body] = message
            report = admin.move(orders, parked, unit="joe")
            assert (units(*report.messages), units(*report.in_hand)) == ([], ["joe"])
            assert [kept.why for kept in report.kept] == [
                "a worker has others of its unit in hand, or an earlier one of it stays"
            ]
            removed = admin.remove(orders, unit="joe")
            assert (units(*removed.messages), units(*removed.in_hand)) == (["joe"], ["joe"])
            session.acknowledge()
    assert held(admin, parked) == []
    with factory.create_connection() as connection:
        left = {"a", "b", "c"} - got.keys() - {"b"}
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        assert set(received(session, orders, len(left))) == left


def test_what_a_worker_has_only_in_his_buffer_is_taken_out_of_it(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    send(factory, orders, *[(f"{number}", "joe") for number in range(6)])
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        with session.create_consumer(orders) as consumer:
            assert [receive(consumer).body for _ in range(2)] == ["0", "1"]
            report = admin.remove(orders, selector="body IN ('0', '3', '4')")
            assert (len(report.messages), len(report.in_hand)) == (2, 1)
            assert [receive(consumer).body for _ in range(2)] == ["2", "5"]
            session.acknowledge()
    assert held(admin, orders) == []


def test_a_dry_run_tells_of_what_workers_have_in_hand_as_the_command_does(
    admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue
) -> None:
    """It said that three would be moved where none was: a worker had the unit."""
    send(factory, orders, *[(f"{number}", "joe") for number in range(3)], ("x", "ann"))
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        with session.create_consumer(orders) as consumer:
            while receive(consumer).body != "0":
                pass  # ann's may come first, and is in hand then
            acts: list[Callable[[bool], MessagesReport]] = [
                lambda is_dry: admin.move(orders, parked, unit="joe", dry_run=is_dry),
                lambda is_dry: admin.expire(orders, unit="joe", count=1, dry_run=is_dry),
                lambda is_dry: admin.remove(orders, unit="joe", dry_run=is_dry),
            ]
            for act in acts:
                dry, done = act(True), act(False)
                assert (dry.messages, dry.in_hand, dry.kept) == (done.messages, done.in_hand, done.kept)
                assert len(dry.in_hand) == 1
            session.acknowledge()


def test_a_dry_run_looks_whether_the_address_is_there(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """It was content with an address that the command then did not find."""
    send(factory, orders, ("a", None))
    for is_dry in (True, False):
        with pytest.raises(InvalidDestinationError, match="address 'topic:nosuch' cannot be used: topic:nosuch: there"):
            admin.expire(orders, everything=True, expiry_address="topic:nosuch", dry_run=is_dry)
        with pytest.raises(InvalidDestinationError, match="address 'nosuch' cannot be used: queue:nosuch: there is no"):
            admin.send_to_dead_letter(orders, everything=True, dead_letter_address="nosuch", dry_run=is_dry)
    assert len(admin.expire(orders, everything=True, expiry_address=None, dry_run=True).messages) == 1
    admin.set_address_settings("#", AddressSettings(expiry_address=admin.dead_letter_queue().name))
    assert len(admin.expire(orders, everything=True, expiry_address="nosuch", dry_run=True).messages) == 1


def test_messages_are_removed_by_id_while_nobody_receives(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    send(factory, orders, *[(f"{number}", None) for number in range(5)])
    ids = [str(message.message_id) for message in admin.browse(orders) if message.body in ("1", "3")]
    assert len(admin.remove(orders, message_id=ids[0]).messages) == 1
    report = admin.remove(orders, message_id=ids)
    assert len(report.messages) == 1
    assert held(admin, orders) == ["0", "2", "4"]


def test_a_message_is_given_up_by_an_operator(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """Of REDELIVER-4."""
    send(factory, orders, ("bad", "joe"), ("good", "joe"))
    report = admin.send_to_dead_letter(orders, selector="body = 'bad'")
    assert (units(*report.messages), report.address) == (["joe"], admin.dead_letter_queue().name)
    (row,) = admin.dead_letters(origin=orders, reason="operator")
    letter, message = row
    assert (message.body, message.unit_of_order, letter.reason, letter.origin.delivery_count) == (
        "bad", "joe", "operator", 0,
    )  # fmt: skip
    assert held(admin, orders) == ["good"]
    assert admin.retry_dead_letters(origin=orders).sent == 1
    assert held(admin, orders) == ["bad", "good"]


def test_an_operator_who_named_no_address_is_not_warned_that_the_registry_has_another(
    admin: Admin, factory: ConnectionFactory, orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """It said that this process's factory says DLQ, and advised to unset what holds for all."""
    letters, late = f"{orders.name}.dl", f"{orders.name}.late"
    for name in (letters, late):
        admin.create_queue(name, partitions=1)
    admin.set_address_settings(orders.name, AddressSettings(dead_letter_address=letters, expiry_address=late))
    send(factory, orders, ("bad", "joe"), ("old", "ann"))
    assert admin.send_to_dead_letter(orders, unit="joe").address == letters
    assert admin.expire(orders, unit="ann").address == late
    assert [line for line in caplog.messages if "as the registry says" in line] == []


def test_a_message_is_given_up_to_a_topic(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """Of REDELIVER-4: its subscription gets the letter."""
    letters = Topic(f"{orders.name}.letters")
    admin.create_topic(letters.name, partitions=1)
    with factory.create_connection() as connection:
        consumer = connection.create_session().create_consumer(letters)
        send(factory, orders, ("bad", "joe"))
        report = admin.send_to_dead_letter(orders, everything=True, dead_letter_address=f"topic:{letters.name}")
        assert (units(*report.messages), report.address) == (["joe"], f"topic:{letters.name}")
        assert receive(consumer).body == "bad"
    assert held(admin, orders) == []


def test_messages_expire_when_an_operator_says_so(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """Of SEND-5."""
    send(factory, orders, ("old", "joe"), ("new", "joe"))
    expired = admin.dead_letter_queue().name.replace("DLQ", "ExpiryQueue")
    assert admin.expire(orders, selector="body = 'old'").address == expired
    (row,) = admin.dead_letters(expired, origin=orders, reason="expired")
    assert row[1].body == "old"
    report = admin.expire(orders, everything=True, expiry_address=None)
    assert (len(report.messages), report.address) == (1, None)
    assert held(admin, orders) == []


def test_messages_on_hold_and_delayed_ones_are_moved_as_well(
    admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue, url: str, kafka_name: str
) -> None:
    """Of UNIT-16."""
    rules = {"#": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold")}
    holding = ConnectionFactory(url, namespace=kafka_name, address_settings=rules)
    with holding.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer = session.create_producer(orders)
        producer.send("bad", unit_of_order="joe")
        producer.send("later", unit_of_order="ann", delivery_delay_ms=3_600_000)
        with session.create_consumer(orders) as consumer:
            receive(consumer).nack()
            assert consumer.receive(timeout=0.5) is None
            assert len(admin.move(orders, parked, everything=True, order="sent").messages) == 2
    shown = {message.body: message for message in admin.browse(parked, include="all")}
    assert shown["later"].delivery_time > shown["bad"].timestamp + 3_000_000
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        with session.create_consumer(parked) as consumer:
            message = receive(consumer)
            assert (message.body, message.delivery_count, message.redelivered) == ("bad", 1, False)


def test_a_moved_message_is_as_it_was(admin: Admin, factory: ConnectionFactory, orders: Queue, parked: Queue) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(orders)
        producer.send(
            "text", unit_of_order="joe", priority=7, time_to_live_ms=3_600_000, correlation_id="c", type="t",
            properties={"region": "EU"}, duplicate_id="once",
        )  # fmt: skip
    (before,) = admin.browse(orders)
    admin.move(orders, parked, unit="joe")
    (after,) = admin.browse(parked)
    for name in ("body", "message_id", "timestamp", "priority", "expiration", "correlation_id", "type", "properties"):
        assert getattr(after, name) == getattr(before, name), name
    assert len(admin.move(parked, orders, unit="joe").messages) == 1
    with factory.create_connection() as connection:
        session = connection.create_session()
        assert received(session, orders, 1) == ["text"]  # its duplicate id is in the window still


def test_a_backlog_that_nobody_has_read_is_cleared_by_selector(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """Messages far behind what the owner reads ahead, while one of his sessions works on the first."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = session.create_producer(orders)
        for number in range(12_000):
            producer.send(b"x", unit_of_order="joe", properties={"number": number})
        session.commit()
        working = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        with working.create_consumer(orders, prefetch=1) as consumer:
            first = receive(consumer)
            report = admin.remove(orders, selector="number > 0 AND number <> 11990")
            assert (len(report.messages), report.in_hand, report.kept, report.gone) == (11_998, [], [], [])
            first.acknowledge()
            last = receive(consumer)
            assert last.properties["number"] == 11_990
            last.acknowledge()
    assert held(admin, orders) == []


def test_a_message_without_a_dead_letter_address_is_not_given_up(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    send(factory, orders, ("a", None))
    report = admin.send_to_dead_letter(orders, everything=True, dead_letter_address=None)
    assert "has no dead-letter address" in report.kept[0].why
    assert held(admin, orders) == ["a"]


def test_a_message_that_is_compressed_to_fit_was_not_moved_to_a_topic_that_takes_as_much(
    admin: Admin, factory: ConnectionFactory, orders: Queue, kafka_name: str
) -> None:
    with factory.create_connection() as connection:
        connection.create_session().create_producer(orders).send("x" * 2_000_000, unit_of_order="joe")
    target = Queue(f"{kafka_name}.target")
    admin.create_queue(target.name, partitions=2)
    report = admin.move(orders, target, everything=True)
    assert (units(*report.messages), report.kept) == (["joe"], [])
    [moved] = admin.browse(target)
    assert moved.body == "x" * 2_000_000


def test_a_message_that_is_too_large_for_its_target_stays_with_what_follows_in_its_unit(
    admin: Admin, factory: ConnectionFactory, orders: Queue, kafka_name: str
) -> None:
    """Of UNIT-14."""
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(orders)
        producer.send(os.urandom(20_000), unit_of_order="joe")
        producer.send("behind", unit_of_order="joe")
        producer.send("other", unit_of_order="ann")
    small = Queue(f"{kafka_name}.small")
    admin._core.admin.create_topic(small.kafka_topic(kafka_name), partitions=2, config={"max.message.bytes": "10000"})
    report = admin.move(orders, small, everything=True)
    assert units(*report.messages) == ["ann"]
    assert [(kept.message.unit, kept.why) for kept in report.kept] == [
        ("joe", f"it is larger, compressed too, than max.message.bytes of the topic of {small.name}"),
        ("joe", "a worker has others of its unit in hand, or an earlier one of it stays"),
    ]
    assert (len(held(admin, orders)), held(admin, small)) == (2, ["other"])


def test_closing_said_of_a_message_that_was_given_up_meanwhile_that_it_comes_again(
    admin: Admin,
    url: str,
    kafka_name: str,
    orders: Queue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of REDELIVER-4: its listener hung and lost it to another process, where an operator gave it up."""
    monkeypatch.setattr(listening, "STOP_TIMEOUT_S", 0.2)
    factories = [
        ConnectionFactory(
            url, namespace=kafka_name, address_settings=RULES, revoke_drain_ms=100, state_dir=tmp_path / each
        )
        for each in ("hanging", "other")
    ]
    may_end = Event()
    hang_in: list[str] = []

    def hang(message: Message) -> None:
        hang_in.append(str(message.message_id))
        may_end.wait(60)

    with factories[0].create_connection() as hanging, factories[1].create_connection() as other:
        producer = other.create_session().create_producer(orders)
        for unit in ("joe", "tim"):  # one in each partition
            producer.send(unit, unit_of_order=unit)
        for _ in range(2):
            session = hanging.create_session(AcknowledgeMode.INDIVIDUAL)
            session.create_consumer(orders, prefetch=1).set_listener(hang)
        eventually(lambda: len(hang_in) == 2, "both hang")
        other.create_session().create_consumer(orders)
        eventually(lambda: admin.send_to_dead_letter(orders, everything=True).messages != [], "one is given up")
        given_up = {str(message.message_id) for _, message in admin.dead_letters(origin=orders)}
        hanging.close()
        may_end.set()
    lines = [each for each in caplog.messages if each.startswith("closing waits no longer")]
    comes_again = {each for each in hang_in for line in lines if each in line and "it comes again" in line}
    assert (len(lines), comes_again) == (2, set(hang_in) - given_up)
