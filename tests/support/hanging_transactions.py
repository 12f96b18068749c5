"""Whether Kafka itself has left partitions blocked, as its own tool tells (docs/topics.md tells the whole story)."""

import threading
import time

from tests.support.kafka_tool import run_tool

FIND_HANGING = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
OLD_ENOUGH_S = 90.0
"""The tool names no transaction younger than a minute."""
ASK_EVERY_S = 5.0


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
