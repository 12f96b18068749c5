"""What a group worker keeps in memory, and what it does when that is too much."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.changes import Acknowledged, Fetched, OfferedRaised, Returned, ReturnedMessage, TimePassed
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.redelivery_states import RETURNED
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import ChannelLost, ResourceAllocationError
from jbm_kafka.core.settings.address_settings import AddressSettingsRepository
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.channel.channel_opener import ChannelOpener
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar
from jbm_kafka.sidecar.stages.flow import Flow
from tests.sidecar.parts import channel_of, group_worker_of, link_of
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock
from tests.support.store_parts import MadeRecord

NOW_MS = 1_000
LATER_MS = 60_000
BODY = b"x" * 1_000


class FailingStore(MemoryHeldStore):
    """A disk that is full, or cannot be read, while the test says so."""

    is_full = False
    is_unreadable = False

    def put(self, channel: str, rows: Sequence[tuple[bytes, int, KafkaRecord]]) -> None:
        super().put(channel, rows[: len(rows) // 2] if self.is_full else rows)
        if self.is_full:
            raise ResourceAllocationError("waiting messages cannot be kept in /state: disk full; make room")

    def take(self, channel: str, gate: bytes, count_max: int) -> Sequence[KafkaRecord]:
        if self.is_unreadable:
            raise ChannelLost(f"held messages of {channel} in /state cannot be taken: i/o error")
        return super().take(channel, gate, count_max)

    def read(self, channel: str, gate: bytes, begin: int, count_max: int) -> Sequence[KafkaRecord]:
        if self.is_unreadable:
            raise ChannelLost(f"held messages of {channel} in /state cannot be read: i/o error")
        return super().read(channel, gate, begin, count_max)


class GroupWorkerUnderTest:
    """One channel whose messages come from the test, with the flow of a group worker that has this budget."""

    def __init__(self, budget_bytes: int, opener: ChannelOpener | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.state = ChannelState()
        self.state.apply(TimePassed(NOW_MS))
        self.state.apply(OfferedRaised(1 << 40))
        self.channel = channel_of(self.state)
        self.channel.memory.mean_body_bytes = len(BODY)
        self.store = FailingStore()
        self.flow = Flow(self.store, share_bytes=lambda: self.budget_bytes)
        self.group_worker = group_worker_of(self.channel, flow=self.flow, opener=opener)
        self.consumer = MemoryKafka(MemoryCluster(ManualClock(), waits=False)).group_consumer(
            group="g",
            topic="orders",
            partitions=1,
            listener=self.group_worker.assignment,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=300_000,
            memory_bytes=1 << 20,
        )

    def fetch(self, count: int, unit: str | None, delivery_ms: int = 0) -> None:
        begin = self.state.read_position
        headers = [("JMSDeliveryTime", b"%d" % delivery_ms)] if delivery_ms else []
        key = None if unit is None else unit.encode()
        records = [MadeRecord(begin + n, key=key, value=BODY, headers=headers) for n in range(count)]
        self.state.apply(Fetched(begin, begin + count, [reference_of(record) for record in records]))

    def give_back_all(self, due_at_ms: int) -> None:
        """A session takes what there is and gives it back, to wait until then."""
        offer = decide_offer(self.state, "a", limit=1_000, now_ms=NOW_MS)
        self.state.apply(offer.change)
        delay_ms = due_at_ms - NOW_MS
        back = [ReturnedMessage(each.offset, 1, due_at_ms, delay_ms, RETURNED) for each in offer.references]
        self.state.apply(Returned("a", back))

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            decided = decide_offer(self.state, "nobody", limit=0, now_ms=NOW_MS)
            assert not decided.references
            self.group_worker.turn.keep_within_memory(self.consumer)

    def drain(self, now_ms: int) -> Iterator[int]:
        """Take and acknowledge until nothing comes any more."""
        self.state.apply(TimePassed(now_ms))
        idle = 0
        while idle < 3:
            self.group_worker.turn.keep_within_memory(self.consumer)
            offer = decide_offer(self.state, "a", limit=500, now_ms=now_ms)
            self.state.apply(offer.change)
            offsets = [reference.offset for reference in offer.references]
            idle = 0 if offsets else idle + 1
            yield from offsets
            if offsets:
                self.state.apply(Acknowledged(session="a", offsets=offsets))

    @property
    def body_bytes(self) -> int:
        return self.state.gates.waiting_count * len(BODY)


def test_many_blocked_units_with_short_lines_stay_within_the_budget() -> None:
    """Of LOG-9: 2,000 units with 50 messages each, the first of each held back."""
    group_worker = GroupWorkerUnderTest(budget_bytes=16 << 20)
    units = [f"u{number}" for number in range(2_000)]
    for line in range(50):
        for unit in units:
            group_worker.fetch(1, unit, LATER_MS if line == 0 else 0)
        assert list(group_worker.drain(NOW_MS)) == []
        assert group_worker.body_bytes < 8 << 20
        assert not group_worker.channel.memory.is_paused, "blocked units never stop others"
    got = list(group_worker.drain(LATER_MS))
    assert sorted(got) == list(range(100_000))
    places = {offset: place for place, offset in enumerate(got)}
    assert all(places[offset] < places[offset + 2_000] for offset in range(98_000)), "a unit's order"


def test_delayed_messages_leave_memory_until_their_time() -> None:
    """Of LOG-9: each waits for itself, none behind another."""
    group_worker = GroupWorkerUnderTest(budget_bytes=16 << 20)
    for _ in range(20):
        group_worker.fetch(500, None, LATER_MS)
        group_worker.turn()
        assert group_worker.body_bytes < 8 << 20
    assert not group_worker.channel.memory.is_paused
    assert len(set(group_worker.drain(LATER_MS))) == 10_000


def test_delayed_messages_whose_time_has_come_wait_for_receivers_outside_memory() -> None:
    """Of LOG-9: nobody is there to take them."""
    group_worker = GroupWorkerUnderTest(budget_bytes=4 << 20)
    for _ in range(6):
        group_worker.fetch(500, None, LATER_MS)
        group_worker.turn()
    group_worker.state.apply(TimePassed(LATER_MS))
    group_worker.turn(100)
    assert 0 < group_worker.body_bytes < 2 << 20
    assert len(set(group_worker.drain(LATER_MS))) == 3_000


def test_a_group_worker_gives_memory_back_when_another_joins() -> None:
    """Of LOG-9: the budget is divided over the group workers there are."""
    group_worker = GroupWorkerUnderTest(budget_bytes=16 << 20)
    group_worker.fetch(2_000, None, LATER_MS)
    group_worker.turn()
    assert group_worker.body_bytes == 2_000 * len(BODY)
    group_worker.budget_bytes //= 4
    group_worker.turn()
    assert group_worker.body_bytes < 2 << 20


def test_a_partition_with_too_many_that_came_back_pauses_says_so_once_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of LOG-9: what cannot leave memory is bounded too, what is remembered of messages that came back."""
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20)
    with caplog.at_level(logging.WARNING):
        for number in range(2_000):
            group_worker.fetch(1, f"u{number}")
            group_worker.give_back_all(LATER_MS)
            group_worker.turn()
    assert group_worker.channel.memory.is_paused
    assert len(caplog.messages) == 1
    assert "units and messages that came back wait" in caplog.messages[0]
    assert group_worker.state.gates.waiting_count < 100
    assert len(set(group_worker.drain(LATER_MS))) == 2_000
    assert not group_worker.channel.memory.is_paused


def test_of_those_that_checkpoints_have_written_ten_times_as_many_fit() -> None:
    """Of LOG-9, REDELIVER-2: all of them come, with their attempts."""
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20)
    for _ in range(100):
        group_worker.fetch(120, None)
        group_worker.give_back_all(LATER_MS)
        group_worker.channel.take_freeze("jbm.test:1", ())
        group_worker.channel.settle_freeze(durable=True)
        group_worker.turn()
        assert not group_worker.channel.memory.is_paused
    assert {state.attempts for _, state in group_worker.state.redeliveries.items()} == {1}
    assert sorted(group_worker.drain(LATER_MS)) == list(range(12_000))


def test_the_budget_is_divided_over_all_group_workers_however_many() -> None:
    """Of LOG-9: five queues take no more than four, and one has all of it."""
    clock = ManualClock()
    sidecar = Sidecar(
        kafka=MemoryKafka(MemoryCluster(clock, waits=False)),
        clock=clock,
        config=SidecarConfig(memory_budget_bytes=100 << 20),
        stores=Stores(MemoryJournal(clock=clock), MemoryHeldStore(), "jbm.one.0", lambda: None),
        workers=SteppedWorkers(clock, lambda _: None),
    )
    first = sidecar.sources.attach(Queue("orders-0"), link_of("a"))
    assert first.turn.flow.share_bytes() == 100 << 20
    group_workers = [
        first,
        *(sidecar.sources.attach(Queue(f"orders-{number}"), link_of("a")) for number in range(1, 5)),
    ]
    assert [group_worker.turn.flow.share_bytes() for group_worker in group_workers] == [20 << 20] * 5


def test_a_full_disk_pauses_the_partition_and_loses_repeats_and_reorders_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """UNIT-1, of LOG-9: one line tells the remedy; a later try succeeds."""
    group_worker = GroupWorkerUnderTest(budget_bytes=2 << 20)
    group_worker.store.is_full = True
    group_worker.fetch(1, "u", LATER_MS)
    group_worker.fetch(999, "u")
    assert list(group_worker.drain(NOW_MS)) == []
    group_worker.turn(200)
    assert len(caplog.messages) == 1
    assert "/state: disk full; make room" in caplog.messages[0]
    assert group_worker.channel.memory.is_paused
    assert group_worker.state.gates.waiting_count == 1_000
    assert group_worker.flow.trouble == caplog.messages[0]
    group_worker.store.is_full = False
    group_worker.turn(200)
    assert not group_worker.flow.trouble
    assert not group_worker.channel.memory.is_paused
    group_worker.fetch(500, "u")
    assert list(group_worker.drain(LATER_MS)) == list(range(1_500))


def test_what_a_full_disk_kept_of_messages_that_went_on_does_not_come_back() -> None:
    """UNIT-1: a failed put leaves rows of messages that are handed over from memory."""
    group_worker = GroupWorkerUnderTest(budget_bytes=2 << 20)
    group_worker.store.is_full = True
    group_worker.fetch(1, "u", LATER_MS)
    group_worker.fetch(999, "u")
    assert list(group_worker.drain(NOW_MS)) == []
    group_worker.state.apply(TimePassed(LATER_MS))
    offer = decide_offer(group_worker.state, "a", limit=300, now_ms=LATER_MS)
    group_worker.state.apply(offer.change)
    group_worker.state.apply(Acknowledged(session="a", offsets=range(300)))
    group_worker.store.is_full = False
    group_worker.fetch(500, "u")
    group_worker.state.apply(decide_offer(group_worker.state, "a", limit=0, now_ms=LATER_MS).change)
    group_worker.turn(200)
    assert group_worker.state.gates.by_key[b"u"].spilled
    assert list(group_worker.drain(LATER_MS)) == list(range(300, 1_500))


def opener_of_channels() -> ChannelOpener:
    """Opens anew what the held store has lost, some time."""
    kafka, clock = MemoryKafka(MemoryCluster(ManualClock(), waits=False)), ManualClock()
    return ChannelOpener(
        kafka=kafka,
        journal=MemoryJournal(clock=clock),
        topics=Topics(kafka.admin(), namespace=""),
        clock=clock,
        config=SidecarConfig(),
        settings_of=AddressSettingsRepository({}).resolve,
        workers=SteppedWorkers(clock, lambda _: None),
    )


@pytest.mark.parametrize("unit", ["u", None])
def test_a_channel_whose_spilled_messages_cannot_be_read_is_recovered(unit: str | None) -> None:
    """Of LOG-9: it is closed and opened anew, and the group worker goes on."""
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20, opener=opener_of_channels())
    group_worker.fetch(1_000, unit, LATER_MS)
    group_worker.turn()
    assert group_worker.state.gates.waiting_count < 1_000
    group_worker.store.is_unreadable = True
    group_worker.state.apply(TimePassed(LATER_MS))
    group_worker.state.apply(decide_offer(group_worker.state, "a", limit=1_000, now_ms=LATER_MS).change)
    group_worker.turn(3)
    assert group_worker.channel.is_lost
    assert list(group_worker.group_worker.data.opening) == [0]
    assert not group_worker.group_worker.data.channels


def test_what_was_granted_in_the_turn_that_opens_a_channel_anew_reaches_nobody() -> None:
    """UNIT-2: another worker may have the unit as soon as the lease is revoked."""
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20, opener=opener_of_channels())
    group_worker.fetch(1_000, "late", LATER_MS)
    group_worker.turn()
    group_worker.fetch(2, "now")
    group_worker.state.apply(TimePassed(LATER_MS))
    group_worker.store.is_unreadable = True
    link = link_of("a")
    group_worker.group_worker.data.links[link.terms.link_id] = link
    link.demand.credit = 10
    group_worker.group_worker.turn.serve(group_worker.consumer)
    group_worker.group_worker.turn.serve(group_worker.consumer)
    assert group_worker.channel.is_lost
    assert not link.buffer


def test_a_full_held_store_that_cannot_be_read_ends_no_group_worker_of_one_partition() -> None:
    """Of LOG-9: nothing is left to share the memory among."""
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20, opener=opener_of_channels())
    group_worker.fetch(1_000, "u", LATER_MS)
    group_worker.turn()
    group_worker.store.is_full = group_worker.store.is_unreadable = True
    group_worker.fetch(600, "v", LATER_MS)
    group_worker.turn()
    assert group_worker.channel.memory.is_paused
    group_worker.state.apply(TimePassed(LATER_MS))
    offer = decide_offer(group_worker.state, "a", limit=1_000, now_ms=LATER_MS)
    group_worker.state.apply(offer.change)
    offsets = [each.offset for each in offer.references]
    group_worker.state.apply(Acknowledged(session="a", offsets=offsets))
    group_worker.turn(3)
    assert group_worker.channel.is_lost
