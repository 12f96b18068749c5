"""Members come, and die, while a rebalance waits for a handler of a process that lives."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.conftest import MakePuppet
from tests.chaos.test_pauses import STOCK
from tests.support.broker import local_broker
from tests.support.chaos_puppet import Puppet
from tests.support.chaos_topics import group_members, send_to_each
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

MakeQueue = Callable[..., str]
SESSION_TIMEOUT_MS = 6_000
"""A process that a busy machine leaves without a processor for two or three seconds is not dead."""
SOON_S = 60.0
A_WHILE_S = 8.0
"""Longer than the session timeout, and than a rebalance waited before."""
NOTHING_S = 1.0


def work(seconds: float) -> None:
    """What the handlers of the processes that hold messages do meanwhile."""
    threading.Event().wait(seconds)


def receive(puppet: Puppet, text: str, count: int = 1) -> None:
    """So many messages come, each for the first time."""
    for _ in range(count):
        assert puppet.ask("receive", "s", SOON_S) == [text, 1, False]


def wait_draining(*puppets: Puppet) -> None:
    """Return when each has to give up what it holds messages of."""
    for each in puppets:
        wait_until(lambda p=each: p.ask("is_draining", "s"), about="a rebalance that waits", timeout_s=SOON_S)  # type: ignore[misc]


def assert_untroubled(*puppets: Puppet) -> None:
    """Nobody was told of anything that was taken or refused."""
    assert [puppet.ask("troubles") for puppet in puppets] == [[] for _ in puppets]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("work_s", "session_timeout_ms"),
    [
        (A_WHILE_S, SESSION_TIMEOUT_MS),
        pytest.param(15.0, SESSION_TIMEOUT_MS, marks=pytest.mark.slow),
        pytest.param(12.0, 2_000, marks=pytest.mark.slow),
    ],
)
def test_a_scale_out_beside_a_long_handler_hands_its_unit_out_once(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet, work_s: float, session_timeout_ms: int
) -> None:
    """UNIT-2: the rebalance waits for it, far beyond the session timeout, and no membership is lost by that."""
    scale_out(bootstrap, make_queue("q", partitions=2), puppet, work_s=work_s, session_timeout_ms=session_timeout_ms)


@pytest.mark.slow
def test_a_scale_out_beside_a_long_handler_on_a_stock_broker(kafka_name: str, tmp_path: Path) -> None:
    """UNIT-2: the same where a group's first rebalance waits three seconds."""
    with local_broker(tmp_path / "stock", STOCK) as broker, ExitStack() as started:

        def make(name: str, **options: object) -> Puppet:
            made = Puppet(broker.bootstrap, tmp_path / "puppets", name, **options)  # type: ignore[arg-type]
            started.callback(made.end_anyhow)
            made.wait_ready()
            return made

        queue = create_topic(broker.bootstrap, kafka_name, partitions=2)
        scale_out(broker.bootstrap, queue, make, work_s=A_WHILE_S, session_timeout_ms=SESSION_TIMEOUT_MS)


def scale_out(bootstrap: str, queue: str, puppet: MakePuppet, *, work_s: float, session_timeout_ms: int) -> None:
    """A second process joins while the first has a message of each partition in hand."""
    send_to_each(bootstrap, queue, "first", partitions=2)
    busy, joining = (puppet(name, session_timeout_ms=session_timeout_ms) for name in ("busy", "joining"))
    busy.ask("open", "s", "CLIENT", queue)
    receive(busy, "first", 2)
    [member] = group_members(bootstrap, queue)
    joining.tell("open", "s", "CLIENT", queue)
    wait_draining(busy)
    send_to_each(bootstrap, queue, "second", partitions=2)
    work(work_s)
    assert busy.ask("is_draining", "s"), "the rebalance went on without it"
    assert busy.ask("acknowledge", "s", 1) is None
    assert joining.answer() is None
    receive(joining, "second")
    receive(busy, "second")
    members = group_members(bootstrap, queue)
    assert sorted(members.values()) == [1, 1]
    assert member in members, "it had to join anew"
    assert_untroubled(busy, joining)


@pytest.mark.thorough
def test_a_receive_that_must_join_beside_a_long_handler_does_not_wait_for_its_end(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """Ten seconds, and then None; a rebalance may wait for thirty."""
    queue = make_queue("q", partitions=2)
    idle = puppet("idle", session_timeout_ms=SESSION_TIMEOUT_MS, membership_idle_ms=1_000, receiver_idle_ms=500)
    busy = puppet("busy", session_timeout_ms=SESSION_TIMEOUT_MS)
    idle.ask("open", "s", "CLIENT", queue)
    wait_until(lambda: not group_members(bootstrap, queue), about="one that has left", timeout_s=SOON_S)
    busy.ask("open", "s", "CLIENT", queue)
    send_to_each(bootstrap, queue, "first", partitions=2)
    receive(busy, "first", 2)
    assert idle.ask("receive", "s", 0) is None
    wait_draining(busy)  # which may hear of the rebalance a moment later than the one that joined
    send_to_each(bootstrap, queue, "second", partitions=2)
    assert busy.ask("acknowledge", "s", 1) is None
    receive(idle, "second")
    receive(busy, "second")
    assert_untroubled(busy, idle)


@pytest.mark.thorough
def test_a_receive_that_must_join_during_a_drain_does_not_wait_for_its_end(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """Ten seconds, and then None: the group lets it in when the drain has ended, which takes up to thirty."""
    queue = make_queue("q", partitions=2)
    idle = puppet("idle", session_timeout_ms=SESSION_TIMEOUT_MS, membership_idle_ms=1_000, receiver_idle_ms=500)
    busy, second = (puppet(name, session_timeout_ms=SESSION_TIMEOUT_MS) for name in ("busy", "second"))
    idle.ask("open", "s", "CLIENT", queue)
    wait_until(lambda: not group_members(bootstrap, queue), about="one that has left", timeout_s=SOON_S)
    busy.ask("open", "s", "CLIENT", queue)
    send_to_each(bootstrap, queue, "first", partitions=2)
    receive(busy, "first", 2)
    second.tell("open", "s", "CLIENT", queue)
    wait_draining(busy)
    assert idle.ask("receive", "s", 0) is None
    assert busy.ask("is_draining", "s"), "it waited for the handler"
    assert busy.ask("acknowledge", "s", 1) is None
    assert second.answer() is None
    assert_untroubled(busy, second, idle)


@pytest.mark.thorough
def test_a_third_member_that_joins_during_a_drain_takes_nothing_either(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """UNIT-2: the group waits with its next rebalance until the handler has ended."""
    queue = make_queue("q", partitions=3)
    send_to_each(bootstrap, queue, "first", partitions=3)
    busy, second, third = (puppet(name, session_timeout_ms=SESSION_TIMEOUT_MS) for name in ("busy", "second", "third"))
    busy.ask("open", "s", "CLIENT", queue)
    receive(busy, "first", 3)
    second.tell("open", "s", "CLIENT", queue)
    wait_draining(busy)
    third.tell("open", "s", "CLIENT", queue)
    wait_until(lambda: len(group_members(bootstrap, queue)) == 3, about="a third member", timeout_s=SOON_S)
    send_to_each(bootstrap, queue, "second", partitions=3)
    work(A_WHILE_S)
    assert busy.ask("is_draining", "s"), "the rebalance went on without it"
    assert busy.ask("acknowledge", "s", 2) is None
    for each in (second, third):
        assert each.answer() is None
    for each in (second, third, busy):
        receive(each, "second")
    assert_untroubled(busy, second, third)


@pytest.mark.thorough
def test_a_member_that_dies_during_a_drain_leaves_the_handler_of_the_other_alone(
    bootstrap: str, make_queue: MakeQueue, puppet: MakePuppet
) -> None:
    """UNIT-2, REDELIVER-1: what the dead one held comes again, counted; what the living one holds does not."""
    queue = make_queue("q", partitions=6)
    names = ("busy", "dying", "joining")
    busy, dying, joining = (puppet(name, session_timeout_ms=SESSION_TIMEOUT_MS) for name in names)
    for each in (busy, dying):
        each.ask("open", "s", "CLIENT", queue)
    wait_until(
        lambda: sorted(group_members(bootstrap, queue).values()) == [3, 3], about="two that share", timeout_s=SOON_S
    )
    send_to_each(bootstrap, queue, "first", partitions=6)
    for each in (busy, dying):
        receive(each, "first", 3)
    joining.tell("open", "s", "CLIENT", queue)
    wait_draining(busy, dying)
    dying.kill()
    work(A_WHILE_S)
    assert busy.ask("is_draining", "s"), "the rebalance went on without it"
    assert busy.ask("acknowledge", "s", 2) is None
    assert joining.answer() is None
    again: list[object] = []

    def has_all() -> bool:
        again.extend(filter(None, (each.ask("receive", "s", 0.2) for each in (busy, joining))))
        return len(again) >= 3

    wait_until(has_all, about="what the dead one held", timeout_s=SOON_S)
    assert again == [["first", 2, True]] * 3
    assert [each.ask("receive", "s", NOTHING_S) for each in (busy, joining)] == [None, None]
    assert_untroubled(busy, joining)
