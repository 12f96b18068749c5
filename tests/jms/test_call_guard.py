"""The guard of a session's calls by itself, without a broker."""

from __future__ import annotations

import threading

from jbm_kafka.jms.base.call_guard import CallGuard
from jbm_kafka.ports.wake_up import Sleepers
from tests.support.waiting import wait_until


def guard_with_lock() -> tuple[CallGuard, threading.Lock]:
    lock = threading.Lock()
    return CallGuard(Sleepers(lock)), lock


def test_one_call_at_a_time_enters() -> None:
    """CONN-1: a session used by two threads at once is refused."""
    guard, lock = guard_with_lock()
    assert guard.try_enter()
    assert not guard.try_enter()
    with lock:
        assert not guard.enter()
    guard.leave()
    with lock:
        assert guard.enter()
    assert guard.is_in_call


def test_who_waits_enters_when_the_call_ends() -> None:
    guard, _ = guard_with_lock()
    assert guard.try_enter()
    entered: list[bool] = []
    waiting = threading.Thread(target=lambda: entered.append(guard.wait_enter(None)))
    waiting.start()
    wait_until(lambda: guard._waiting == 1, timeout_s=10, about="somebody waits to enter")
    guard.leave()
    waiting.join(10)
    assert entered == [True]
    assert not guard.try_enter(), "the one that waited is in its call now"


def test_who_waits_gives_up_in_time_and_is_not_counted_any_more() -> None:
    guard, _ = guard_with_lock()
    assert guard.try_enter()
    assert not guard.wait_enter(0.01)
    assert guard._waiting == 0
    guard.leave()
    assert guard.wait_enter(0.01)


def test_refused_for_ever_needs_no_lock() -> None:
    """CONN-1: in a forked process the lock may be held by a thread that is not there."""
    guard, lock = guard_with_lock()
    with lock:
        guard.refuse_for_ever()
        assert not guard.try_enter()
