"""Limits and batches by `jbm-kafka run` on a real broker: killed in the middle, nothing is lost, units are in order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Queue
from tests.support.topics import delete_topics_beginning_with
from tests.support.waiting import wait_until

UNITS, EACH = 8, 20
PATIENCE_S = 120.0
RATE = 100
WANTED = {f"u{unit}": list(range(EACH)) for unit in range(UNITS)}
Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def queue_name(bootstrap: str, kafka_name: str) -> Iterator[str]:
    settings = {"#": AddressSettings(partitions=4, redelivery_delay_ms=0)}
    with ConnectionFactory(bootstrap, address_settings=settings).create_sender() as sender:
        for number in range(EACH):
            for unit in range(UNITS):
                sender.send(Queue(kafka_name), f"{number}", unit_of_order=f"u{unit}", on_completion=lambda *_: None)
    yield kafka_name
    delete_topics_beginning_with(bootstrap, kafka_name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (file := tmp_path / "shop.log").touch()
    return file


@pytest.fixture
def run(bootstrap: str, queue_name: str, log: Path) -> Iterator[Run]:
    """Starts the command; it is gone at the end whatever happens."""
    with ExitStack() as started, log.with_suffix(".err").open("w") as errors:

        def start(worker: str, *options: str) -> subprocess.Popen[str]:
            target = f"tests.support.limited_workers:{worker}"
            process = subprocess.Popen(
                [sys.executable, "-m", "jbm_kafka", "run", target, *options, "--bootstrap", bootstrap],
                env={**os.environ, "SHOP_QUEUE": queue_name, "SHOP_LOG": str(log)},
                stderr=errors,
                text=True,
            )
            started.callback(process.wait)
            started.callback(process.kill)
            return process

        yield start


def handled(log: Path) -> dict[str, list[int]]:
    """Numbers by unit, each when it was handled first."""
    found: dict[str, list[int]] = {}
    for unit, number in re.findall(r"(?m)^(u\d+) (\d+)", log.read_text()):
        numbers = found.setdefault(unit, [])
        if int(number) not in numbers:
            numbers.append(int(number))
    return found


def ends_well(process: subprocess.Popen[str], log: Path) -> None:
    wait_until(lambda: handled(log) == WANTED, about="all", timeout_s=PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_a_process_that_is_killed_in_a_batch_loses_nothing(run: Run, log: Path) -> None:
    """HANDLER-5, HANDLER-6, UNIT-2."""
    first = run("batching")
    wait_until(lambda: len(log.read_text().splitlines()) > UNITS * EACH // 3, about="some", timeout_s=PATIENCE_S)
    first.kill()
    assert handled(log) != WANTED, "in the middle"
    ends_well(run("batching"), log)


@pytest.mark.parametrize("worker", ["timed", "awaited"])
def test_a_process_that_is_killed_in_a_call_that_takes_too_long_loses_nothing(run: Run, log: Path, worker: str) -> None:
    """HANDLER-1, UNIT-2."""
    first = run(worker)
    wait_until(log.with_suffix(".hung").exists, about="the call that hangs", timeout_s=PATIENCE_S)
    first.kill()
    ends_well(run(worker), log)


def test_a_call_that_hangs_ends_its_process_if_asked(run: Run, log: Path) -> None:
    """HANDLER-1: its message comes again then, in its unit's order, and what the others had said is recorded."""
    first = run("timed", "--kill-hung")
    assert first.wait(PATIENCE_S) == 1
    assert "a handler hangs, so the process ends (kill_hung)" in log.with_suffix(".err").read_text()
    before = log.read_text().splitlines()
    ends_well(run("timed", "--kill-hung"), log)
    again = log.read_text().splitlines()[len(before) :]
    assert set(before).isdisjoint(again), "nothing that had returned"


def test_several_processes_do_not_exceed_the_total_rate(run: Run, log: Path) -> None:
    """HANDLER-3: in nine tenths of a second, for it is looked at behind the beginning of a call."""
    ends_well(run("rated", "--processes", "2"), log)
    times = sorted(map(int, re.findall(r"(?m)^u\d+ \d+ (\d+)$", log.read_text())))
    assert max(sum(begin <= each < begin + 900 for each in times) for begin in times) <= RATE


def test_a_handler_that_pauses_receives_again(run: Run, log: Path) -> None:
    """HANDLER-4."""
    process = run("pausing")
    wait_until(lambda: log.read_text().count("\n") >= 2, about="some", timeout_s=PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    told = log.with_suffix(".err").read_text()
    assert "it receives nothing for 1 s: 3 failures in a row (pause_on)" in told
    assert "its pause is over" in told
