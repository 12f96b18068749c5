"""`jbm-kafka run` on a real broker: asked to end, killed, and with several processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Queue
from jbm_kafka.devbroker import LocalBroker
from tests.support.chaos_topics import read_committed
from tests.support.topics import delete_topics_beginning_with
from tests.support.waiting import wait_until

UNITS, EACH = 20, 30
PATIENCE_S = 180.0
Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def queue_name(bootstrap: str, kafka_name: str) -> Iterator[str]:
    yield kafka_name
    delete_topics_beginning_with(bootstrap, kafka_name)


@pytest.fixture
def shop_log(tmp_path: Path) -> Path:
    log = tmp_path / "shop.log"
    log.touch()
    return log


@pytest.fixture
def run(bootstrap: str, queue_name: str, shop_log: Path) -> Iterator[Run]:
    """Starts the command; it is gone at the end whatever happens."""
    with ExitStack() as started, shop_log.with_suffix(".err").open("w") as errors:

        def start(*arguments: str, at: str = bootstrap) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "jbm_kafka", "run", *arguments, "--bootstrap", at],
                env={**os.environ, "SHOP_QUEUE": queue_name, "SHOP_LOG": str(shop_log)},
                stderr=errors,
                text=True,
            )
            started.callback(process.wait)
            started.callback(process.kill)
            return process

        yield start


def send(bootstrap: str, *queues: str) -> None:
    """The same to each: EACH messages of UNITS units."""
    factory = ConnectionFactory(bootstrap, address_settings={"#": AddressSettings(partitions=4)})
    with factory.create_sender() as sender:
        for number in range(EACH):
            for unit in range(UNITS):
                for queue in queues:
                    sender.send(Queue(queue), f"{number}", unit_of_order=f"u{unit}", on_completion=lambda *_: None)


def handled(log: Path, pattern: str = r"(?m)^(u\d+) (\d+)$") -> dict[str, list[int]]:
    """Numbers by unit, in the order handled."""
    found: dict[str, list[int]] = defaultdict(list)
    for unit, number in re.findall(pattern, log.read_text()):
        found[unit].append(int(number))
    return found


def firsts(numbers: list[int]) -> list[int]:
    """Without what came again."""
    return list(dict.fromkeys(numbers))


WANTED = {f"u{unit}": list(range(EACH)) for unit in range(UNITS)}


def test_a_worker_drains_when_it_is_asked_to_end(bootstrap: str, queue_name: str, run: Run, shop_log: Path) -> None:
    """UNIT-18, UNIT-2, ACK-7: exit code 0, each kind of handler has done all, in order, and nothing twice."""
    send(bootstrap, queue_name, f"{queue_name}.paid", f"{queue_name}.mails")
    process = run("tests.support.shop_workers:worker")
    mails = r"(?m)^mail (u\d+) (\d+)$"
    wait_until(
        lambda: handled(shop_log) == WANTED and handled(shop_log, mails) == WANTED and paid(bootstrap, queue_name),
        about="all",
        timeout_s=PATIENCE_S,
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in shop_log.with_suffix(".err").read_text()


def paid(bootstrap: str, queue_name: str) -> bool:
    found: dict[str, list[int]] = defaultdict(list)
    for record in read_committed(bootstrap, f"{queue_name}.out"):
        found[(record.key() or b"").decode()].append(int(record.value() or b""))
    return found == WANTED


@pytest.mark.thorough
def test_killed_processes_start_again_and_lose_nothing(
    bootstrap: str, queue_name: str, run: Run, shop_log: Path
) -> None:
    """UNIT-1, UNIT-18: a process is killed three times in the middle; each unit's first hand-overs are in order."""
    send(bootstrap, queue_name)
    group = run("tests.support.shop_workers:worker", "--processes", "2")
    for share in (1, 2, 3):
        wait_until(
            lambda: sum(map(len, handled(shop_log).values())) > share * UNITS * EACH // 5,  # noqa: B023
            about="some",
            timeout_s=PATIENCE_S,
        )
        wait_until(lambda: bool(children(group.pid)), about="a process", timeout_s=PATIENCE_S)
        killed = children(group.pid)[0]
        os.kill(killed, signal.SIGKILL)
        # Noticed, or it would be one that did not end well when all are asked to.
        wait_until(lambda: killed not in children(group.pid), about="a look at it", timeout_s=PATIENCE_S)  # noqa: B023
    wait_until(
        lambda: {unit: firsts(numbers) for unit, numbers in handled(shop_log).items()} == WANTED,
        about="all",
        timeout_s=PATIENCE_S,
    )
    group.send_signal(signal.SIGTERM)
    assert group.wait(PATIENCE_S) == 0


@pytest.mark.thorough
def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    dedicated_broker: Callable[[], LocalBroker], queue_name: str, run: Run, shop_log: Path
) -> None:
    """UNIT-1, UNIT-18, of CONN-3: in the midst of the work; each unit's first hand-overs are in order."""
    broker = dedicated_broker()
    send(broker.bootstrap, queue_name)
    worker = run("tests.support.shop_workers:worker", at=broker.bootstrap)
    wait_until(
        lambda: sum(map(len, handled(shop_log).values())) > UNITS * EACH // 5, about="some", timeout_s=PATIENCE_S
    )
    broker.kill()
    broker.start()
    wait_until(
        lambda: {unit: firsts(numbers) for unit, numbers in handled(shop_log).items()} == WANTED,
        about="all",
        timeout_s=PATIENCE_S,
    )
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_S) == 0


@pytest.mark.thorough
def test_processes_end_with_the_one_that_started_them(queue_name: str, run: Run) -> None:
    group = run("tests.support.shop_workers:plain", "--queue", queue_name, "--processes", "2")
    wait_until(lambda: len(children(group.pid)) == 2, about="both", timeout_s=PATIENCE_S)
    pids = children(group.pid)
    group.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), about="their end", timeout_s=PATIENCE_S)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["tests.support.shop_workers:plain"], 2, "--queue"),
        (["tests.support.shop_workers:worker", "--queue", "a"], 2, "is a Worker"),
        (["tests.support.shop_workers:worker", "--concurrency", "2"], 2, "--concurrency goes with --queue"),
        (["tests.support.shop_workers:nothing"], 1, "has no such name"),
        (["no.such.module:worker"], 1, "cannot be imported"),
        (["shop"], 2, "MODULE:NAME"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    from jbm_kafka.cli.main import main

    assert main(["run", *arguments, "--bootstrap", "localhost:9"]) == code
    [line] = capfd.readouterr().err.splitlines()
    assert says in line
