"""How long a process stays a member of its queue's group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.sidecar.channel.membership import Membership
from tests.sidecar.parts import link_of
from tests.sidecar.stepped import QUEUE, Start, SteppedSidecar


@pytest.fixture
def partitions() -> int:
    return 2


def run_both(one: SteppedSidecar, two: SteppedSidecar, holds: Callable[[], bool], *, within_ms: int = 60_000) -> None:
    """Let two processes go on side by side until it holds."""
    end_ms = one.clock.monotonic_ms() + within_ms
    while not holds():
        assert one.clock.monotonic_ms() < end_ms, "it never held"
        one.run_for(5)
        two.run_for(5)


def run_both_for(one: SteppedSidecar, two: SteppedSidecar, duration_ms: int) -> None:
    end_ms = one.clock.monotonic_ms() + duration_ms
    run_both(one, two, lambda: one.clock.monotonic_ms() >= end_ms, within_ms=duration_ms + 1_000)


def share(one: SteppedSidecar, two: SteppedSidecar) -> None:
    """Let each have one of the two partitions."""

    def each_has_one() -> bool:
        mine, theirs = one.group_worker.data.channels, two.group_worker.data.channels
        return one.group_worker.is_settled and len(mine) == len(theirs) == 1

    run_both(one, two, each_has_one)


def test_a_consumer_that_pauses_leaves_its_partitions_where_they_are(cluster: MemoryCluster, start: Start) -> None:
    """Each leave and each return would take from the others what they have in hand."""
    one, two = start("one"), start("two")
    mine, theirs = one.attach("s"), two.attach("t")
    share(one, two)
    group = cluster.group(QUEUE.group_id(""))
    run_both_for(one, two, 100)
    generation = group.generation
    mine.demand.is_waiting = False
    run_both_for(one, two, 55_000)
    assert group.generation == generation
    run_both(one, two, lambda: len(two.group_worker.data.channels) == 2, within_ms=10_000)
    assert theirs.demand.is_waiting


def test_a_pause_counts_from_when_nothing_is_in_hand_any_more(start: Start) -> None:
    """A message of more than a minute's work, and the process had left before the next receive."""
    one, two = start("one", numbers={"membership_idle_ms": 10_000}), start("two")
    link = one.attach("s")
    two.attach("t")
    share(one, two)
    one.send("long", partition=next(iter(one.group_worker.data.channels)))
    link.demand.credit = 1
    run_both(one, two, lambda: bool(link.buffer))
    delivery = link.pop()
    assert delivery is not None
    link.demand.is_waiting = False
    run_both_for(one, two, 30_000)
    delivery.lease.acknowledge(delivery.offset)
    run_both_for(one, two, 9_000)
    assert one.group_worker.is_running
    run_both(one, two, lambda: not one.group_worker.is_running, within_ms=5_000)


@pytest.mark.parametrize("ends", ["closed", "stopped"])
def test_a_consumer_that_is_closed_or_stopped_keeps_no_partitions(start: Start, ends: str) -> None:
    """CONN-1: partitions are for those who receive."""
    one, two = start("one"), start("two")
    link = one.attach("s")
    two.attach("t")
    share(one, two)
    if ends == "closed":
        link.is_closed = True
    else:
        link.give_back_unread(stop=True)
    run_both(one, two, lambda: len(two.group_worker.data.channels) == 2, within_ms=1_000)


@pytest.mark.parametrize(("is_holding", "is_owing"), [(True, False), (False, True)])
def test_a_process_with_something_in_hand_or_unrecorded_does_not_leave(is_holding: bool, is_owing: bool) -> None:
    """UNIT-2: whoever got its partitions would hand out what is being worked on."""
    membership = Membership(SidecarConfig())
    for now_ms in (0, 10_000_000):
        assert not membership.is_over(now_ms, [], is_holding=is_holding, is_owing=is_owing, shares=True)
    assert membership.is_over(10_000_001, [], is_holding=False, is_owing=False, shares=True)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open"])
def test_what_was_in_hand_keeps_partitions_only_for_a_receiver_that_is_open(is_closed: bool) -> None:
    """CONN-1: partitions are for those who receive, and a closed one never does again."""
    membership, link = Membership(SidecarConfig()), link_of("s")
    assert not membership.is_over(0, [link], is_holding=True, is_owing=False, shares=True)
    link.is_closed = is_closed
    assert membership.is_over(1, [link], is_holding=False, is_owing=False, shares=True) is is_closed


def test_a_sole_member_that_nobody_uses_leaves_as_soon_as_others_need_partitions() -> None:
    """CONN-1: it lingers only while that costs nobody anything."""
    membership = Membership(SidecarConfig())
    assert not membership.is_over(0, [], is_holding=False, is_owing=False, shares=False)
    membership.rebalanced()
    assert membership.is_over(1, [], is_holding=False, is_owing=False, shares=False)
