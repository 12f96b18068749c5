"""What keeps partitions from being admitted, and that nothing has changed then: too many units, a hidden part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest

from jbm_kafka.admin import partition_admission
from jbm_kafka.admin.partition_admission import PATHS_MAX, DestinationInUse, PathsEnded, admit, end_paths
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.channel.unit_places import Path, UnitPlaces
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.unit_paths import LEASE_S
from tests.support.manual_clock import ManualClock
from tests.support.store_parts import MadeRecord

ORDERS = Queue("orders")
BEFORE, AFTER = 1, 2
ANEW = "anew"


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

    def admit(self, partitions: int = AFTER, *, added: Callable[[], None] = lambda: None) -> tuple[int, int]:
        """`added` is called when the topic has them, and the units are not routed by them yet."""

        def add(count: int) -> None:
            self._add(count)
            added()

        return admit(self.in_use(), partitions, add=add, others=(), force=False, wait_s=0)

    def admit_anew(self) -> None:
        """Somebody else, who has just read the registry, takes back what has begun and begins again."""
        places = self.one_more_read().places
        places.change("orders", self.topic_id, lambda found: found.given_up(found.admission).admitting(AFTER, ANEW))

    def one_more_read(self) -> Registry:
        """As one that has read all there is."""
        made = self.one_more()
        made.refresh()
        return made

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


def test_a_run_that_was_overtaken_does_not_end_the_admission_of_who_overtook_it(world: World) -> None:
    """Of UNIT-11: it had read what is held before the other's wait began, and would move a unit that came since."""
    unit = next(moving())

    def overtaken() -> None:
        world.admit_anew()
        world.held.append(unit)

    with pytest.raises(IllegalStateError, match=r"somebody else has admitted .* meanwhile, 1 of them, or has begun to"):
        world.admit(added=overtaken)
    assert world.in_use().now() == UnitPlaces(BEFORE, AFTER, ANEW)
    assert world.admit() == (BEFORE, AFTER)
    assert world.in_use().now().partition(unit) == 0


def test_a_run_that_is_refused_after_it_was_overtaken_leaves_the_others_admission_alone(world: World) -> None:
    """Of UNIT-11: who overtook it was told that others had ended his."""

    def overtaken() -> None:
        world.admit_anew()
        raise IllegalStateError("the cluster has no room for one more")

    with pytest.raises(IllegalStateError, match="no room"):
        world.admit(added=overtaken)
    assert world.in_use().now() == UnitPlaces(BEFORE, AFTER, ANEW)


def test_who_takes_an_admission_back_takes_back_the_one_that_he_has_seen(world: World) -> None:
    """Of UNIT-11: not one that has begun since."""
    world.in_use().change(lambda places: places.admitting(AFTER, "seen"))
    world.admit_anew()
    assert world.admit(BEFORE) == (BEFORE, BEFORE)
    assert world.in_use().now() == UnitPlaces(BEFORE, AFTER, ANEW)
    assert world.admit(BEFORE) == (BEFORE, BEFORE)
    assert world.in_use().now() == UnitPlaces(BEFORE)


def test_an_admission_and_the_paths_of_a_deleted_topic_are_not_taken_for_its_successors(world: World) -> None:
    """Of UNIT-11: its units would go to partitions that another topic of that name had."""
    unit = next(moving())
    world.in_use().change(lambda places: places.admitting(AFTER, "old").claimed([unit]))
    world.kafka.admin().delete_topics(["orders"])
    world.cluster.create_topic("orders", AFTER, {})
    found = world.in_use().found
    assert found.topic_id != world.topic_id
    old = world.registry.places.of("orders", world.topic_id)
    assert old == UnitPlaces(BEFORE, AFTER, "old", {unit: Path(0)})
    assert world.registry.places.of("orders", found.topic_id) is None
    world.registry.ensure("orders", found.topic_id, AFTER)
    assert world.in_use().now() == UnitPlaces(AFTER)
