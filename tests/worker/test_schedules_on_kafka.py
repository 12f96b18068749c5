"""Schedules on a real Kafka: one of two workers is killed between its send and the commit, or right after that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest

from jbm_kafka.admin import Admin
from tests.support.chaos_topics import read_committed
from tests.support.schedule_process import EVERY_S, NAME
from tests.support.waiting import wait_until

DIES_AT, MORE = 3, 5
PATIENCE_S = 60.0


@contextmanager
def worker(bootstrap: str, queue: str, where: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.support.schedule_process", bootstrap, queue, where, str(DIES_AT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "starts\n"
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def runs_of(bootstrap: str, queue: str) -> list[datetime]:
    """When the committed runs were due, in the order of the log."""
    return [datetime.fromisoformat(json.loads(record.value() or b"")) for record in read_committed(bootstrap, queue)]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_worker_that_is_killed_beside_its_commit_leaves_each_run_once(
    bootstrap: str, kafka_name: str, where: str
) -> None:
    """CRON-1: the run that was under way is sent by the other worker, or was sent; no run is missing."""
    with worker(bootstrap, kafka_name, where) as first, worker(bootstrap, kafka_name, "never"):
        assert first.wait(PATIENCE_S) == -9
        with Admin(bootstrap) as admin:

            def is_taken_over() -> bool:
                (found,) = [each for each in admin.schedules() if each.queue == kafka_name]
                return found.name == NAME and not found.runner.startswith(f"process {first.pid} ")

            wait_until(is_taken_over, about="a run of the other worker", timeout_s=PATIENCE_S)
        begun = len(runs_of(bootstrap, kafka_name))
        wait_until(lambda: len(runs_of(bootstrap, kafka_name)) >= begun + MORE, about="its runs", timeout_s=PATIENCE_S)
    found = runs_of(bootstrap, kafka_name)
    wanted = [found[0] + timedelta(seconds=EVERY_S * number) for number in range(len(found))]
    assert found == wanted
