"""Retries of dead letters that are killed, that run twice at once, and beside a receiver: none is lost, none twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from confluent_kafka import Producer

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.codec.dead_letter import dead_letter_headers
from jbm_kafka.core.murmur2 import partition_for
from tests.support.chaos_topics import end_offsets, read_committed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

LETTERS, UNITS, PARTITIONS = 3_000, 40, 4
MakeQueue = Callable[..., str]
BATCH = (
    "from jbm_kafka.admin.dead_letters import retry; retry.BATCH = {batch}; "
    "from jbm_kafka.cli.main import main; main({arguments!r})"
)


def bury(bootstrap: str, queue: str, dead: str) -> None:
    """Fill the dead-letter queue: message n is of unit n modulo UNITS."""
    # Idempotent: a plain one may send a new topic's first batch again after the second, which is another order.
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for number in range(LETTERS):
        unit = f"unit-{number % UNITS}".encode()
        headers = dead_letter_headers(
            [("JBMBody", b"text")], destination=Queue(queue), message_id=f"ID:t:{number}", partition=0, offset=10**9,
            delivery_count=10, reason="max-delivery-attempts",
        )  # fmt: skip
        producer.produce(dead, str(number).encode(), unit, partition_for(unit, PARTITIONS), headers=list(headers))
        producer.poll(0)
    assert producer.flush(30) == 0


def retrying(bootstrap: str, dead: str, *, batch: int = 500) -> subprocess.Popen[str]:
    """`jbm-kafka dead-letters retry`, in smaller transactions where that is asked for."""
    arguments = ["dead-letters", "retry", "--from", dead, "--json", "--bootstrap", bootstrap]
    code = BATCH.format(batch=batch, arguments=arguments)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def sent_to(bootstrap: str, queue: str) -> list[int]:
    return [int(record.value() or b"") for record in read_committed(bootstrap, queue)]


def has(bootstrap: str, queue: str, count: int) -> bool:
    """More than so many are there to be read."""
    return sum(end_offsets(bootstrap, queue).values()) > count


def check_order(numbers: Sequence[int]) -> None:
    """Each once, and each unit in its order."""
    assert [number for number, times in Counter(numbers).items() if times > 1] == []
    for unit in range(UNITS):
        mine = [number for number in numbers if number % UNITS == unit]
        assert mine == sorted(mine), unit


def test_a_retry_that_is_killed_sends_nothing_twice_and_loses_nothing(bootstrap: str, make_queue: MakeQueue) -> None:
    """REDELIVER-9: killed with SIGKILL between its transactions or in one; the next retry sends the rest."""
    queue, dead = make_queue("orders", partitions=PARTITIONS), make_queue("dlq", partitions=PARTITIONS)
    bury(bootstrap, queue, dead)
    for seen in (1, LETTERS // 3):
        with retrying(bootstrap, dead, batch=20) as victim:
            wait_until(partial(has, bootstrap, queue, seen), about="letters sent", timeout_s=150)
            victim.kill()
        assert 0 < len(sent_to(bootstrap, queue)) < LETTERS, "it was done before the kill"
    with Admin(bootstrap) as admin:
        report = admin.retry_dead_letters(dead)
        assert (list(report.kept), list(report.taken)) == ([], [])
        numbers = sent_to(bootstrap, queue)
        assert sorted(numbers) == list(range(LETTERS))
        check_order(numbers)
        assert admin.counts(dead).held == 0


def test_two_retries_at_once_send_each_letter_once(bootstrap: str, make_queue: MakeQueue) -> None:
    """Of REDELIVER-9: they share the partitions of the dead-letter queue, as its receivers do."""
    queue, dead = make_queue("orders", partitions=PARTITIONS), make_queue("dlq", partitions=PARTITIONS)
    bury(bootstrap, queue, dead)
    with retrying(bootstrap, dead, batch=50) as one, retrying(bootstrap, dead, batch=50) as other:
        reports = [json.loads(each.communicate(timeout=120)[0]) for each in (one, other)]
    assert sum(report["sent"] for report in reports) + len(rest(bootstrap, dead)) == LETTERS
    numbers = sent_to(bootstrap, queue)
    assert sorted(numbers) == list(range(LETTERS))
    check_order(numbers)


def rest(bootstrap: str, dead: str) -> Sequence[object]:
    with Admin(bootstrap) as admin:
        return admin.retry_dead_letters(dead).letters


def test_a_receiver_beside_a_retry_gets_no_letter_that_is_sent(bootstrap: str, make_queue: MakeQueue) -> None:
    """Of REDELIVER-9: who has its partition has a letter, and that is one of both."""
    queue, dead = make_queue("orders", partitions=PARTITIONS), make_queue("dlq", partitions=PARTITIONS)
    bury(bootstrap, queue, dead)
    factory = ConnectionFactory(bootstrap, auto_create=False)
    with (
        ThreadPoolExecutor() as pool,
        factory.create_connection() as connection,
        connection.create_session(AcknowledgeMode.CLIENT) as session,
        Admin(bootstrap) as admin,
    ):
        consumer = session.create_consumer(Queue(dead))
        retry = pool.submit(admin.retry_dead_letters, dead, timeout_s=3.0)
        wait_until(partial(has, bootstrap, queue, 0), about="letters sent", timeout_s=150)
        received: list[int] = []
        while (message := consumer.receive(2.0)) is not None or not retry.done():
            if message is not None:
                received.append(int(str(message.body)))
                message.acknowledge()
        report = retry.result()
        assert report.sent + len(report.taken) + len(report.kept) == LETTERS
        assert report.sent > 0
        assert received
    numbers = sent_to(bootstrap, queue)
    assert sorted(received + numbers + [int(row.letter.message_id.split(":")[-1]) for row in report.kept]) == list(
        range(LETTERS)
    )
