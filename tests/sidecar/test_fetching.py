"""How much a group worker reads, and when: what is asked for; ahead of that only while nobody asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY
from jbm_kafka.core.channel.offered_target import OfferedLimits
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.tuning import ENOUGH_AHEAD, FETCH_COUNT_MAX, FETCH_COUNT_MIN, FETCH_PAUSE_MS
from tests.sidecar.parts import channel_of, link_of
from tests.sidecar.stepped import CHECKPOINTS, QUEUE, SteppedSidecar
from tests.simulation.workers import SteppedWorker
from tests.support.manual_clock import ManualClock

FAR_AHEAD = OfferedLimits(16_384)
"""Hand-over waits for no mark."""


@pytest.fixture
def one() -> Iterator[SteppedSidecar]:
    one = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), numbers={"offered_limits": FAR_AHEAD})
    yield one
    one.crash()


def attached_to_a_backlog(one: SteppedSidecar) -> Link:
    """A receiver that has taken a first message of many, and asks for no more."""
    link = one.attach("s")
    one.run(lambda: one.group_worker.is_settled)
    one.send(*map(str, range(6_000)))
    one.receive(link, 1)
    return link


def ask(link: Link, count: int) -> None:
    with link.lock:
        link.request(count)


def group_worker_worker(one: SteppedSidecar) -> SteppedWorker:
    (worker,) = [worker for worker in one.workers.all if worker.name.startswith("jbm-group-")]
    return worker


def test_nobody_asks_so_it_reads_on_until_it_has_enough(one: SteppedSidecar) -> None:
    """Of SEND-7: the highest priority of many, for receivers that take one at a time."""
    attached_to_a_backlog(one)
    fetching, clock = one.group_worker.turn.fetching, one.group_worker.data.clock
    begun_at_ms, ahead = clock.monotonic_ms(), fetching.ahead()
    one.run(lambda: fetching.ahead() >= ENOUGH_AHEAD)
    assert fetching.ahead() < ENOUGH_AHEAD + FETCH_COUNT_MIN
    portions = (ENOUGH_AHEAD - ahead) // FETCH_COUNT_MIN
    assert portions > 1
    assert clock.monotonic_ms() - begun_at_ms < FETCH_PAUSE_MS, "portions follow each other without one"
    enough = fetching.ahead()
    one.run(lambda: clock.monotonic_ms() - begun_at_ms > 3 * FETCH_PAUSE_MS)
    assert fetching.ahead() > enough, "for the group's rebalances are told inside a fetch"


def test_somebody_asks_so_no_more_is_read_than_what_he_needs(one: SteppedSidecar) -> None:
    link = attached_to_a_backlog(one)
    one.run(lambda: 0 < one.group_worker.turn.fetching.ahead() < ENOUGH_AHEAD)
    ahead = one.group_worker.turn.fetching.ahead()
    ask(link, 10)
    group_worker_worker(one).step()
    assert len(link.take_unread()) == 10
    assert one.group_worker.turn.fetching.ahead() == ahead - 10


def test_what_is_asked_for_is_read_in_one_turn_and_handed_over(one: SteppedSidecar) -> None:
    link = attached_to_a_backlog(one)
    one.run(lambda: one.group_worker.turn.fetching.ahead() >= ENOUGH_AHEAD)
    for count in (one.group_worker.turn.fetching.ahead(), 900, 900):
        ask(link, count)
        group_worker_worker(one).step()
        assert one.group_worker.turn.fetching.ahead() == 0
        assert len(link.take_unread()) == count
    ask(link, 2 * FETCH_COUNT_MAX)
    group_worker_worker(one).step()
    assert len(link.buffer) == FETCH_COUNT_MAX


def test_who_has_got_all_he_asked_for_is_waited_for_where_he_can_wake_the_group_worker(one: SteppedSidecar) -> None:
    """In the consumer nobody can, and what would be read there now is not for him yet."""
    link = attached_to_a_backlog(one)
    one.run(lambda: one.group_worker.turn.fetching.ahead() >= ENOUGH_AHEAD)
    group_worker = group_worker_worker(one)
    for more in (0, FETCH_COUNT_MIN):  # read before, and read for him
        ask(link, one.group_worker.turn.fetching.ahead() + more)
        group_worker.step()
        assert link.demand.credit == one.group_worker.turn.fetching.ahead() == 0
        assert not group_worker.is_ready
        link.take_unread()
    ask(link, 1)
    assert group_worker.is_ready


def test_while_all_who_received_work_on_that_a_commit_wakes_the_group_worker(one: SteppedSidecar) -> None:
    """Asleep in the consumer it would freeze a commit up to 4 ms late; who waits for a message wakes it likewise."""
    link = one.attach("s")
    one.run(lambda: one.group_worker.is_settled)
    one.send("the only one")
    one.receive(link, 1)
    link.demand.is_waiting = False
    ask(link, 5)  # ahead; it works on what it has
    group_worker = group_worker_worker(one)
    one.run(lambda: not group_worker.is_ready)
    one.group_worker.post(lambda: None)
    assert group_worker.is_ready
    one.run(lambda: not group_worker.is_ready)
    link.begin_wait()
    assert group_worker.is_ready
    group_worker.step()
    assert group_worker.is_ready, "now what may come is waited for, in the consumer"


def test_the_remainder_of_a_portion_is_asked_for_together_with_the_next() -> None:
    """Of ACK-8: by what is in the buffer and what is still to come, so never more than the prefetch."""
    link = link_of("s")
    lease = PartitionLease(channel_of(ChannelState()), session_id="s", notify=link.notices.notify)
    ask(link, 1_000)
    assert not link.runs_low(250), "all of it is still to come"
    link.put([Delivery(lease, Reference(offset, None), FIRST_DELIVERY) for offset in range(999)])
    assert not link.runs_low(250)
    for _ in range(750):
        link.pop()
    assert (len(link.buffer), link.demand.credit) == (249, 1)
    assert link.runs_low(250)
    assert not link.runs_low(249)


def test_what_comes_when_it_is_durable_is_waited_for() -> None:
    """Of ACK-8: it is in no buffer yet, and `wanted` no longer counts it."""
    link = link_of("s")
    lease = PartitionLease(channel_of(ChannelState()), session_id="s", notify=link.notices.notify)
    ask(link, 1)
    coming = [Delivery(lease, Reference(0, None), FIRST_DELIVERY)]
    link.announce(coming)
    assert not link.runs_low(0)
    link.arrive(coming)
    link.pop()
    assert link.runs_low(0)


def test_what_was_fetched_before_a_seek_took_effect_is_not_taken_in_again(one: SteppedSidecar) -> None:
    """Of LOG-2: the channel reads on from its own position, whatever the client had on its way."""
    link = one.attach("s")
    one.send("a", "b")
    assert one.receive(link, 2) == [0, 1]
    records, _ = one.cluster.log(QUEUE.kafka_topic(""), 0).read(0, 10, committed_only=True)
    one.send("c")
    late, _ = one.cluster.log(QUEUE.kafka_topic(""), 0).read(1, 10, committed_only=True)
    state = one.group_worker.data.channels[0].state
    for fetched in (records, late):
        one.group_worker.turn.fetching._take_in(fetched)
    assert state.read_position == 3
    assert one.receive(link, 1) == [2]


def test_behind_markers_and_aborted_records_a_groups_lag_stayed_for_ever(one: SteppedSidecar) -> None:
    """Of LOG-2: the committed offset is the stable end where all below it is settled; one checkpoint moves it there."""
    link = one.attach("s")
    log, group = one.cluster.log(QUEUE.kafka_topic(""), 0), one.group_worker.data.group
    committed = one.cluster.group(group.group_id).committed
    other = one.kafka.transactional_producer("other", transaction_timeout_ms=60_000)
    other.initialise(1)
    for body, ends in ((b"kept", other.commit), (b"undone", other.abort)):
        other.begin()
        other.produce(Outgoing(group.topic, 0, None, body))
        one.run_for(500)
        ends(1)
    assert one.receive(link, 1) == [0]
    one.run_for(500)
    assert committed[group.topic, 0].position == 0, "the first is not settled"
    link.settlement.leases[0].acked.append(0)
    one.run(lambda: committed[group.topic, 0].position == log.stable_end == 4)
    checkpoints = one.sidecar.checkpointer.checkpoints
    one.run_for(10_000)
    assert one.sidecar.checkpointer.checkpoints == checkpoints
    one.send("new")
    assert one.receive(link, 1) == [4]


def test_a_backlog_waits_for_a_few_checkpoints_however_long_they_take() -> None:
    """Their time counted as the receivers': with over 250 ms each handed over 16 messages of a partition, for ever."""
    one = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), partitions=4)
    link = one.attach("s")
    one.run(lambda: one.group_worker.is_settled)
    for partition in range(4):
        one.send(*map(str, range(1_500)), partition=partition)
    ask(link, 6_000)
    checkpoints, recorded = 0, list[int]()
    while len(link.buffer) < 6_000:
        assert checkpoints < 8, f"{len(link.buffer)} messages after so many checkpoints"
        one.held.add(CHECKPOINTS)
        one.run_for(300)
        one.held.clear()
        one.run(lambda before=recorded: marks(one) != before)  # type: ignore[misc]
        checkpoints, recorded = checkpoints + 1, marks(one)
    one.crash()


def marks(one: SteppedSidecar) -> list[int]:
    return [channel.state.offered_position for channel in one.group_worker.data.channels.values()]


def test_of_a_slow_receiver_a_few_messages_are_in_doubt_after_a_crash() -> None:
    """REDELIVER-1: he has one a second, and what he has not had comes as new."""
    one = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    link = one.attach("s")
    one.run(lambda: one.group_worker.is_settled)
    one.send(*map(str, range(100)))
    for count in range(1, 61):
        one.receive(link, 1)
        one.run_for(1_000)
        assert max(marks(one)) <= count + 16
    one.crash()
