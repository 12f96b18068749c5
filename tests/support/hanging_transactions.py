"""Whether Kafka itself has left partitions blocked, as its own tool tells (docs/topics.md tells the whole story)."""

import subprocess
import threading
import time

from jbm_kafka.devbroker.jars import ensure_jars
from jbm_kafka.devbroker.java import find_java

OLD_ENOUGH_S = 90.0
"""The tool names no transaction younger than a minute."""
TOOL_TIMEOUT_S = 60.0
ASK_EVERY_S = 5.0


def blocked_by_kafka(bootstrap: str) -> str | None:
    """The tool's table of transactions that are open in a partition and over for their coordinator; None: there are
    none, so that one which blocks a partition is somebody's who has not ended it."""
    deadline, pause = time.monotonic() + OLD_ENOUGH_S, threading.Event()
    while time.monotonic() < deadline:
        found = _find_hanging(bootstrap)
        if len(found.splitlines()) > 1:  # the first names the columns
            return found
        pause.wait(ASK_EVERY_S)
    return None


def _find_hanging(bootstrap: str) -> str:
    tool = [find_java(), "-cp", f"{ensure_jars()}/*", "org.apache.kafka.tools.TransactionsCommand"]
    asked = ["--bootstrap-server", bootstrap, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1"]
    done = subprocess.run([*tool, *asked], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
