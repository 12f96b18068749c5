"""Consumers with selectors: each gets what it chooses, and what it does not choose holds its unit."""

from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, DeliveryMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.conftest import RUN
from tests.jms.support import EXPIRED, NOTHING_S, SETTINGS, bodies, copies, eventually, receive, receive_all
from tests.sidecar.parts import group_worker_behind

Connect = Callable[..., Connection]
MANY, LONG = 6_000, " " * 500
TTL_MS = 1_000
RED, BLUE = "colour = 'red'", "colour = 'blue'"


def paint(session: Session, queue: Queue, *texts: str, unit: str | None = None, ttl: int = 0) -> None:
    """Send messages such as "red 1", whose property `colour` is their first word."""
    producer = session.create_producer(queue)
    for text in texts:
        producer.send(text, properties={"colour": text.split()[0]}, unit_of_order=unit, time_to_live_ms=ttl)


def nothing_comes(consumer: MessageConsumer) -> bool:
    return consumer.receive(NOTHING_S) is None


def test_each_consumer_gets_what_it_chooses(connection: Connection, session: Session, orders: Queue) -> None:
    """SEL-1: two selectors and a consumer without any; whoever is there when it comes, and whoever comes later."""
    reds = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(orders, selector=RED)
    paint(session, orders, "red 1", "blue 1", "green 1", "red 2")
    blues = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(orders, selector=BLUE)
    assert sorted(bodies(receive_all(reds, 2))) == ["red 1", "red 2"]  # type: ignore[type-var]
    assert receive(blues).body == "blue 1"
    assert nothing_comes(reds)
    assert nothing_comes(blues)
    rest = session.create_consumer(orders)
    assert receive(rest).body == "green 1"
    assert nothing_comes(rest)
    assert (reds.selector, rest.selector) == (RED, None)


def test_a_head_that_nobody_chooses_holds_its_unit_and_no_other(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """UNIT-6, and UNIT-1 of selectors: until somebody comes who chooses it."""
    one = Queue(f"{orders.name}.one")
    blues = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(one, selector=BLUE)
    paint(session, one, "blue 1", "red 2", "blue 3", unit="ann")
    paint(session, one, "blue 4", unit="bob")
    paint(session, one, "red 5", "blue 6")
    first = receive_all(blues, 3)
    assert sorted(bodies(first)) == ["blue 1", "blue 4", "blue 6"]  # type: ignore[type-var]
    for message in first:
        message.acknowledge()
    assert nothing_comes(blues)
    with connection.create_session(AcknowledgeMode.CLIENT) as other:
        reds = other.create_consumer(one, selector=RED)
        taken = receive_all(reds, 2)
        assert sorted(bodies(taken)) == ["red 2", "red 5"]  # type: ignore[type-var]
        assert nothing_comes(blues), "red 2 is not finished"
        other.acknowledge()
    assert receive(blues).body == "blue 3"


def test_a_selector_that_goes_leaves_its_messages_to_the_others(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEL-1: what was read ahead for it is held no longer, and nothing is lost."""
    one = Queue(f"{orders.name}.one")
    paint(session, one, *[f"{colour} {n}" for n in range(30) for colour in ("red", "blue")])
    with connection.create_session(AcknowledgeMode.CLIENT) as closing:
        receive_all(closing.create_consumer(one, selector=RED, prefetch=10), 5)
    assert bodies(receive_all(session.create_consumer(one, selector=BLUE), 30)) == [f"blue {n}" for n in range(30)]
    for consumer in session._consumers.open():
        consumer.close()
    assert bodies(receive_all(session.create_consumer(one), 30)) == [f"red {n}" for n in range(30)]


def test_receive_nowait_finds_what_it_chooses(session: Session, orders: Queue) -> None:
    """SEL-1: behind many that it does not choose; and None when there is nothing."""
    paint(session, orders, *[f"red {n}" for n in range(300)], "blue 1")
    blues = session.create_consumer(orders, selector=BLUE)
    found = blues.receive_nowait()
    assert found is not None
    assert found.body == "blue 1"
    assert blues.receive_nowait() is None
    reds = session.create_consumer(orders, selector=RED)
    assert reds.receive_nowait() is not None


def test_what_nobody_chooses_expires(connection: Connection, session: Session, orders: Queue) -> None:
    """Of UNIT-6 and SEND-5: its unit goes on then."""
    one = Queue(f"{orders.name}.one")
    blues = session.create_consumer(one, selector=BLUE)
    paint(session, one, "blue 0", unit="ann")
    assert receive(blues).body == "blue 0"  # to join may take longer than the next one lives
    begin_ms = connection._core.provider.clock.now_ms()
    paint(session, one, "red 1", unit="ann", ttl=TTL_MS)
    paint(session, one, "blue 2", unit="ann")
    assert receive(blues).body == "blue 2"
    assert connection._core.provider.clock.now_ms() >= begin_ms + TTL_MS
    eventually(lambda: bodies(copies(connection, EXPIRED, one)) == ["red 1"], "red 1 expires")


def test_what_comes_back_goes_to_who_chooses_it(connection: Connection, session: Session, orders: Queue) -> None:
    """Of SEL-1: after a nack and after a rollback."""
    one = Queue(f"{orders.name}.one")
    paint(session, one, "blue 1", "red 2", "blue 3", unit="ann")
    reds = session.create_consumer(one, selector=RED)
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as individual:
        blues = individual.create_consumer(one, selector=BLUE)
        receive(blues).nack()
        again = receive(blues)
        assert (again.body, again.delivery_count) == ("blue 1", 2)
    with connection.create_session(AcknowledgeMode.TRANSACTED) as transacted:
        blues = transacted.create_consumer(one, selector=BLUE)
        assert receive(blues).body == "blue 1"
        transacted.rollback()
        assert nothing_comes(reds)
        assert receive(blues).body == "blue 1"
        transacted.commit()
        assert receive(reds).body == "red 2"
        reds.close()
        assert receive(blues).body == "blue 3"
        transacted.commit()


def test_a_run_of_a_unit_ends_at_what_is_not_chosen(connection: Connection, session: Session, orders: Queue) -> None:
    """Of UNIT-3 and UNIT-6: a session goes on within its unit as far as its selector chooses."""
    one = Queue(f"{orders.name}.one")
    paint(session, one, "blue 1", "blue 2", "red 3", "blue 4", unit="ann")
    client = connection.create_session(AcknowledgeMode.CLIENT)
    blues = client.create_consumer(one, selector=BLUE)
    assert bodies(receive_all(blues, 2)) == ["blue 1", "blue 2"]
    assert nothing_comes(blues)
    reds = client.create_consumer(one, selector=RED)
    assert receive(reds).body == "red 3"
    assert receive(blues).body == "blue 4"
    client.acknowledge()


def test_a_wrong_selector_is_refused(session: Session, orders: Queue) -> None:
    """SEL-1: at creation, with the position; the session can be used as before."""
    with pytest.raises(errors.InvalidSelectorError) as told:
        session.create_consumer(orders, selector="colour == 'red'")
    assert told.value.values["position"] == 9
    with pytest.raises(errors.InvalidSelectorError, match="how often a message was delivered changes"):
        session.create_consumer(orders, selector="JMSXDeliveryCount > 1")
    paint(session, orders, "red 1")
    assert receive(session.create_consumer(orders, selector="  ")).body == "red 1"


def test_a_large_backlog_that_nobody_chooses_leaves_memory(bootstrap: str, orders: Queue) -> None:
    """Of UNIT-6 and LOG-9: few of many are chosen; they come, and when somebody chooses the rest it comes in order."""
    one = Queue(f"{orders.name}.one")
    factory = ConnectionFactory(bootstrap, namespace=RUN, memory_budget_bytes=2**24, address_settings=SETTINGS)
    reds = [f"red {number:05}" for number in range(MANY)]
    with factory.create_connection() as connection, connection.create_session(AcknowledgeMode.CLIENT) as session:
        producer = session.create_producer(one)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        for place, text in enumerate(reds):
            unit = f"unit {place % 3}" if place % 2 else None
            producer.send(text + LONG, properties={"colour": "red"}, unit_of_order=unit)
            if place % 2_000 == 1_000:
                producer.send(f"blue {place}", properties={"colour": "blue"})
        blues = session.create_consumer(one, selector=BLUE)
        assert bodies(receive_all(blues, 3)) == ["blue 1000", "blue 3000", "blue 5000"]
        (channel,) = group_worker_behind(blues._link).data.channels.values()
        gates = channel.state.gates.by_key
        eventually(lambda: sum(gate.spilled for gate in list(gates.values())) > 0, "nothing is spilled")
        assert not channel.memory.is_paused
        session.acknowledge()
        with connection.create_session(AcknowledgeMode.AUTO) as other:
            consumer = other.create_consumer(one, selector="colour IN ('red')")
            got = [str(receive(consumer).body)[: len(reds[0])] for _ in reds]
        assert sorted(got) == reds
        units = {text: place % 3 for place, text in enumerate(reds) if place % 2}
        for number in range(3):
            assert [text for text in got if units.get(text) == number] == [t for t, u in units.items() if u == number]
