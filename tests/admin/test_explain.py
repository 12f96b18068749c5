"""Why it does not move: each rule that can keep a message, on Kafka and in memory, while somebody receives and not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin, ExplainedMessage, Explanation, Rule
from jbm_kafka.admin.explain.reasons import not_selected
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.jms.connection import Connection
from tests.jms.support import receive

SETTINGS = {
    "#": AddressSettings(max_delivery_attempts=2, on_dead_letter="hold", redelivery_delay_ms=600_000, partitions=2)
}
PATIENCE_S = 20.0

Found = TypeVar("Found")


@pytest.fixture
def connection(url: str, kafka_name: str, admin: Admin) -> Iterator[Connection]:
    """Of the client `billing`; it is started."""
    factory = ConnectionFactory(url, namespace=kafka_name, client_id=f"billing-{kafka_name}", address_settings=SETTINGS)
    with factory.create_connection() as made:
        yield made


@pytest.fixture
def orders(kafka_name: str, admin: Admin) -> Queue:
    admin.create_queue(kafka_name, partitions=2)
    return Queue(kafka_name)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def until(look: Callable[[], Found], is_so: Callable[[Found], object]) -> Found:
    """Owners act in turns of some milliseconds, and a consumer joins in seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so(found := look()):
        assert time.monotonic() < deadline, found
    return found


def only(found: Explanation) -> ExplainedMessage:
    (message,) = found.messages
    return message


def rules(message: ExplainedMessage) -> list[Rule]:
    return [reason.rule for reason in message.reasons]


def has_rule(rule: Rule) -> Callable[[Explanation], bool]:
    return lambda found: bool(found.messages) and rules(found.messages[0])[0] is rule


def test_a_unit_in_hand_names_its_receiver_and_since_when(
    admin: Admin, connection: Connection, orders: Queue, kafka_name: str
) -> None:
    """UNIT-17: of a unit its holder, of a message behind its head that first."""
    began_ms = now_ms()
    session = connection.create_session(AcknowledgeMode.CLIENT)
    producer = session.create_producer(orders)
    for number in range(3):
        producer.send(f"order {number}", unit_of_order="joe")
    consumer = session.create_consumer(orders)
    message = receive(consumer)
    found = admin.explain(orders, unit="joe")
    first = only(found)
    assert (first.message_id, first.unit, first.behind, first.attempts) == (message.message_id, "joe", 2, 0)
    (reason,) = first.reasons
    assert reason.rule is Rule.IN_HAND
    assert reason.since_ms is not None
    assert began_ms - 1_000 <= reason.since_ms <= now_ms() + 1_000
    holder = reason.holder
    assert holder is not None
    assert (holder.client_id, holder.mode, holder.is_unread) == (f"billing-{kafka_name}", "CLIENT", False)
    assert holder.receiver.startswith(holder.session)
    (partition,) = found.partitions
    assert (partition.held, bool(partition.owner), found.members, found.group) == (
        3, True, 1, orders.group_id(kafka_name),
    )  # fmt: skip
    last = max(admin.browse(orders, include="all"), key=lambda each: int(str(each.message_id).rpartition(":")[2]))
    behind = only(admin.explain(orders, message_id=last.message_id))
    assert rules(behind) == [Rule.BEHIND, Rule.IN_HAND]
    assert behind.reasons[1].holder == holder
    message.acknowledge()
    # The rest is prefetched or goes next: it is in nobody's way any more.
    assert rules(only(admin.explain(orders, unit="joe")))[0] in (Rule.IN_HAND, Rule.RECEIVERS_BUSY, Rule.READY)


def test_a_nacked_message_tells_until_when_it_waits(admin: Admin, connection: Connection, orders: Queue) -> None:
    """UNIT-17."""
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    session.create_producer(orders).send("bad", unit_of_order="joe")
    consumer = session.create_consumer(orders)
    receive(consumer).nack(delay_ms=500_000)
    delayed = only(until(lambda: admin.explain(orders, unit="joe"), has_rule(Rule.DELAYED))).reasons[0]
    assert delayed.until_ms is not None
    assert 400_000 < delayed.until_ms - now_ms() <= 500_000
    connection.close()
    # With nobody to be asked the changelog says the same.
    recorded = only(admin.explain(orders, unit="joe"))
    assert (recorded.reasons[0].until_ms, recorded.attempts) == (delayed.until_ms, 1)
    assert [reason.rule for reason in admin.explain(orders).reasons] == [Rule.NOBODY_RECEIVES]


def test_a_unit_on_hold_tells_how_it_is_released(admin: Admin, connection: Connection, orders: Queue) -> None:
    """UNIT-17."""
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    producer = session.create_producer(orders)
    producer.send("bad", unit_of_order="joe")
    last = session.create_text_message("behind it")
    producer.send(last, unit_of_order="joe")
    consumer = session.create_consumer(orders)
    for _ in range(2):
        receive(consumer).nack(delay_ms=0)
    found = only(until(lambda: admin.explain(orders, message_id=last.message_id), lambda found: True))
    assert rules(found) == [Rule.BEHIND, Rule.ON_HOLD]
    assert found.reasons[1].remedy.startswith(f"jbm-kafka release {orders.name} --unit joe gives it up")
    connection.close()
    assert rules(only(admin.explain(orders, message_id=last.message_id))) == [Rule.BEHIND, Rule.ON_HOLD]


def test_not_selected_and_paused(admin: Admin, connection: Connection, orders: Queue) -> None:
    """UNIT-17."""
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    producer = session.create_producer(orders)
    producer.send("for nobody", unit_of_order="joe", properties={"region": "US"})
    producer.send("for ann", unit_of_order="ann", properties={"region": "EU"})
    consumer = session.create_consumer(orders, selector="region = 'EU'")
    assert consumer.receive(timeout=PATIENCE_S) is not None
    found = until(lambda: admin.explain(orders, unit="joe"), has_rule(Rule.NOT_SELECTED))
    (receiver,) = found.receivers
    assert (receiver.selector, receiver.in_hand) == ("region = 'EU'", 1)
    (reason,) = only(found).reasons
    assert (reason.rule, "region = 'EU'" in reason.text) == (Rule.NOT_SELECTED, True)
    admin.pause(orders, "consumption", by="night shift")
    producer.send("while it is paused", unit_of_order="eve", properties={"region": "EU"})
    found = until(lambda: admin.explain(orders, unit="eve"), has_rule(Rule.PAUSED))
    for reason in (found.reasons[0], only(found).reasons[0]):
        assert (reason.rule, "night shift" in reason.text) == (Rule.PAUSED, True)
        assert reason.since_ms is not None


def test_a_pause_of_sending_is_told_though_nothing_is_held(admin: Admin, orders: Queue) -> None:
    """It said "nothing is held", and that the receiver is idle for there is nothing for it."""
    admin.pause(orders, "production", by="night shift")
    (first, *_) = admin.explain(orders).reasons
    assert (first.rule, "night shift" in first.text) == (Rule.SENDING_PAUSED, True)
    assert first.remedy == f"jbm-kafka resume {orders.name} lets it go on"
    assert first.since_ms is not None


def test_without_receivers_topic_and_changelog_tell(admin: Admin, connection: Connection, orders: Queue) -> None:
    """UNIT-17."""
    producer = connection.create_session().create_producer(orders)
    producer.send("in ten minutes", delivery_delay_ms=600_000)
    producer.send("too late", unit_of_order="ann", time_to_live_ms=1)
    producer.send("waits", unit_of_order="joe")
    until(
        lambda: admin.explain(orders),
        lambda found: (
            sorted(rule.value for each in found.messages for rule in rules(each))
            == ["expired", "nobody-receives", "not-yet-due"]
        ),
    )
    assert only(admin.explain(orders, unit="joe")).reasons[0].remedy == "start a receiver"
    with pytest.raises(InvalidSettingError, match="give one of unit and message_id"):
        admin.explain(orders, unit="joe", message_id="ID:none")
    assert not admin.explain(orders, older_than_s=3_600).messages


def test_of_what_is_not_there_it_was_said_that_nobody_receives_it(admin: Admin, orders: Queue) -> None:
    """As the command does."""
    for asked in ({"unit": "eve"}, {"message_id": "ID:none"}, {"unit": "eve", "older_than_s": 60}):
        found = admin.explain(orders, **asked)
        assert (found.messages, found.reasons[0].rule) == ((), Rule.NOT_HELD)
    assert Rule.NOT_HELD not in [each.rule for each in admin.explain(orders).reasons]


def test_receivers_idle_for_want_of_units_and_units_that_wait_for_receivers(
    admin: Admin, connection: Connection, orders: Queue
) -> None:
    """UNIT-17: a second receiver gets nothing while the first has the only unit."""
    first, second = (connection.create_session(AcknowledgeMode.INDIVIDUAL) for _ in range(2))
    producer = first.create_producer(orders)
    for number in range(3):
        producer.send(f"order {number}", unit_of_order="joe")
    consumer = first.create_consumer(orders, prefetch=1)
    message = receive(consumer)
    second.create_consumer(orders, prefetch=1).set_listener(lambda message: None)
    found = until(lambda: admin.explain(orders), lambda found: found.idle_receivers == 1)
    assert {each.is_idle for each in found.receivers} == {True, False}
    assert [rules(each) for each in found.messages] == [[Rule.IN_HAND]]
    assert found.starving == 0
    message.acknowledge()


def test_a_subscription_of_a_topic(admin: Admin, connection: Connection, kafka_name: str) -> None:
    """UNIT-17."""
    prices = Topic(kafka_name)
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_shared_durable_consumer(prices, "audit", "region = 'EU'")
    producer = session.create_producer(prices)
    producer.send("not for it", unit_of_order="gold", properties={"region": "US"})
    producer.send("1", unit_of_order="gold", properties={"region": "EU"})
    producer.send("2", unit_of_order="gold", properties={"region": "EU"})
    message = receive(consumer)
    client_id = connection.client_id or ""
    found = admin.explain(prices, unit="gold", subscription="audit", client_id=client_id)
    assert (only(found).message_id, only(found).behind, rules(only(found))) == (message.message_id, 1, [Rule.IN_HAND])
    assert "audit" in found.name
    for wrong, says in ((None, "name one of its subscriptions"), ("adit", "audit")):
        with pytest.raises(InvalidDestinationError, match=says):
            admin.explain(prices, subscription=wrong)
    with pytest.raises(InvalidDestinationError):
        admin.explain("nowhere-such")


def test_a_queue_has_no_subscriptions(admin: Admin, orders: Queue) -> None:
    with pytest.raises(InvalidDestinationError, match="leave that out"):
        admin.explain(orders, subscription="audit")


def test_counts_show_what_may_go_and_who_has_no_partition(
    admin: Admin, connection: Connection, orders: Queue, url: str, kafka_name: str, tmp_path: Path
) -> None:
    """UNIT-17: starvation is visible in counts."""
    session = connection.create_session(AcknowledgeMode.CLIENT)
    producer = session.create_producer(orders)
    for unit in ("joe", "joe", "ann"):
        producer.send("order", unit_of_order=unit)
    counts = admin.counts(orders)
    assert (counts.held, counts.ready, counts.members, counts.idle_members, counts.without_owner) == (3, 2, 0, 0, ())
    # With a folder of its own each is a member of its own; in memory the connections of one process are one.
    is_in_memory = url.startswith("memory:")
    connections = [
        ConnectionFactory(
            url, namespace=kafka_name, state_dir=None if is_in_memory else str(tmp_path / str(number))
        ).create_connection()
        for number in range(2)
    ]
    session.create_consumer(orders)
    members = 1 if is_in_memory else 3
    try:
        for each in connections:
            each.start()
            each.create_session().create_consumer(orders).set_listener(lambda message: None)
        until_members = time.monotonic() + PATIENCE_S
        while (counts := admin.counts(orders)).members < members or counts.idle_members != max(members - 2, 0):
            assert time.monotonic() < until_members, counts
        assert sorted(counts.owners) == [0, 1]
    finally:
        for each in connections:
            each.close()


def test_selectors_that_do_not_choose_it_are_named_in_a_line() -> None:
    some = not_selected(["", "b = 1", "a = 1", "b = 1"])
    assert some.text.endswith(": they select a = 1; b = 1")
    assert len(not_selected(["x" * 3_000]).text) < 400


def test_the_time_of_a_moved_message_was_that_of_its_move(admin: Admin, orders: Queue, connection: Connection) -> None:
    """And `browse` showed another: when it was first sent."""
    connection.create_session().create_producer(orders).send("1", unit_of_order="joe")
    moved = f"{orders.name}-moved"
    admin.create_queue(moved, partitions=1)
    admin.move(orders, moved, everything=True)
    (browsed,) = admin.browse(moved)
    assert browsed.kafka is not None
    assert ("JMSTimestamp", b"%d" % browsed.timestamp) in browsed.kafka.headers, "it is not that of the record"
    assert only(admin.explain(moved)).sent_at_ms == browsed.timestamp


def test_what_another_namespace_receives_too_was_found_nowhere(
    url: str, kafka_name: str, admin: Admin, connection: Connection, orders: Queue
) -> None:
    """A program with a wrong namespace had every message a second time, and no command told."""
    assert admin.explain(orders).namespaces == ()
    other = f"{kafka_name}-other"
    with ConnectionFactory(url, namespace=other).create_connection() as wrong:
        wrong.create_session().create_consumer(orders)
        assert until(lambda: admin.explain(orders), lambda found: found.namespaces).namespaces == (other,)
    connection.create_session().create_consumer(orders)
    with Admin(url, namespace=other) as theirs:
        assert until(lambda: theirs.explain(orders), lambda found: found.namespaces).namespaces == (kafka_name,)
    assert until(lambda: admin.explain(orders), lambda found: not found.namespaces)
