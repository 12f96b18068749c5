"""How a sidecar says that it fares."""

from __future__ import annotations

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.counted_sources import CountedSources
from jbm_kafka.sidecar.observation import CHECKPOINT_MS, NEVER_SENT, TURN_MS, levels_of
from tests.sidecar.stepped import Start, SteppedSidecar


@pytest.fixture
def process(one: SteppedSidecar) -> SteppedSidecar:
    one.attach("s")
    one.run(lambda: one.group_worker.is_settled)
    return one


def test_a_thread_that_does_not_turn_is_told(process: SteppedSidecar) -> None:
    health = process.sidecar.observation.health
    process.run_for(TURN_MS)
    assert health(None).is_alive
    assert health(1.0).is_ready
    process.clock.advance(TURN_MS + 1)
    found = health(None)
    assert (found.is_alive, found.is_ready) == (False, False)
    assert found.reasons == ("queue:orders: its thread has not turned for 30 s",)
    process.run_for(1_000)
    assert health(None).is_alive


def test_a_checkpoint_that_does_not_end_is_told(process: SteppedSidecar) -> None:
    checkpointer = process.sidecar.checkpointer
    process.send("a")
    process.receive(process.attach("t"), 1)
    process.run(lambda: checkpointer.begun_ms > 0)
    process.held.add("jbm-checkpoint")  # as in a call of a client that does not return
    process.run_for(CHECKPOINT_MS)
    assert process.sidecar.observation.health(None).is_alive
    process.run_for(1_000)
    assert process.sidecar.observation.health(None).reasons == ("a checkpoint has been under way for 61 s",)
    process.held.clear()
    process.run_for(1_000)
    assert process.sidecar.observation.health(None).is_alive
    assert checkpointer.checkpoints > 0


def test_partitions_that_are_not_open_yet_are_not_ready(process: SteppedSidecar) -> None:
    process.group_worker.data.opening[0] = object()
    found = process.sidecar.observation.health(None)
    assert (found.is_alive, found.is_ready) == (True, False)
    assert found.reasons == ("queue:orders: its partitions are not open yet",)


def test_a_state_folder_that_takes_nothing_is_not_ready(process: SteppedSidecar) -> None:
    health = process.sidecar.observation.health
    process.group_worker.turn.flow.trouble = "orders[0]: waiting messages cannot be kept"
    process.journal.trouble = "local state cannot be written"
    found = health(None)
    assert (found.is_alive, found.is_ready) == (True, False)
    assert found.reasons == ("orders[0]: waiting messages cannot be kept", "local state cannot be written")
    process.journal.trouble = process.group_worker.turn.flow.trouble = ""
    assert health(None).is_ready


def test_names_without_end_are_not_counted_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose clients make up subscriptions had a row with a histogram for each of them."""
    monkeypatch.setattr("jbm_kafka.sidecar.counted_sources.ENDED_MAX", 2)
    counted = CountedSources()
    for number in range(5):
        name = Queue(f"q{number}")
        counted.begin(ChannelGroup.of_queue(name, namespace="", partitions=1)).has_ended = True
    assert [key for key, _ in counted.look()[0]] == ["q3", "q4"]


def test_the_oldest_of_each_kind_has_its_age(one: SteppedSidecar) -> None:
    link, clock = one.attach("s"), one.clock
    one.run(lambda: one.group_worker.is_settled)
    began_ms = clock.now_ms()
    one.send("in hand", unit=b"a")
    one.run_for(10_000)
    assert one.receive(link, 1) == [0]
    one.send("due later", headers=[("JMSDeliveryTime", b"%d" % (began_ms + 3_600_000))])
    one.run_for(20_000)
    one.send("another session has its unit", unit=b"a")
    other = one.attach("t")
    one.run_for(30_000)
    one.send("anybody may have it")
    one.run_for(40_000)
    oldest = levels_of(one.group_worker).oldest
    ages_s = {kind: round((clock.now_ms() - at_ms) / 1_000) for kind, at_ms in oldest._asdict().items()}
    assert ages_s == {"held": 100, "in_hand": 100, "delayed": 90, "blocked": 70, "deliverable": 40}
    assert one.receive(other, 1) == [3]
    assert levels_of(one.group_worker).oldest.deliverable == NEVER_SENT, "nobody else could have one now"
    rows = one.sidecar.observation.statistics()
    assert rows.of("orders", "nobody").oldest_held_s == 0


def test_ages_are_those_of_the_messages_after_another_process_took_over(one: SteppedSidecar, start: Start) -> None:
    """What is held is read again, however long it has waited; parked or not."""
    one.attach("s")
    due = b"%d" % (one.clock.now_ms() + 86_400_000)
    one.send("delayed", headers=[("JMSDeliveryTime", due)])
    one.run_for(10_000)
    one.crash()
    one.clock.advance(3_600_000)
    two = start("two")
    two.attach("t")
    two.run(lambda: two.group_worker.is_settled and levels_of(two.group_worker).delayed == 1)
    oldest = levels_of(two.group_worker).oldest
    assert two.clock.now_ms() - oldest.delayed >= 3_600_000
    assert oldest.held == oldest.delayed
