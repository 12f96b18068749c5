"""How a message gets its unit, and what a browser shows of units."""

import re

import pytest
from confluent_kafka import Producer

from jbm_kafka import NO_UNIT, SYSTEM_GENERATED, AcknowledgeMode, Queue, TextMessage, errors
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import NOTHING_S, SOON_S, bodies, receive, receive_all, send


def test_the_unit_is_the_key_and_two_properties(session: Session, orders: Queue) -> None:
    """UNIT-9, of LOG-1: any non-empty name."""
    name = "Jörg & Söhne/№ 7 "
    send(session, orders, "a", unit=name)
    message = receive(session.create_consumer(orders))
    assert message.unit_of_order == name
    assert message.properties["JMS_BEA_UnitOfOrder"] == name
    assert message.properties["JMSXGroupID"] == name
    assert message.kafka is not None
    assert message.kafka.key == name.encode()
    assert message.kafka.partition == partition_for(name.encode(), 2)


def test_a_unit_is_of_one_queue_and_shared_by_all_who_send_to_it(
    connect: Connect, connection: Connection, orders: Queue
) -> None:
    """UNIT-9: a name says nothing beside its destination, and may be that of anything else."""
    other, name = Queue(f"{orders.name}.other"), orders.name
    senders = [connection.create_session(), connection.create_session(), connect().create_session()]
    for number in range(6):
        send(senders[number % 3], orders, f"m{number}", unit=name)
    send(senders[0], other, "elsewhere", unit=name)
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    consumer = session.create_consumer(orders)
    first = receive(consumer)
    with connection.create_session() as beside:
        assert receive(beside.create_consumer(other)).body == "elsewhere"
    assert consumer.receive(NOTHING_S) is None, "it is one unit"
    got = [first]
    for _ in range(5):
        got[-1].acknowledge()
        got.append(receive(consumer))
    assert bodies(got) == [f"m{number}" for number in range(6)]


@pytest.mark.kafka_only
def test_an_open_transaction_of_a_foreign_producer_delays_its_partition(
    bootstrap: str, session: Session, orders: Queue
) -> None:
    """Of UNIT-4: what is sent after it waits, whatever its unit; nothing is passed over."""
    queue = Queue(f"{orders.name}.one")
    send(session, queue, "before", unit="a")
    foreigner = Producer({"bootstrap.servers": bootstrap, "transactional.id": queue.name, "log_level": 0})
    foreigner.init_transactions(SOON_S)
    foreigner.begin_transaction()
    foreigner.produce(queue.name, b"foreign", b"b", 0, headers=[("JBMBody", b"text")])
    assert foreigner.flush(SOON_S) == 0
    send(session, queue, "after", unit="c")
    consumer = session.create_consumer(queue)
    assert receive(consumer).body == "before"
    assert consumer.receive(NOTHING_S) is None
    foreigner.commit_transaction(SOON_S)
    assert bodies(receive_all(consumer, 2)) == ["foreign", "after"]


def test_the_precedence_of_units(connect: Connect, orders: Queue) -> None:
    """UNIT-10: the send's, the producer's, JMSXGroupID, the destination's, the factory's."""
    queue = Queue(f"{orders.name}.named")
    session = connect(default_unit_of_order="by-factory").create_session()
    plain, named = session.create_producer(orders), session.create_producer(queue)
    grouped = TextMessage("x")
    grouped.properties["JMSXGroupID"] = "by-group"
    assert plain.send("x").unit_of_order == "by-factory"
    assert named.send("x").unit_of_order == "by-destination"
    assert named.send(grouped).unit_of_order == "by-group"
    assert named.send("x", properties={"JMSXGroupID": "given"}).unit_of_order == "given"
    named.unit_of_order = "by-producer"
    assert named.send(grouped).unit_of_order == "by-producer"
    assert named.send(grouped, unit_of_order="by-send").unit_of_order == "by-send"
    assert named.send(grouped, unit_of_order=NO_UNIT).unit_of_order is None
    named.unit_of_order = NO_UNIT
    assert named.send("x").unit_of_order is None
    named.unit_of_order = None
    assert named.send("x").unit_of_order == "by-destination"


@pytest.mark.parametrize("whose", ["the factory's", "the destination's"])
def test_system_generated_units_are_one_for_each_session(connect: Connect, orders: Queue, whose: str) -> None:
    """UNIT-10: time-based and statistically unique."""
    by_factory = whose == "the factory's"
    connection = connect(default_unit_of_order=SYSTEM_GENERATED if by_factory else "by-factory")
    queue = orders if by_factory else Queue(f"{orders.name}.generated")
    one, two = connection.create_session(), connection.create_session()
    units = [s.create_producer(queue).send("x").unit_of_order for s in (one, one, two)]
    assert units[0] == units[1] != units[2]
    assert all(re.fullmatch(r"JBM-[0-9a-f]+-[0-9a-f]{12}", str(unit)) for unit in units)


@pytest.mark.kafka_only
def test_a_key_that_is_no_text_is_kept_when_its_message_is_sent_on(
    bootstrap: str, session: Session, orders: Queue
) -> None:
    """MSG-2, of UNIT-15: it shows as hexadecimal digits, and stays the same unit."""
    session.create_producer(orders)
    foreign(bootstrap, orders, key=b"\xff\x00", value=b"a", headers=[])
    got = receive(session.create_consumer(orders))
    assert (got.unit_of_order, got.body) == ("0xff00", b"a")
    target = Queue(f"{orders.name}.out")
    session.create_producer(target).send(got)
    again = receive(session.create_consumer(target))
    assert again.kafka is not None
    assert (again.kafka.key, again.unit_of_order) == (b"\xff\x00", "0xff00")
    assert again.kafka.partition == partition_for(b"\xff\x00", 2)


@pytest.mark.kafka_only
def test_records_of_any_producer_are_delivered(bootstrap: str, session: Session, orders: Queue) -> None:
    """MSG-2, of LOG-1: without headers, with binary ones, with null values, empty keys, and nonsense."""
    session.create_producer(orders)
    queue = Queue(f"{orders.name}.one")
    session.create_producer(queue)
    odd = [
        {"key": None, "value": b"plain", "headers": []},
        {"key": b"", "value": b"empty key", "headers": []},
        {"key": None, "value": None, "headers": [("JBMBody", b"text")]},
        {"key": None, "value": b"\xff\xfe", "headers": [("JBMBody", b"text")]},
        {"key": None, "value": b"?", "headers": [("JBMBody", b"rubbish"), ("JMSPriority", b"high"), ("bin", b"\xff")]},
        {"key": None, "value": b"x", "headers": [("trace", b"1"), ("trace", b"2"), ("none", None)]},
        {"key": None, "value": b"n", "headers": [("jms.int.count", b"many")]},
    ]
    for record in odd:
        foreign(bootstrap, queue, **record)  # type: ignore[arg-type]
    got = receive_all(session.create_consumer(queue), len(odd))
    assert [m.kafka.offset for m in got if m.kafka is not None] == list(range(7))
    assert (got[0].body, got[0].message_id) == (b"plain", f"ID:kafka:{queue.name}:0:0")
    assert got[1].unit_of_order is None
    assert got[2].body is None
    assert (got[3].body, "_JBM_DECODE_ERROR" in got[3].properties) == (b"\xff\xfe", True)
    assert (got[4].priority, "_JBM_DECODE_ERROR" in got[4].properties) == (4, True)
    assert got[5].properties["trace"] == "2"
    assert got[6].properties["count"] == "many"


def test_a_browser_shows_the_first_of_each_unit_and_all_with_their_state(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """LOG-3, of UNIT-13: deliverable ones; `all` tells what stands where. Nothing is consumed."""
    queue = Queue(f"{orders.name}.one")
    send(session, queue, "a1", "a2", unit="a")
    send(session, queue, "b1", "b2", unit="b")
    session.create_producer(queue).send("later", delivery_delay_ms=60_000)
    send(session, queue, "free1")
    client = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = client.create_consumer(queue, prefetch=1)
    assert receive(consumer).body == "a1"
    with session.create_browser(queue) as browser:
        assert bodies(browser) == ["b1", "free1"]
        assert bodies(browser) == ["b1", "free1"]
    with pytest.raises(errors.IllegalStateError, match="closed"):
        list(browser)
    states = {m.body: m.state for m in session.create_browser(queue, include="all")}
    assert states == {
        "a1": MessageState.DELIVERED,
        "a2": MessageState.NEW,
        "b1": MessageState.NEW,
        "b2": MessageState.NEW,
        "later": MessageState.NEW,
        "free1": MessageState.NEW,
    }
    with pytest.raises(ValueError, match="deliverable"):
        session.create_browser(queue, include="some")  # type: ignore[arg-type]


def foreign(
    bootstrap: str, queue: Queue, *, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """A record of a producer that does not know us."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    producer.produce(queue.name, key=key, value=value, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(10) == 0


def test_a_unit_assigned_to_a_new_message_is_not_lost_silently(session: Session, orders: Queue) -> None:
    """Of UNIT-10: a send stamps the unit; one that nobody looks at would give up the order that was asked for."""
    producer = session.create_producer(orders)
    message = TextMessage("2 books")
    message.unit_of_order = "ann"
    with pytest.raises(
        errors.OrderError, match=r"of the message is 'ann', which no send looks at: give it to the send"
    ):
        producer.send(message)
    assert producer.send(message, unit_of_order="joe").unit_of_order == "joe"


def test_a_message_that_was_sent_before_was_sent_again_without_its_unit(session: Session, orders: Queue) -> None:
    """Of UNIT-10: so a loop that tries a send again gave up the order that was asked for, as nobody said."""
    producer, message = session.create_producer(orders), TextMessage("2 books")
    producer.send(message, unit_of_order="joe", priority=9)
    assert producer.send(message).unit_of_order == "joe"
    message.unit_of_order = "ann"
    assert producer.send(message).unit_of_order == "ann"
    assert producer.send(message, unit_of_order=NO_UNIT).unit_of_order is None
    consumer = session.create_consumer(orders)
    units = []
    for _ in range(4):
        received = receive(consumer)
        units.append(received.unit_of_order)
        received.acknowledge()
    assert sorted(map(str, units)) == ["None", "ann", "joe", "joe"]
