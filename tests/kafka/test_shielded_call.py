"""Calls that a signal handler's exception must not interrupt in the middle."""

import os
import signal
import threading

import pytest

from jbm_kafka.kafka.connection_faults import ConnectionFaults
from jbm_kafka.kafka.questions import Deadline, Questions

WAIT_S = 30.0


def questions() -> Questions:
    return Questions(bootstrap="127.0.0.1:31995", timeout_s=0.05, faults=ConnectionFaults(), poll=lambda _: None)


def test_ctrl_c_in_a_question_left_the_client_deaf() -> None:
    """Within a future it left the lock taken that the client's thread needs for each answer; within the client's code
    it came as SystemError."""
    is_interrupted, ended = threading.Event(), list[bool]()

    def question(_: Deadline) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ended.append(is_interrupted.wait(WAIT_S))

    with pytest.raises(KeyboardInterrupt):
        questions().ask("list topics", question)
    assert not ended, "the question goes on beside"
    is_interrupted.set()


def test_a_question_of_the_main_thread_is_answered_as_any_other() -> None:
    assert questions().ask("list topics", lambda _: threading.current_thread()) is not threading.main_thread()

    def fails(_: Deadline) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        questions().ask("list topics", fails)
