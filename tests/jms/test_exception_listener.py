"""What no call can raise, on its way to the exception listener; without a broker."""

from __future__ import annotations

import sys
import threading

import pytest

from jbm_kafka.jms.base.exception_listener import ListenerCalls
from tests.jms.support import SOON_S


def test_a_slow_listener_holds_up_nobody_and_is_told_everything_in_order() -> None:
    """Of ACK-9 and CONN-3: on one thread, which is not the one that found the trouble."""
    calls = ListenerCalls()
    may_go_on, told, threads = threading.Event(), list[str](), set[threading.Thread]()

    def listener(error: Exception) -> None:
        assert may_go_on.wait(SOON_S)
        told.append(str(error))
        threads.add(threading.current_thread())

    for number in range(3):
        calls.notify(listener, RuntimeError(str(number)))
    assert told == []
    may_go_on.set()
    calls.stop(SOON_S)
    assert told == ["0", "1", "2"]
    [thread] = threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_a_listener_that_raises_is_told_the_next(caplog: pytest.LogCaptureFixture) -> None:
    calls = ListenerCalls()
    told: list[str] = []

    def listener(error: Exception) -> None:
        told.append(str(error))
        raise KeyError("in the listener")

    calls.notify(listener, RuntimeError("one"))
    calls.notify(listener, RuntimeError("two"))
    calls.stop(SOON_S)
    assert told == ["one", "two"]
    assert "the exception listener raised on: one" in caplog.text


def test_sys_exit_in_an_exception_listener_does_not_end_the_telling(caplog: pytest.LogCaptureFixture) -> None:
    calls = ListenerCalls()
    told: list[str] = []

    def listener(error: Exception) -> None:
        told.append(str(error))
        sys.exit(3)

    calls.notify(listener, RuntimeError("one"))
    calls.notify(listener, RuntimeError("two"))
    calls.stop(SOON_S)
    assert told == ["one", "two"]
    assert "the exception listener called sys.exit(), which ends nothing here" in caplog.text


def test_a_listener_may_stop_it_and_what_comes_later_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls = ListenerCalls()
    stopped = threading.Event()

    def listener(error: Exception) -> None:
        calls.stop(SOON_S)
        stopped.set()

    calls.notify(listener, RuntimeError("one"))
    assert stopped.wait(SOON_S / 2), "it waited for itself"
    calls.notify(listener, RuntimeError("too late"))
    calls.notify(None, RuntimeError("nobody listens"))
    calls.stop(SOON_S)
    assert [record.getMessage() for record in caplog.records] == ["too late", "nobody listens"]
