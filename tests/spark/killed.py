"""A job of `jbm-spark` in a process of its own, that is killed, with its JVM, in the midst of writing."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.spark.conftest import Topics
from tests.support.waiting import wait_until

PATIENCE_S = 400.0


def job(topics: Topics, *arguments: str) -> list[str]:
    """Its command."""
    return [sys.executable, "-m", "jbm_spark.cli", *arguments, "--json", "--bootstrap", topics.bootstrap]


def kill_in_the_midst(command: list[str], topics: Topics, target: str, *, records: int = 0) -> None:
    """Once so many records more than now, and one, are in the target's log, be they committed or not."""
    before = topics.count(target)
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or topics.count(target) > before + records,
                   about="records of the job", timeout_s=PATIENCE_S)  # fmt: skip
        with suppress(subprocess.TimeoutExpired):
            process.wait(random.uniform(0, 0.3))
        assert process.poll() is None, "it ended before it was killed"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def members(session: int, named: str = "") -> list[int]:
    """The processes of a session; Spark's Python workers are in a process group of their own."""
    found = []
    for place in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(place.name) and int(fields[3]) == session and named in (place / "cmdline").read_text():
                found.append(int(place.name))
    return found


def signal_all(pids: Sequence[int], which: signal.Signals) -> None:
    """Those that are gone already are left out."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, which)
