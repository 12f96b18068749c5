"""Bridges from one cluster into another, which records what came."""

from __future__ import annotations

import threading
from itertools import count, cycle

import pytest

from jbm_kafka import AddressSettings, Context, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.bridge import Bridge, BridgeEnd, Guarantee, recorded_progress
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.memory.memory_kafka import CommitFault, MemoryKafka
from jbm_kafka.ports import Outgoing, TransactionAborted
from jbm_kafka.registry.fenced_transactions import SIGN_MS
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.waiting import wait_until

IN, OUT = Queue("in"), Queue("out")
SOON_S = 10.0
SETTINGS = {"#": AddressSettings(partitions=2)}


def sent(jms: Context, numbers: range, units: int) -> None:
    producer = jms.create_producer()
    for number in numbers:
        producer.send(IN, str(number), unit_of_order=f"u{number % units}")


def received(jms: Context, most: int) -> list[int]:
    """All that comes; more than `most` is told, too."""
    consumer = jms.create_consumer(OUT)
    found = [consumer.receive(SOON_S) for _ in range(most)]
    found.append(consumer.receive(0.3))
    return [int(message.body) for message in found if message is not None]


def in_order(bodies: list[int], units: int) -> bool:
    return all(
        mine == sorted(mine) for unit in range(units) if (mine := [each for each in bodies if each % units == unit])
    )


def test_each_message_arrives_once_in_the_other_cluster(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-2, BRIDGE-5, of BRIDGE-8: so many at most are in hand."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory(address_settings=SETTINGS)
    in_hand: list[int] = []
    with here.create_connection() as watcher, here.create_context() as sender, there.create_context() as receiver:
        elsewhere._world.cluster.faults.step = lambda producer, step: in_hand.append(
            watcher.statistics().of(IN.name).unacknowledged
        )
        sent(sender, range(200), units=5)
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), in_flight=20)
        assert bridge.guarantee is Guarantee.EXACTLY_ONCE
        bodies = received(receiver, 200)
        elsewhere._world.cluster.faults.step = None
    assert 1 < max(in_hand) <= 20  # on a busy machine a batch goes before it is full
    assert sorted(bodies) == list(range(200))
    assert in_order(bodies, 5)


@pytest.mark.parametrize("turn", range(3))
def test_nothing_is_lost_twice_or_out_of_order_when_commits_fail_on_both_sides(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, turn: int
) -> None:
    """BRIDGE-2, BRIDGE-5: nobody hears whether the target committed, and the source rolls back what it did."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    source, target = world._world.cluster.faults, elsewhere._world.cluster.faults
    of_target, of_source = count(turn), count(turn)
    faults = cycle((CommitFault.COMMITTED, CommitFault.NOT_HEARD, CommitFault.COMMITTED))

    def fail_target(producer: str, step: str) -> None:
        if step == "commit" and producer == "jbm.bridge.across" and next(of_target) % 3 == 0:
            target.commits.append(next(faults))

    def fail_source(producer: str, step: str) -> None:
        if step == "commit" and next(of_source) % 3 == 1:
            raise TransactionAborted(f"{producer}: a fault of the test")

    with here.create_context() as sender, there.create_context() as receiver:
        sent(sender, range(80), units=5)
        target.step, source.step = fail_target, fail_source
        bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), in_flight=8)
        bodies = received(receiver, 80)
        source.step = target.step = None
    assert next(of_target) > 9
    assert next(of_source) > 9
    assert sorted(bodies) == list(range(80))
    assert in_order(bodies, 5)


@pytest.mark.parametrize("has_id", [True, False])
def test_what_comes_again_is_known_also_while_nobody_may_send_to_its_source(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, has_id: bool
) -> None:
    """BRIDGE-2: it was sent again, for of a queue that is paused, or of which nothing was heard of late, no Kafka topic
    is known."""
    faults = elsewhere._world.cluster.faults
    is_sent, is_paused = threading.Event(), threading.Event()

    def note(record: Outgoing) -> None:
        if record.topic == OUT.name:
            is_sent.set()

    def fail_when_paused(producer: str, step: str) -> None:
        if step == "commit" and producer == "jbm.bridge.across" and is_sent.is_set() and not is_paused.is_set():
            assert is_paused.wait(SOON_S)
            faults.commits.append(CommitFault.COMMITTED)

    with world.factory().create_context() as sender, elsewhere.factory().create_context() as receiver:
        producer = sender.create_producer()
        producer.disable_message_id = not has_id
        producer.send(IN, "0")
        faults.refuse, faults.step = note, fail_when_paused
        bridge = bridged(BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT))
        assert is_sent.wait(SOON_S)
        with Admin(world.url) as admin:
            admin.pause(IN, "production")
        is_paused.set()
        assert received(receiver, 1) == [0]
        wait_until(lambda: bridge.statistics().arrived == 1, about=repr(bridge), timeout_s=SOON_S)
        faults.refuse = faults.step = None
        assert (bridge.statistics().came_again, bridge.statistics().failures) == (1, 1)


def test_a_commit_that_fails_at_the_source_counts_no_attempt(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-8: what was at the target became a dead letter, too."""
    once = {"#": AddressSettings(max_delivery_attempts=1, dead_letter_address="DLQ")}
    here, faults = world.factory(address_settings=once), world._world.cluster.faults

    def fail(producer: str, step: str) -> None:
        if step == "commit":
            raise TransactionAborted(f"{producer}: a fault of the test")

    with here.create_context() as sender, elsewhere.factory().create_context() as receiver:
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(elsewhere.factory(), OUT))
        sent(sender, range(1), units=1)
        wait_until(lambda: bridge.statistics().arrived == 1, about=repr(bridge), timeout_s=SOON_S)
        faults.step = fail
        sent(sender, range(1, 2), units=1)
        wait_until(lambda: bridge.statistics().failures > 0, about=repr(bridge), timeout_s=SOON_S)
        faults.step = None
        wait_until(lambda: bridge.statistics().arrived == 2, about=repr(bridge), timeout_s=SOON_S)
        assert received(receiver, 2) == [0, 1]
        assert list(sender.create_browser(Queue("DLQ"), include="all")) == []


def test_a_batch_that_takes_long_to_fill_goes_before_it_is_full(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BRIDGE-9: with 500 large bodies to be fetched and kept it took so long that two processes fenced each other for
    ever, and nothing arrived.
    """
    monkeypatch.setattr(recorded_progress, "BATCH_S", 0.0)
    faults = elsewhere._world.cluster.faults
    sizes = [0]

    def count_sent(record: Outgoing) -> None:
        sizes[-1] += record.topic == OUT.name

    def begin_one(producer: str, step: str) -> None:
        if step == "begin":
            sizes.append(0)

    with world.factory().create_context() as sender, elsewhere.factory().create_context() as receiver:
        sent(sender, range(20), units=5)
        faults.refuse, faults.step = count_sent, begin_one
        bridged(BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT))
        bodies = received(receiver, 20)
        faults.refuse = faults.step = None
    assert sorted(bodies) == list(range(20))
    assert max(sizes) == 1


def test_a_target_that_takes_little_in_time_gets_less_at_a_time(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-8: over a slow line, or within a quota, the same large transaction failed again and again."""
    here, there = world.factory(address_settings=SETTINGS), elsewhere.factory()
    faults = elsewhere._world.cluster.faults
    sizes = [0]

    def count_sent(record: Outgoing) -> None:
        sizes[-1] += record.topic == OUT.name

    def fail_large(producer: str, step: str) -> None:
        if step == "begin":
            sizes.append(0)
        elif step == "commit" and sizes[-1] > 16:
            raise TransactionAborted(f"{producer}: not in time")

    with here.create_context() as sender, there.create_context() as receiver:
        sent(sender, range(60), units=5)
        faults.refuse, faults.step = count_sent, fail_large
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT))
        bodies = received(receiver, 60)
        faults.refuse = faults.step = None
    assert sorted(bodies) == list(range(60)), bridge.health()
    assert in_order(bodies, 5)
    assert max(sizes) > 16


def test_a_failure_lets_no_more_go_than_the_rate_says(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """Of BRIDGE-8: each time that it began anew one more went."""
    faults = elsewhere._world.cluster.faults
    bridge = bridged(BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT), rate="1/h")
    with world.factory().create_context() as jms, elsewhere.factory().create_context() as there:
        producer = jms.create_producer()
        for number in range(2):
            producer.send(IN, str(number))
        consumer = there.create_consumer(OUT)
        assert (found := consumer.receive(SOON_S)) is not None
        assert found.body == "0"
        faults.denied = frozenset({"jbm.bridges"})
        elsewhere.clock.advance(SIGN_MS)
        wait_until(lambda: bridge.statistics().failures > 0, about=repr(bridge), timeout_s=SOON_S)
        faults.denied = frozenset()
        wait_until(lambda: bridge.trouble is None, about=repr(bridge), timeout_s=2 * SOON_S)
        assert consumer.receive(0.5) is None


def test_what_was_settled_is_forgotten(world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged) -> None:
    """Of BRIDGE-2: a bridge that is stopped leaves nothing to be read at its next start."""
    here, there = world.factory(), elsewhere.factory()
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), in_flight=7)
    with here.create_context() as sender, there.create_context() as receiver:
        sent(sender, range(30), units=3)
        received(receiver, 30)
        assert bridge.stop()
        kafka = MemoryKafka(elsewhere._world.cluster)
        log = RegistryLog(kafka, kafka.admin(), "jbm.bridges")
        log.refresh()
        assert log.values() == {}
        log.close()


def test_a_name_whose_records_would_not_be_found_is_refused(world: MemoryWorld, elsewhere: MemoryWorld) -> None:
    """Of BRIDGE-2: they were taken for those of writers that wait."""
    with pytest.raises(InvalidSettingError, match=r"'turn'.* any other name will do"):
        Bridge("turn", BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT))
