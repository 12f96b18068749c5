"""Whether Kafka itself has left partitions blocked, as its own tool tells (docs/topics.md tells the whole story)."""

import threading
import time
from typing import Protocol

import pytest

from tests.support.chaos_topics import all_ends
from tests.support.kafka_tool import run_tool
from tests.support.waiting import wait_until

FIND_HANGING = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
OLD_ENOUGH_S = 90.0
"""The tool names no transaction younger than a minute."""
ASK_EVERY_S = 5.0
READABLE_S = 30.0
"""A transaction that nobody ends lasts for its timeout of 10 s."""


def blocked_by_kafka(bootstrap: str) -> str | None:
    """The tool's table of transactions that are open in a partition and over for their coordinator; None: there are
    none, so that one which blocks a partition is somebody's who has not ended it."""
    deadline, pause = time.monotonic() + OLD_ENOUGH_S, threading.Event()
    while time.monotonic() < deadline:
        found = run_tool("TransactionsCommand", bootstrap, *FIND_HANGING)
        if len(found.splitlines()) > 1:  # the first names the columns
            return found
        pause.wait(ASK_EVERY_S)
    return None


class Explains(Protocol):
    """Whoever can say where more is to be seen."""

    def explain(self, about: str, /) -> str: ...


def wait_readable(bootstrap: str, run: Explains) -> None:
    """Return when everything written until now, to whatever topic, is before the stable end of its partition.

    The test is over, as one expected to fail, when that is Kafka's fault and by its own tool's word.
    """
    about = run.explain("no transaction blocks a partition")
    written = wait_until(lambda: all_ends(bootstrap, stable=False), about=about, timeout_s=READABLE_S)

    def is_readable() -> bool:
        stable = all_ends(bootstrap, stable=True)
        return all(stable.get(place, 0) >= end for place, end in written.items())

    try:
        wait_until(is_readable, about=about, timeout_s=READABLE_S)
    except AssertionError:
        blocked = blocked_by_kafka(bootstrap)
        if blocked is None:
            raise
        pytest.xfail(f"Kafka has left partitions blocked, which nothing of ours can prevent:\n{blocked}")
