"""Moves whose operator is killed, and moves whose owner is: nothing is lost, nothing is there twice, units in order."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Producer

from jbm_kafka.admin import Admin
from jbm_kafka.admin.messages import batches
from jbm_kafka.core.murmur2 import partition_for
from tests.support.chaos_topics import end_offsets, read_committed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

MESSAGES, UNITS, PARTITIONS, PORTION = 2_000, 20, 4, 25
PATIENCE_S = 120.0
MakeQueue = Callable[..., str]

OPERATOR = (
    "from jbm_kafka.admin.messages import batches; batches.PORTION = {portion}; "
    "from jbm_kafka.cli.main import main; main({arguments!r})"
)
OWNER = (
    "import sys; from jbm_kafka import ConnectionFactory, Queue\n"
    "factory = ConnectionFactory({bootstrap!r}, session_timeout_ms=6_000, membership_idle_ms=600_000)\n"
    "with factory.create_connection() as connection:\n"
    "    consumer = connection.create_session().create_consumer(Queue({queue!r}))\n"
    "    print('ready', flush=True)\n"
    "    sys.stdin.read()\n"
)


def fill(bootstrap: str, queue: str) -> None:
    """Message n is of unit n modulo UNITS."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for number in range(MESSAGES):
        unit = f"unit-{number % UNITS}".encode()
        producer.produce(queue, str(number).encode(), unit, partition_for(unit, PARTITIONS))
        producer.poll(0)
    assert producer.flush(30) == 0


def moving(bootstrap: str, queue: str, target: str) -> subprocess.Popen[str]:
    """`jbm-kafka move`, in small transactions; nobody receives, so that it is the owner itself."""
    arguments = ["move", queue, "--to", target, "--all", "--json", "--bootstrap", bootstrap]
    code = OPERATOR.format(portion=PORTION, arguments=arguments)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@contextmanager
def owner(bootstrap: str, queue: str) -> Iterator[subprocess.Popen[str]]:
    """A process with a consumer that asks for nothing."""
    code = OWNER.format(bootstrap=bootstrap, queue=queue)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def there(bootstrap: str, queue: str) -> list[int]:
    return [int(record.value() or b"") for record in read_committed(bootstrap, queue)]


def has(bootstrap: str, queue: str, count: int) -> bool:
    """More than so many are there to be read."""
    return sum(end_offsets(bootstrap, queue).values()) > count


def check(numbers: Sequence[int]) -> None:
    """All of them, each once, and each unit in its order."""
    assert [number for number, times in Counter(numbers).items() if times > 1] == []
    assert len(numbers) == MESSAGES
    for unit in range(UNITS):
        mine = [number for number in numbers if number % UNITS == unit]
        assert mine == sorted(mine), unit


@pytest.mark.timeout(400)
def test_a_move_whose_operator_is_killed_is_ended_by_the_next(bootstrap: str, make_queue: MakeQueue) -> None:
    """UNIT-14: killed with SIGKILL between its transactions or in one."""
    queue, target = make_queue("orders", partitions=PARTITIONS), make_queue("other", partitions=PARTITIONS)
    fill(bootstrap, queue)
    with moving(bootstrap, queue, target) as victim:
        wait_until(partial(has, bootstrap, target, MESSAGES // 5), about="messages moved", timeout_s=PATIENCE_S)
        victim.kill()
    assert 0 < len(there(bootstrap, target)) < MESSAGES, "it was done before the kill"
    with Admin(bootstrap) as admin:
        report = admin.move(queue, target, everything=True, timeout_s=PATIENCE_S)
        assert (report.kept, report.gone, report.in_hand) == ([], [], [])
        check(there(bootstrap, target))
        assert admin.counts(queue).held == 0


@pytest.mark.timeout(400)
def test_a_move_goes_on_when_an_owner_is_killed(
    bootstrap: str, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-14: whoever has its partitions then is asked again."""
    monkeypatch.setattr(batches, "PORTION", PORTION)
    queue, target = make_queue("orders", partitions=PARTITIONS), make_queue("other", partitions=PARTITIONS)
    fill(bootstrap, queue)
    with owner(bootstrap, queue) as victim, owner(bootstrap, queue), Admin(bootstrap) as admin:
        with ThreadPoolExecutor(1) as beside:
            move = beside.submit(partial(admin.move, queue, target, everything=True, timeout_s=PATIENCE_S))
            wait_until(partial(has, bootstrap, target, MESSAGES // 5), about="messages moved", timeout_s=PATIENCE_S)
            victim.kill()
            assert not move.done(), "it was done before the kill"
            report = move.result(timeout=2 * PATIENCE_S)
        assert (report.kept, report.in_hand) == ([], [])
        assert len(report.messages) + len(report.gone) == MESSAGES
        assert len(report.gone) <= PARTITIONS * PORTION  # of the portions whose answers died with their owner
        check(there(bootstrap, target))
        assert admin.counts(queue).held == 0
