"""Goal: a private subscription gets all that is sent while it is there, and keeps what it still needs.

Method: whole sidecars, step by step, over a Kafka in memory; what a seed decides is compared with what was sent.
"""

from __future__ import annotations

import random
from collections import deque

import pytest

from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.registry.readers import private_readers
from jbm_kafka.sidecar.feeds import log_feed
from jbm_kafka.sidecar.private import private_subscriptions
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.sidecar.parts import link_of
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

NEWS = Topic("news")
TRUNCATED = {"address_settings": {"#": AddressSettings(partitions=2, truncate="settled")}}
LOOKS_MS = 45_000
"""Two looks of the truncator."""
LEASE_MS = 60_000


class Listener:
    """A private subscriber with a receiver."""

    def __init__(self, process: SteppedSidecar, name: str) -> None:
        self.process = process
        self.subscription = Subscription(NEWS, SubscriptionKind.PRIVATE, name)
        sources = process.sidecar.sources
        sources.subscribe(self.subscription)
        link = self.link = link_of(name)
        link.demand.is_waiting = True
        self.worker = link.group_worker = sources.attach(self.subscription, link)
        link.is_attached = True
        process.run(lambda: self.worker.is_settled)

    def take(self) -> list[Delivery]:
        """What is there, into the application's hand."""
        self.link.request(100)
        taken = []
        while (delivery := self.link.pop()) is not None:
            taken.append(delivery)
        return taken

    def acknowledge(self, delivery: Delivery) -> None:
        delivery.lease.acknowledge(delivery.offset)
        self.worker.wake()

    def close(self) -> None:
        self.link.leave()
        self.process.sidecar.sources.end_use(self.subscription)
        self.process.run(lambda: not self.worker.is_alive)


def send(process: SteppedSidecar, partition: int, *bodies: str, unit: bytes | None = None) -> None:
    with process.cluster.changed:
        for body in bodies:
            process.cluster.append(Outgoing(NEWS.name, partition, unit, body.encode()), None)


def body_of(delivery: Delivery) -> str:
    record = delivery.reference.record
    return (record.value() or b"").decode()  # type: ignore[attr-defined]


def gets(listener: Listener, count: int) -> list[Delivery]:
    found: list[Delivery] = []

    def has_all() -> bool:
        found.extend(listener.take())
        return len(found) >= count

    listener.process.run(has_all)
    return found


def begin(process: SteppedSidecar, partition: int = 0) -> int:
    with process.cluster.changed:
        return process.cluster.log(NEWS.name, partition).begin


def recorded(sidecar: Sidecar, now_ms: int) -> list[RegisteredReader]:
    registry = sidecar.destinations._registry
    registry.refresh()
    return private_readers(registry.values(), now_ms, topic=NEWS.name)


@pytest.fixture
def process() -> SteppedSidecar:
    return SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), numbers=TRUNCATED)


def test_a_slow_one_keeps_what_it_has_not_settled_and_holds_up_nobody(
    process: SteppedSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOPIC-1, LOG-4, LOG-9: what it cannot keep in memory it reads from the log, which is kept for it."""
    monkeypatch.setattr(private_subscriptions, "KEPT_BYTES_MIN", 2_000)
    monkeypatch.setattr(private_subscriptions, "KEPT_BYTES_MAX", 2_000)
    slow, fast = Listener(process, "slow"), Listener(process, "fast")
    held = gets_first(slow, process)
    texts = [f"{number:03}" for number in range(60)]
    send(process, 0, *texts)
    for delivery in gets(fast, 61):
        fast.acknowledge(delivery)
    process.run_for(LOOKS_MS)
    assert begin(process) == 0, "the slow one has the first in hand"
    slow.acknowledge(held)
    found = gets(slow, 60)
    assert [body_of(each) for each in found] == texts
    for delivery in found[:40]:
        slow.acknowledge(delivery)
    process.run_for(LOOKS_MS)
    assert begin(process) == 41
    slow.close()
    process.run_for(LOOKS_MS)
    assert begin(process) == 61
    fast.close()
    process.run_for(2_000)
    assert recorded(process.sidecar, process.clock.now_ms()) == []
    process.crash()


def gets_first(listener: Listener, process: SteppedSidecar) -> Delivery:
    send(process, 0, "first")
    [delivery] = gets(listener, 1)
    return delivery


def test_what_a_killed_process_held_is_kept_for_its_lease_and_no_longer() -> None:
    """LOG-4."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    killed = SteppedSidecar("killed", cluster, numbers=TRUNCATED)
    other = SteppedSidecar("other", cluster, numbers=TRUNCATED)
    other.sidecar.privates._process = "another"  # chance is the same for all of this world
    gets_first(Listener(killed, "lost"), killed)
    alive = Listener(other, "alive")
    send(other, 0, "second")
    [second] = gets(alive, 1)
    alive.acknowledge(second)
    killed.crash()
    other.run_for(LEASE_MS - 15_000)
    assert begin(other) == 0
    other.run_for(LEASE_MS)
    assert begin(other) == 2
    assert len(recorded(other.sidecar, other.clock.now_ms())) == 1
    other.crash()


def test_partitions_that_were_added_are_read_from_their_beginning(process: SteppedSidecar) -> None:
    """Of TOPIC-1: also by one that was made later, which begins where they end then."""
    first = Listener(process, "first")
    process.kafka.admin().add_partitions(NEWS.name, 3)
    send(process, 2, "unheard of")
    second = Listener(process, "second")
    send(process, 2, "heard of")
    assert [body_of(each) for each in gets(first, 2)] == ["unheard of", "heard of"]
    assert [body_of(each) for each in gets(second, 1)] == ["heard of"]
    process.crash()


def test_a_topic_that_was_made_anew_is_received_from_its_beginning(process: SteppedSidecar) -> None:
    """LOG-2: as by every other receiver."""
    listener = Listener(process, "one")
    send(process, 0, *"abc")
    for delivery in gets(listener, 3):
        listener.acknowledge(delivery)
    admin = process.kafka.admin()
    admin.delete_topics([NEWS.name])
    admin.create_topic(NEWS.name, partitions=2, config={})
    send(process, 1, "new")
    assert [body_of(each) for each in gets(listener, 1)] == ["new"]
    process.crash()


@pytest.mark.parametrize("seed", range(8))
def test_each_gets_everything_of_its_time_with_units_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOPIC-1, UNIT-12: whatever is read from memory, from the log or again, and whoever comes and goes."""
    chance = random.Random(seed)
    monkeypatch.setattr(private_subscriptions, "KEPT_BYTES_MIN", 1_600)
    monkeypatch.setattr(private_subscriptions, "KEPT_BYTES_MAX", 1_600)
    monkeypatch.setattr(log_feed, "CHUNK_MIN", 2)
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), numbers=TRUNCATED)
    process.sidecar.destinations.ensure(NEWS)
    listeners: dict[Listener, dict[str, deque[str]]] = {}
    """What each still has to get, by unit."""
    made = sent = 0
    for _ in range(120):
        act = chance.random()
        if act < 0.15 and len(listeners) < 4:
            made += 1
            listeners[Listener(process, f"l{made}")] = {}
        elif act < 0.25 and listeners:
            leaving = chance.choice(list(listeners))
            del listeners[leaving]
            leaving.close()
        elif act < 0.6:
            unit = chance.choice("abc")
            for _ in range(chance.randrange(1, 6)):
                sent += 1
                send(process, ord(unit) % 2, f"{unit}{sent}", unit=unit.encode())
                for owed in listeners.values():
                    owed.setdefault(unit, deque()).append(f"{unit}{sent}")
        elif act < 0.7:
            process.run_for(chance.randrange(5, 2_000))
        else:
            for listener, owed in listeners.items():
                takes_some(listener, owed, chance)
    for listener, owed in listeners.items():
        process.run(lambda listener=listener, owed=owed: not takes_some(listener, owed, None))  # type: ignore[misc]
    process.crash()


def takes_some(listener: Listener, owed: dict[str, deque[str]], chance: random.Random | None) -> bool:
    """Receive what is there, and settle or return it; True: more has to come."""
    listener.link.request(100)
    while (delivery := listener.link.pop()) is not None:
        body = body_of(delivery)
        assert body == owed[body[0]][0], f"{listener.subscription}: {body}, not {owed[body[0]]}"
        if chance is not None and chance.random() < 0.3:
            returned = Modified(delivery.offset, counted=True, delay_ms=chance.choice([0, 500]))
            listener.link.give_back([(delivery, returned)])
            listener.worker.wake()
            continue
        owed[body[0]].popleft()
        listener.acknowledge(delivery)
    listener.worker.wake()
    return any(owed.values())
