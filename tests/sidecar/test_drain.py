"""A rebalance waits for handlers: what a group worker does meanwhile, and what it does when they take too long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.owned_channel import owned
from tests.sidecar.stepped import Start
from tests.support.manual_clock import ManualClock

DRAIN_MS = 30_000


@pytest.fixture
def partitions() -> int:
    return 2


class Worker:
    """One process with one receiver."""

    def __init__(self, start: Start, name: str, **options: object) -> None:
        self.process = start(name, **options)
        self.link: Link = self.process.attach(name)
        self.told: list[Exception] = []
        self.link.notices.on_trouble = self.told.append

    def get(self, count: int) -> list[Delivery]:
        """So many messages into the application's hand."""
        self.link.demand.credit = count
        self.process.run(lambda: len(self.link.buffer) >= count)
        return [delivery for delivery in (self.link.pop() for _ in range(count)) if delivery is not None]

    @property
    def partitions(self) -> set[int]:
        """Open here."""
        return set(self.process.group_worker.data.channels)


class Meanwhile:
    """What others do while a group worker drains, in the middle of one of its steps."""

    def __init__(self, clock: ManualClock) -> None:
        self._acts: list[tuple[Callable[[], bool], Callable[[], object]]] = []
        clock.watch(self._look)

    def when(self, holds: Callable[[], bool], act: Callable[[], object]) -> None:
        """Do it once, as soon as that holds."""
        self._acts.append((holds, act))

    def _look(self) -> None:
        for row in list(self._acts):
            holds, act = row
            if holds():
                self._acts.remove(row)
                act()


def busy_in_both_partitions(start: Start, **options: object) -> tuple[Worker, dict[int, Delivery]]:
    """A worker alone with the queue, with one message of each partition in hand, by partition."""
    one = Worker(start, "one", **options)
    one.process.run(lambda: one.partitions == {0, 1})
    for partition in (0, 1):
        one.process.send(f"m{partition}", unit=b"joe", partition=partition)
    return one, {delivery.place[0]: delivery for delivery in one.get(2)}


def going(worker: Worker) -> list[int]:
    """The partitions it is about to give up."""
    return [partition for partition, channel in worker.process.group_worker.data.channels.items() if channel.is_closing]


def join(start: Start, name: str, **options: object) -> Worker:
    """A second worker, of which the first has not heard yet."""
    worker = Worker(start, name, **options)
    worker.process.run_for(50)
    return worker


def test_a_scale_out_beside_a_long_handler_takes_nothing_from_it(cluster: MemoryCluster, start: Start) -> None:
    """UNIT-2: it is waited for; nothing is refused, and nobody else gets the message or the next of its unit."""
    one, held = busy_in_both_partitions(start)
    two = join(start, "two")
    begun_ms = cluster.clock.monotonic_ms()
    meanwhile = Meanwhile(one.process.clock)
    is_done = lambda: cluster.clock.monotonic_ms() >= begun_ms + 14_000  # noqa: E731
    meanwhile.when(is_done, lambda: [delivery.lease.acknowledge(delivery.offset) for delivery in held.values()])
    one.process.run(lambda: len(one.partitions) == 1)
    assert 14_000 <= cluster.clock.monotonic_ms() - begun_ms < 15_000
    two.process.run(lambda: len(two.partitions) == 1)
    [moved] = two.partitions
    two.process.send("next", unit=b"joe", partition=moved)
    assert [delivery.offset for delivery in two.get(1)] == [1]
    assert not one.told


def test_a_channel_that_is_lost_while_it_is_given_up_is_not_opened_again(start: Start) -> None:
    """LOG-6: the next owner recovers it; whoever gives it up would write beside him."""
    one, held = busy_in_both_partitions(start)
    two = join(start, "two")
    meanwhile = Meanwhile(one.process.clock)
    assignment = one.process.group_worker.assignment

    def lose() -> None:
        [partition] = going(one)
        assignment.reopen(one.process.group_worker.data.channels[partition])

    meanwhile.when(lambda: bool(going(one)), lose)
    one.process.run(lambda: len(one.partitions) == 1)
    [kept] = one.partitions
    two.process.run(lambda: two.partitions == {1 - kept})
    one.process.run_for(2_000)
    assert one.partitions == {kept}
    held[kept].lease.acknowledge(held[kept].offset)


def test_what_is_in_hand_longer_than_the_drain_is_taken_and_told_once(cluster: MemoryCluster, start: Start) -> None:
    """Of REDELIVER-1: at once, to the exception listener; it comes again marked and counts as no attempt."""
    settings = AddressSettings(max_delivery_attempts=1)
    one, held = busy_in_both_partitions(start, settings=settings)
    two = join(start, "two", settings=settings)
    begun_ms = cluster.clock.monotonic_ms()
    one.process.run(lambda: bool(one.told))
    assert DRAIN_MS <= cluster.clock.monotonic_ms() - begun_ms < DRAIN_MS + 500
    one.process.run(lambda: len(one.partitions) == 1)
    two.process.run(lambda: len(two.partitions) == 1)
    [moved] = two.partitions
    [taken] = one.told
    assert isinstance(taken, JMSError)
    place = {"topic": "orders", "partition": moved, "offsets": (0,)}
    assert taken.values == {**place, "message_ids": (f"ID:kafka:orders:{moved}:0",)}
    [again] = two.get(1)
    assert (again.offset, again.count.redelivered, again.count.attempts) == (0, True, 0)
    assert held[moved].lease.acknowledge(0) == [0]
    assert not held[1 - moved].lease.acknowledge(0)


def test_what_nobody_has_read_yet_delays_no_rebalance(cluster: MemoryCluster, start: Start) -> None:
    """CONN-1: a receiver that pauses with a full buffer would hold the group up for the whole drain."""
    one = Worker(start, "one")
    one.process.run(lambda: one.partitions == {0, 1})
    for partition in (0, 1):
        one.process.send("unread", partition=partition)
    one.link.demand.credit = 2
    one.process.run(lambda: len(one.link.buffer) == 2)
    two = join(start, "two")
    begun_ms = cluster.clock.monotonic_ms()
    one.process.run(lambda: len(one.partitions) == 1)
    assert cluster.clock.monotonic_ms() - begun_ms < 1_000
    [again] = two.get(1)
    assert (again.offset, again.count.redelivered) == (0, False)


def test_while_a_rebalance_waits_the_other_partitions_are_served(cluster: MemoryCluster, start: Start) -> None:
    """All but reading goes on: hand-over, delays, checkpoints."""
    one = Worker(start, "one", settings=AddressSettings(redelivery_delay_ms=1_000))
    one.process.run(lambda: one.partitions == {0, 1})
    for partition in (0, 1):
        one.process.send(*(f"m{partition}.{number}" for number in range(5)), partition=partition)
    in_hand = {delivery.place: delivery for delivery in one.get(2)}
    one.process.run(
        lambda: all(channel.state.read_position == 5 for channel in one.process.group_worker.data.channels.values())
    )
    join(start, "two")
    seen: list[tuple[int, int]] = []

    def work() -> None:
        if not going(one):
            return
        one.link.demand.credit = max(one.link.demand.credit, 1)
        while (delivery := one.link.pop()) is not None:
            seen.append(delivery.place)
            if delivery.offset == 4 and seen.count(delivery.place) == 1:
                one.link.give_back([(delivery, Modified(delivery.offset, counted=True))])
            else:
                delivery.lease.acknowledge(delivery.offset)
        for place, delivery in list(in_hand.items()):
            if place[0] not in going(one):
                in_hand.pop(place).lease.acknowledge(delivery.offset)

    one.process.clock.watch(work)
    served_ms: list[int] = []
    channels = dict(one.process.group_worker.data.channels)
    is_served = lambda: any(c.state.watermark == 5 and not c.needs_checkpoint for c in channels.values())  # noqa: E731
    Meanwhile(one.process.clock).when(is_served, lambda: served_ms.append(cluster.clock.monotonic_ms()))
    begun_ms = cluster.clock.monotonic_ms()
    one.process.run(lambda: len(one.partitions) == 1)
    assert cluster.clock.monotonic_ms() - begun_ms >= DRAIN_MS
    assert 1_000 <= served_ms[0] - begun_ms < 10_000
    [kept] = one.partitions
    assert seen == [(kept, offset) for offset in (1, 2, 3, 4, 4)]


def test_while_a_rebalance_waits_a_dead_letter_of_a_partition_that_stays_leaves(
    cluster: MemoryCluster, start: Start
) -> None:
    """Copies go on, too: a message that failed for the last time is in its DLQ long before the drain ends."""
    one, held = busy_in_both_partitions(start, settings=AddressSettings(max_delivery_attempts=1))
    join(start, "two")
    left_ms: list[int] = []

    def fail_what_stays() -> None:
        [delivery] = (delivery for partition, delivery in held.items() if partition not in going(one))
        one.link.give_back([(delivery, Modified(delivery.offset, counted=True))])

    def has_letter() -> bool:
        return "DLQ" in cluster.topics and any(log.stable_end for log in cluster.topics["DLQ"].logs)

    meanwhile = Meanwhile(one.process.clock)
    meanwhile.when(lambda: bool(going(one)), fail_what_stays)
    meanwhile.when(has_letter, lambda: left_ms.append(cluster.clock.monotonic_ms()))
    begun_ms = cluster.clock.monotonic_ms()
    one.process.run(lambda: len(one.partitions) == 1)
    assert cluster.clock.monotonic_ms() - begun_ms >= DRAIN_MS
    assert left_ms[0] - begun_ms < 5_000


def test_a_process_that_ends_in_the_middle_of_a_drain_waits_no_longer_than_it_would_without(
    cluster: MemoryCluster, start: Start
) -> None:
    """Who closes has done with its messages, and stops in two seconds whatever others wait for."""
    one, _ = busy_in_both_partitions(start)
    join(start, "two")
    group_worker = one.process.group_worker
    stopped_ms: list[int] = []

    def stop() -> None:
        stopped_ms.append(cluster.clock.monotonic_ms())
        group_worker.stop()

    Meanwhile(one.process.clock).when(lambda: bool(going(one)), stop)
    one.process.run(lambda: not group_worker.is_alive)
    assert 2_000 <= cluster.clock.monotonic_ms() - stopped_ms[0] < 6_000


def test_an_acknowledgement_said_while_its_partition_goes_is_never_dropped_untold(start: Start) -> None:
    """Of ACK-9: its session has looked, then the group worker looks for the last time, then the session says it."""
    one, held = busy_in_both_partitions(start)
    lease = held[0].lease
    assert not lease.is_revoked
    one.process.group_worker.assignment.drop(owned(lease))
    assert lease.acknowledge(0) == [0], "told to nobody"
    assert not lease.acked


def test_an_acknowledgement_said_while_its_message_is_taken_is_told_once(start: Start) -> None:
    """Of ACK-9: the session hears that the message is taken, and says in the same moment that it is done."""
    one, held = busy_in_both_partitions(start)
    lease = held[0].lease

    def hear(error: Exception) -> None:
        one.told.append(error)
        lease.acknowledge(0)

    one.link.notices.on_trouble = hear
    one.process.group_worker.assignment.drop(owned(lease))
    [taken] = one.told
    assert isinstance(taken, JMSError)
    assert "taken" in str(taken)
    assert not lease.acked


def test_an_acknowledgement_beside_the_end_of_its_session_is_told_to_be_refused(start: Start) -> None:
    """Of ACK-9: another thread may still say it."""
    one, held = busy_in_both_partitions(start)
    group_worker = one.process.group_worker
    group_worker.detach(one.link.terms.link_id)
    one.process.run(lambda: not group_worker.data.links)
    assert held[0].lease.acknowledge(0) == [0]


def test_an_acknowledgement_just_before_the_drain_ends_is_recorded(start: Start) -> None:
    """Of ACK-9: taken with what is in hand, it would be redelivered though nobody was told."""
    one, held = busy_in_both_partitions(start)
    lease = held[0].lease
    lease.acknowledge(0)
    one.process.group_worker.settle.take_from_sessions(owned(lease))
    assert owned(lease).state.watermark == 1
    assert not one.told
