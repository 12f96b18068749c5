"""What keeps partitions from being admitted, and that nothing has changed then: too many units, a hidden part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from jbm_kafka.admin import partition_admission
from jbm_kafka.admin.partition_admission import PATHS_MAX, DestinationInUse, PathsEnded, admit, end_paths
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.states import MessageState
from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.provider import Seen
from jbm_kafka.sidecar.places import LEASE_S
from jbm_kafka.sidecar.registry import Registry
from tests.support.manual_clock import ManualClock
from tests.support.store_parts import MadeRecord

ORDERS = Queue("orders")
BEFORE, AFTER = 1, 2


def moving() -> Iterator[bytes]:
    """Units that another partition moves: half of all that there are."""
    units = (b"u%d" % n for n in range(1_000_000))
    return (unit for unit in units if partition_for(unit, AFTER) != partition_for(unit, BEFORE))


def seen(units: Iterable[bytes]) -> Iterator[Seen]:
    for offset, unit in enumerate(units):
        yield Seen(MadeRecord(offset, key=unit), MessageState.NEW, 0, 0, True)


class World:
    """One queue in memory, and what it holds as the test says."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        self.kafka = MemoryKafka(self.cluster)
        self.cluster.create_topic("orders", BEFORE, {})
        self.registry = self.one_more()
        self.topic_id = self.kafka.admin().describe(["orders"])["orders"].topic_id
        self.registry.ensure("orders", self.topic_id, BEFORE)
        self.held: list[bytes] = []
        self.added: list[int] = []

    def one_more(self) -> Registry:
        """As one more process has it."""
        kafka = MemoryKafka(self.cluster)
        return Registry(kafka, kafka.admin(), "jbm.registry", clock=self.clock)

    def in_use(self) -> DestinationInUse:
        found = self.kafka.admin().describe(["orders"])["orders"]
        return DestinationInUse(ORDERS, found, self.registry.places, self.kafka.admin(), lambda: seen(self.held))

    def admit(self) -> tuple[int, int]:
        return admit(self.in_use(), AFTER, add=self._add, others=(), force=False, wait_s=0)

    def _add(self, partitions: int) -> None:
        self.added.append(partitions)
        self.cluster.add_partitions("orders", partitions)


@pytest.fixture
def world() -> World:
    return World()


def test_so_many_units_that_nobody_would_keep_their_paths_in_memory_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of UNIT-11: one more than 100,000; nothing has changed, and of a smaller limit one less is admitted."""
    world.held = list(islice(moving(), PATHS_MAX + 1))
    with pytest.raises(IllegalStateError, match=r"100001 units that 2 partitions would move, and at most 100000") as no:
        world.admit()
    assert no.value.values["units"] == PATHS_MAX + 1
    assert (world.in_use().now(), world.added) == (UnitPlaces(BEFORE), [])
    monkeypatch.setattr(partition_admission, "PATHS_MAX", 3)
    for count, is_admitted in ((4, False), (3, True)):
        world.held = list(islice(moving(), count))
        if is_admitted:
            assert world.admit() == (BEFORE, AFTER)
            assert world.in_use().now().paths.keys() == set(world.held)
        else:
            with pytest.raises(IllegalStateError, match="at most 3 can keep"):
                world.admit()


def test_an_open_transaction_keeps_partitions_from_being_admitted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of UNIT-11: it may hold units that nobody sees; nothing has changed, and when it has ended they are admitted."""
    monkeypatch.setattr(partition_admission, "OPEN_TRANSACTION_S", 0.0)
    hidden = next(moving())
    foreign = MemoryKafka(world.cluster).transactional_producer("foreign", transaction_timeout_ms=60_000)
    foreign.initialise(1.0)
    foreign.begin()
    foreign.produce(Outgoing("orders", 0, hidden, b""))
    said = r"an open transaction hides what is in partition 0 from offset 0 on.* kafka-transactions\.sh"
    with pytest.raises(IllegalStateError, match=said):
        world.admit()
    assert (world.in_use().now(), world.added) == (UnitPlaces(BEFORE), [])
    foreign.commit(1.0)
    world.held = [hidden]
    assert world.admit() == (BEFORE, AFTER)
    assert dict(world.in_use().now().paths).keys() == {hidden}
    foreign.begin()
    foreign.produce(Outgoing("orders", 0, hidden, b""))
    world.held = []
    with pytest.raises(IllegalStateError, match="an open transaction hides"):
        end_paths(world.in_use(), wait_s=0)
    assert world.in_use().now().paths[hidden].ending == ""
    foreign.abort(1.0)
    assert end_paths(world.in_use(), wait_s=0) == PathsEnded(1, 0)


def test_who_has_not_read_the_registry_for_longer_than_his_lease_routes_nothing_by_it(world: World) -> None:
    """Of UNIT-11: an admission that began meanwhile moves no unit that he sends to."""
    sender, unit = world.one_more(), next(moving())
    sender.refresh()
    places = sender.places
    assert places.claimed("orders", world.topic_id, unit) == 0
    world.in_use().change(lambda before: before.admitting(AFTER, "m"))
    world.clock.advance(int(LEASE_S * 1000))
    assert not places.is_stale
    assert places.claimed("orders", world.topic_id, unit) == 0  # what is on its way the admission waits for
    assert world.in_use().now().paths == {}
    world.clock.advance(1)
    assert places.is_stale
    assert places.claimed("orders", world.topic_id, unit) == 0
    world.registry.refresh()
    assert world.in_use().now().paths.keys() == {unit}, "it was not claimed, and the admission moves it"
    assert not places.is_stale
