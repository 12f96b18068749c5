"""`record_deliveries`: what applications were given is told in jbm.events (LOG-10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.codec.events import decode_events
from jbm_kafka.core.channel.entries import ChannelEvents, DeliveryRun
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from jbm_kafka.providers.in_memory import use_world
from tests.jms.support import eventually, receive, send
from tests.support.chaos_topics import read_committed


@contextmanager
def events_of(bootstrap: str, queue: Queue) -> Iterator[Callable[[], list[ChannelEvents]]]:
    """Reads what committed checkpoints say that they did to a queue."""
    if not bootstrap.startswith("memory://"):
        yield lambda: _of(queue, [record.value() for record in read_committed(bootstrap, "jbm.events")])
        return
    world = use_world(bootstrap.removeprefix("memory://"))
    logs = world.cluster.topics["jbm.events"].logs
    try:
        yield lambda: _of(
            queue, [r.value() for log in logs for r in log.read(log.begin, 1 << 20, committed_only=True)[0]]
        )
    finally:
        world.let_go()


def _of(queue: Queue, values: list[bytes | None]) -> list[ChannelEvents]:
    return [events for events in (decode_events(value or b"") for value in values) if events.topic == queue.name]


def runs_of(events: list[ChannelEvents]) -> list[DeliveryRun]:
    return [run for each in events for run in each.deliveries]


def offsets_of(runs: list[DeliveryRun]) -> list[tuple[int, int]]:
    """Offset and attempt of each hand-over."""
    return [(run.first + number, run.attempt) for run in runs for number in range(run.count)]


def test_each_hand_over_is_told_with_its_attempt_its_session_and_its_time(
    connection: Connection, orders: Queue, bootstrap: str
) -> None:
    """LOG-10: what was given, also while nobody has acknowledged it; what is only prefetched was not."""
    queue, individual = Queue(f"{orders.name}.told"), connection.create_session(AcknowledgeMode.INDIVIDUAL)
    send(individual, queue, "fails", "is worked on", unit="u")
    consumer = individual.create_consumer(queue)
    before_ms = time.time_ns() // 1_000_000
    receive(consumer).nack()
    receive(consumer).acknowledge()
    send(individual, queue, "lies in the buffer", unit="another")
    assert receive(consumer).body == "is worked on"
    after_ms = time.time_ns() // 1_000_000
    with events_of(bootstrap, queue) as events:
        eventually(lambda: len(offsets_of(runs_of(events()))) >= 3, "the hand-overs are told")
        runs = runs_of(events())
    assert offsets_of(runs) == [(0, 1), (0, 2), (1, 1)]
    assert {(run.session, run.mode) for run in runs} == {(individual._core.session_id, "INDIVIDUAL")}
    assert all(before_ms - 1 <= run.at_ms <= after_ms + 1 for run in runs)


def test_whatever_way_it_is_received_it_is_told_before_its_acknowledgement(
    connection: Connection, session: Session, orders: Queue, bootstrap: str
) -> None:
    """LOG-10: by receive, with its body alone, by a listener; in PRE the acknowledgement comes first."""
    queue = Queue(f"{orders.name}.told")
    send(session, queue, *map(str, range(9)))
    with connection.create_session(AcknowledgeMode.AUTO) as auto:
        consumer = auto.create_consumer(queue, prefetch=1)
        assert receive(consumer).body == "0"
        assert consumer.receive_body(str, 20) == "1"
        assert consumer.receive_body(str, 20) == "2"
    heard: list[object] = []
    with connection.create_session(AcknowledgeMode.CLIENT) as client:
        listened = client.create_consumer(queue, prefetch=1)

        def listener(message: Message) -> None:
            heard.append(message.body)
            message.acknowledge()
            if len(heard) == 3:
                listened.close()

        listened.set_listener(listener)
        eventually(lambda: len(heard) == 3, "the listener hears them")
    with connection.create_session(AcknowledgeMode.PRE) as pre:
        consumer = pre.create_consumer(queue)
        assert [receive(consumer).body for _ in range(3)] == ["6", "7", "8"]
    with events_of(bootstrap, queue) as events:
        eventually(lambda: len(offsets_of(runs_of(events()))) >= 9, "the hand-overs are told")
        found = events()
    assert offsets_of(runs_of(found)) == [(offset, 1) for offset in range(9)]
    assert [run.mode for run in runs_of(found) for _ in range(run.count)] == ["AUTO"] * 3 + ["CLIENT"] * 3 + ["PRE"] * 3
    known: set[int] = set()
    for each in found:
        known |= {offset for offset, _ in offsets_of(list(each.deliveries))}
        settled = {offset for row in each.acknowledged for offset in range(row.first, row.last + 1)}
        assert {offset for offset in settled if offset < 6} <= known


def test_it_can_be_switched_on_while_programs_run(session: Session, orders: Queue, bootstrap: str) -> None:
    """LOG-10, of REDELIVER-6: nothing is told of what was given before, nor where nobody has switched it on."""
    consumer = session.create_consumer(orders)
    send(session, orders, "before")
    message = receive(consumer)
    assert message.kafka is not None
    before = message.kafka.partition, message.kafka.offset
    with Admin(bootstrap) as admin, events_of(bootstrap, orders) as events:
        admin.set_address_settings(orders.name, AddressSettings(record_deliveries=True))
        assert admin.address_settings()[orders.name].record_deliveries is True

        def is_told() -> bool:
            send(session, orders, "later")
            receive(consumer)
            return bool(runs_of(events()))

        eventually(is_told, "a hand-over is told")
        told = {(each.partition, offset) for each in events() for offset, _ in offsets_of(list(each.deliveries))}
        assert before not in told
        admin.unset_address_settings(orders.name)
