"""Bridges that acknowledge what the target has confirmed, or before that; and sides that are away."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from jbm_kafka import AddressSettings, Context, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.bridge import Bridge, BridgeEnd, Guarantee, run_all
from jbm_kafka.bridge.lane import BridgeLane
from jbm_kafka.codec.bridged_headers import HOPS
from jbm_kafka.ports import Outgoing
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.waiting import wait_until

IN, OUT, LETTERS = Queue("in"), Queue("out"), Queue("DLQ")
SOON_S = 10.0
SETTINGS = {"#": AddressSettings(partitions=2, max_delivery_attempts=2, dead_letter_address="DLQ")}


def send_numbers(jms: Context, count: int) -> None:
    producer = jms.create_producer()
    for number in range(count):
        producer.send(IN, str(number), unit_of_order=f"u{number % 3}")


def taken(jms: Context, count: int) -> list[int]:
    consumer = jms.create_consumer(OUT)
    found = [consumer.receive(SOON_S) for _ in range(count)]
    found.append(consumer.receive(0.3))
    return [int(message.body) for message in found if message is not None]


def left(jms: Context, queue: Queue) -> list[str]:
    return [message.body for message in jms.create_browser(queue, include="all")]


def wait_for_failures(bridge: Bridge, count: int) -> None:
    wait_until(lambda: bridge.statistics().failures >= count, about=repr(bridge), timeout_s=SOON_S)


def test_a_message_is_acknowledged_when_the_target_has_confirmed_it(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-3, BRIDGE-5, BRIDGE-8: until then it is at the source, and one of each unit is under way."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    faults = elsewhere._world.cluster.faults
    faults.stalled = lambda topic, partition: topic == OUT.name
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay", in_flight=2)
    assert bridge.guarantee is Guarantee.DUPLICATES_OKAY
    with here.create_connection() as watcher, here.create_context() as sender, there.create_context() as receiver:
        send_numbers(sender, 9)
        wait_until(lambda: watcher.statistics().of(IN.name).unacknowledged == 2, about="in flight", timeout_s=SOON_S)
        assert sorted(left(sender, IN)) == [str(number) for number in range(9)]
        assert bridge.statistics().arrived == 0
        faults.stalled = None
        bodies = taken(receiver, 9)
        wait_until(lambda: not left(sender, IN), about="the source is empty", timeout_s=SOON_S)
    assert sorted(bodies) == list(range(9))
    for unit in range(3):
        assert [each for each in bodies if each % 3 == unit] == [unit, unit + 3, unit + 6]


def test_what_the_target_refuses_for_now_comes_again_and_counts_no_attempt(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """BRIDGE-3, BRIDGE-8: and one line a minute tells it."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    elsewhere._world.cluster.faults.refuse = _refuse_to(OUT)
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay")
    with here.create_context() as sender, there.create_context() as receiver:
        send_numbers(sender, 6)
        wait_for_failures(bridge, 4)
        assert not bridge.health().is_ready
        assert "not today" in bridge.health().reasons[0]
        assert caplog.text.count("nothing goes on, and it is tried again") == 1
        elsewhere._world.cluster.faults.refuse = None
        assert sorted(taken(receiver, 6)) == list(range(6))
        assert left(sender, LETTERS) == []


def test_what_arrived_beside_a_failure_is_counted(world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged) -> None:
    """Of BRIDGE-8: in the step that failed, and when its pump was closed."""
    here, there = world.factory(), elsewhere.factory()
    faults = elsewhere._world.cluster.faults
    faults.refuse = lambda record: "not today" if record.value == b"1" else None
    with here.create_context() as sender, there.create_context() as receiver:
        send_numbers(sender, 3)
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay")
        wait_for_failures(bridge, 4)
        faults.refuse = None
        assert sorted(taken(receiver, 3)) == [0, 1, 2]
        wait_until(lambda: bridge.statistics().arrived == 3, about="all counted", timeout_s=SOON_S)


def test_it_goes_on_when_the_target_has_confirmed_something(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """BRIDGE-8: it was said to go on between a send and its refusal, and then again that it does not."""
    caplog.set_level(logging.INFO)
    here, there = world.factory(), elsewhere.factory()
    faults = elsewhere._world.cluster.faults
    faults.refuse = _refuse_to(OUT)
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay")
    with here.create_connection() as watcher, here.create_context() as sender:
        send_numbers(sender, 1)
        wait_for_failures(bridge, 1)
        faults.stalled = lambda topic, partition: topic == OUT.name
        wait_until(lambda: watcher.statistics().of(IN.name).unacknowledged == 1, about="in hand", timeout_s=SOON_S)
        assert not is_seen_soon(lambda: "across goes on" in caplog.text)
        assert bridge.trouble is not None
        faults.stalled = faults.refuse = None
        wait_until(lambda: "across goes on" in caplog.text, about="it goes on", timeout_s=SOON_S)


def test_what_the_target_refuses_for_good_is_a_dead_letter_and_its_unit_goes_on(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-3, BRIDGE-7: only a broker knew it."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    elsewhere._world.cluster.faults.refuse = lambda record: "too large" if record.value == b"1" else None
    bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay")
    with here.create_context() as sender, there.create_context() as receiver:
        producer = sender.create_producer()
        for number in range(3):
            producer.send(IN, str(number), unit_of_order="joe")
        assert taken(receiver, 2) == [0, 2]
        assert left(sender, LETTERS) == ["1"]


def test_what_was_acknowledged_first_never_comes_twice_and_may_be_lost(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """BRIDGE-4: and the log says which."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    faults = elsewhere._world.cluster.faults
    faults.refuse = _refuse_to(OUT)
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="at-most-once")
    with here.create_context() as sender, there.create_context() as receiver:
        sender.create_producer().send(IN, "0")
        wait_for_failures(bridge, 1)
        wait_until(lambda: not left(sender, IN), about="it is acknowledged", timeout_s=SOON_S)
        faults.refuse = None
        sender.create_producer().send(IN, "1")
        assert taken(receiver, 1) == [1]
        assert left(sender, LETTERS) == []
    assert "is lost (at-most-once): " in caplog.text


def test_a_target_that_takes_nothing_for_long_loses_few_that_were_acknowledged_first(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-4: each try took as many as may be in hand, and the queue ran into nothing."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    with here.create_context() as sender, there.create_context() as receiver:
        producer = sender.create_producer()
        for number in range(200):
            producer.send(IN, str(number))
        elsewhere._world.cluster.faults.refuse = _refuse_to(OUT)
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="at-most-once", in_flight=20)
        wait_for_failures(bridge, 5)
        elsewhere._world.cluster.faults.refuse = None
        wait_until(lambda: not left(sender, IN), about="the source is empty", timeout_s=SOON_S)
        wait_until(lambda: bridge.statistics().arrived > 120, about="most", timeout_s=SOON_S)
        bodies = taken(receiver, bridge.statistics().arrived)
        assert len(bodies) == len(set(bodies))


def test_what_can_never_be_sent_is_lost_alone_where_it_was_acknowledged_first(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """BRIDGE-4, BRIDGE-7: nothing told of it, or all that was in hand went with it."""
    source, target = BridgeEnd(world.factory(address_settings=SETTINGS), IN), BridgeEnd(elsewhere.factory(), OUT)
    elsewhere._world.cluster.faults.refuse = lambda record: "too large" if record.value == b"1" else None
    bridge = bridged(source, target, guarantee="at-most-once")
    with world.factory().create_context() as sender, elsewhere.factory().create_context() as receiver:
        producer = sender.create_producer()
        producer.send(IN, "0")
        lost = producer.send(IN, "1").message_id, producer.send(IN, "2", properties={HOPS: target.place}).message_id
        producer.send(IN, "3")
        assert taken(receiver, 2) == [0, 3]
        wait_until(lambda: bridge.statistics().refused == 2, about="both", timeout_s=SOON_S)
    assert bridge.statistics().failures == 0
    assert [caplog.text.count(f"bridge across: message {each} is lost (at-most-once): ") for each in lost] == [1, 1]


def test_when_the_source_does_not_hear_of_some_they_come_again(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-3: a session was left open that held them, until the process ended."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay")
    with here.create_context() as sender, there.create_context() as receiver:
        send_numbers(sender, 1)
        wait_until(lambda: not left(sender, IN), about="the first", timeout_s=SOON_S)
        world._world.cluster.faults.denied = frozenset({IN.changelog_topic()})
        send_numbers(sender, 9)
        wait_for_failures(bridge, 3)
        world._world.cluster.faults.denied = frozenset()
        wait_until(lambda: not left(sender, IN), about="the source is empty", timeout_s=2 * SOON_S)
        assert left(sender, LETTERS) == []
        assert set(taken(receiver, 10)) == set(range(9))


def test_all_bridges_of_a_process_are_asked_to_end_at_once(world: MemoryWorld, elsewhere: MemoryWorld) -> None:
    """BRIDGE-8: while one finished with what it had, the next one took on more; and a process has some 30 s to end."""
    here, there = world.factory(), elsewhere.factory()
    slow, other = (
        Bridge(name, BridgeEnd(here, name), BridgeEnd(there, OUT), guarantee="duplicates-okay")
        for name in ("slow", "other")
    )
    faults = elsewhere._world.cluster.faults
    faults.stalled = lambda topic, partition: topic == OUT.name

    lanes: list[BridgeLane] = []
    ended: list[bool] = []

    def use() -> None:
        try:
            with here.create_connection() as watcher, here.create_context() as sender:
                sender.create_producer().send(Queue("slow"), "1")
                wait_until(
                    lambda: watcher.statistics().of("slow").unacknowledged == 1 and other.trouble is None,
                    about="one has a message in hand, and the other works",
                    timeout_s=SOON_S,
                )
                lanes.extend(lane for each in (slow, other) if each._running for lane in each._running.lanes)
                os.kill(os.getpid(), signal.SIGTERM)
                wait_until(lambda: lanes[1].join(0.0), about="the other has ended", timeout_s=SOON_S)
                ended.extend(lane.join(0.0) for lane in lanes)
        finally:
            faults.stalled = None
            if not lanes:
                os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=use)
    thread.start()
    assert run_all([slow, other]) == 0
    thread.join()
    assert ended == [False, True]


def test_stopping_finishes_with_what_is_in_hand(world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-8: the target confirms it when the bridge has been asked to end."""
    here, there = world.factory(), elsewhere.factory()
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee="duplicates-okay")
    assert bridge._running is not None
    (lane,) = bridge._running.lanes
    elsewhere._world.cluster.faults.stalled = lambda topic, partition: topic == OUT.name and not lane._ends.is_set()
    with here.create_connection() as watcher, here.create_context() as sender:
        send_numbers(sender, 3)
        wait_until(lambda: watcher.statistics().of(IN.name).unacknowledged == 3, about="in flight", timeout_s=SOON_S)
        assert bridge.stop()
        assert left(sender, IN) == []


def test_what_is_in_hand_when_the_time_to_stop_is_up_counts_no_attempt(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """BRIDGE-8: by so many stops, while a target was slow to confirm, it became a dead letter; and the log said that
    nothing goes on, and that messages are to be settled before their session is closed."""
    once = {"#": AddressSettings(max_delivery_attempts=1, dead_letter_address="DLQ")}
    here, faults = world.factory(address_settings=once), elsewhere._world.cluster.faults
    ends = BridgeEnd(here, IN), BridgeEnd(elsewhere.factory(), OUT)
    bridge = bridged(*ends, guarantee="duplicates-okay", drain_s=0.01)
    running = bridge._running
    assert running is not None
    (lane,) = running.lanes
    faults.stalled = lambda topic, partition: topic == OUT.name and not running._is_closed
    with here.create_connection() as watcher, here.create_context() as sender:
        send_numbers(sender, 1)
        wait_until(lambda: watcher.statistics().of(IN.name).unacknowledged == 1, about="in hand", timeout_s=SOON_S)
        assert not bridge.stop()
        assert sender.create_consumer(IN).receive(SOON_S) is not None
        assert left(sender, LETTERS) == []
    lane.join(SOON_S)
    assert [record.message for record in caplog.records] == [
        "bridge across: not finished in 0.01 s; what is in hand comes again"
    ]


def test_a_bridge_that_refuses_all_that_comes_ends_when_it_is_asked_to(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-8: it went on until the queue was empty."""
    source, target = BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT)
    with world.factory().create_context() as sender:
        producer = sender.create_producer()
        for number in range(400):
            producer.send(IN, str(number), properties={HOPS: target.place})
        bridge = bridged(source, target, guarantee="duplicates-okay", in_flight=10)
        wait_until(lambda: bridge.statistics().refused > 0, about="the first", timeout_s=SOON_S)
        assert bridge._running is not None
        (lane,) = bridge._running.lanes
        lane.ask_to_end()
        assert lane.join(SOON_S)
        assert lane.counts.refused < 400


def test_commits_that_fail_within_a_cluster_count_no_attempt(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-8: however often."""
    here = world.factory(address_settings=SETTINGS)
    with here.create_context() as jms:
        jms.create_consumer(OUT).close()
        world._world.cluster.faults.leaderless = frozenset({(OUT.name, 0), (OUT.name, 1)})
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT), lanes=1)
        send_numbers(jms, 4)
        wait_for_failures(bridge, 4)
        assert not bridge.health().is_ready
        world._world.cluster.faults.leaderless = frozenset()
        assert sorted(taken(jms, 4)) == list(range(4))
        assert left(jms, LETTERS) == []


def test_a_bridge_waits_for_a_target_that_is_paused(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-8."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    with here.create_context() as sender, there.create_context() as receiver, Admin(elsewhere.url) as admin:
        receiver.create_consumer(OUT).close()
        admin.pause(OUT)
        send_numbers(sender, 3)
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT))
        wait_for_failures(bridge, 2)
        assert "paused" in bridge.health().reasons[0]
        admin.resume(OUT)
        assert sorted(taken(receiver, 3)) == [0, 1, 2]
        assert bridge.stop()


def is_seen_soon(looks: Callable[[], bool]) -> bool:
    """True when it is seen within some steps of a lane."""
    with suppress(AssertionError):
        return wait_until(looks, about="it", timeout_s=0.5)
    return False


def _refuse_to(queue: Queue) -> Callable[[Outgoing], str | None]:
    def refuse(record: Outgoing) -> str | None:
        return "not today" if record.topic == queue.name else None

    return refuse
