"""AMQP servers on one broker are killed by SIGKILL while clients work."""

from __future__ import annotations

import itertools
import secrets
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue, errors
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.jms.producer import MessageProducer
from tests.amqp.java_clients import JavaClients
from tests.amqp.server_process import ServerProcess, ServerTask, running

TIMEOUT_S = 60
KILL_EACH_S = 4.0
UNITS, EACH = 8, 60
TRANSACTED = AcknowledgeMode.TRANSACTED


def tasks(
    count: int,
    bootstrap: str,
    folder: Path,
    *,
    checkpoint_interval_ms: int = 50,
    dead_letters: str = "DLQ",
    partitions: int = 16,
    forwards: bool = False,
) -> list[ServerTask]:
    return [
        ServerTask(
            bootstrap=bootstrap,
            port=free_port(),
            state_dir=str(folder / f"place-{place}"),
            namespace="amqpkill",
            checkpoint_interval_ms=checkpoint_interval_ms,
            dead_letters=dead_letters,
            partitions=partitions,
            forwards=forwards,
        )
        for place in range(count)
    ]


def failover_to(*places: ServerProcess) -> str:
    urls = ",".join(each.url for each in places)
    return f"failover:({urls})?failover.randomize=true&failover.maxReconnectDelay=500"


def receive_unsettled(receiver: Any) -> tuple[Any, Any]:
    message = receiver.receive(timeout=TIMEOUT_S)
    return message.body, receiver.fetcher.unsettled.popleft()


@pytest.mark.thorough
@pytest.mark.timeout(200)
def test_what_is_confirmed_as_accepted_never_comes_again(bootstrap: str, tmp_path: Path) -> None:
    """AMQP-8: it was confirmed at once, and came again when the server was killed before its checkpoint."""
    queue = f"kept{secrets.token_hex(4)}"
    with running(*tasks(1, bootstrap, tmp_path, checkpoint_interval_ms=3_000)) as (server,):
        client = BlockingConnection(server.url, timeout=TIMEOUT_S)
        sender = client.create_sender(queue)
        sender.send(Message(body="one", durable=True, group_id="unit"))
        receiver = client.create_receiver(queue, credit=1)
        body, delivery = receive_unsettled(receiver)
        assert body == "one"
        delivery.update(Delivery.ACCEPTED)
        client.wait(lambda: delivery.settled)
        assert delivery.remote_state == Delivery.ACCEPTED
        server.restart()
        client = BlockingConnection(server.url, timeout=TIMEOUT_S)
        client.create_sender(queue).send(Message(body="two", durable=True, group_id="unit"))
        body, delivery = receive_unsettled(client.create_receiver(queue, credit=1))
        assert body == "two"
        client.close()


def properties_in(url: str, queue: str, count: int) -> list[dict[str, Any]]:
    """Those of all messages in a queue; there are so many at least. A server that was killed has its partitions until
    its session ends, and a drained link says nothing of those.
    """
    client: Any = BlockingConnection(url, timeout=TIMEOUT_S)
    receiver = client.create_receiver(queue, credit=1)
    found: list[dict[str, Any]] = []
    while True:
        if len(found) < count:
            receiver.link.flow(1 if receiver.link.credit == 0 else 0)
            client.wait(lambda: receiver.fetcher.has_message)
        else:
            receiver.link.drain(1 if receiver.link.credit == 0 else 0)
        client.wait(lambda: receiver.fetcher.has_message or not receiver.link.credit)
        if not receiver.fetcher.has_message:
            client.close()
            return found
        found.append(receiver.fetcher.pop().properties)
        receiver.accept()


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("servers", "partitions", "forwards", "batch"),
    [(1, 16, False, 0), pytest.param(2, 16, False, 0, marks=pytest.mark.slow), (2, 1, True, 0), (2, 4, True, 3)],
)
def test_killed_servers_lose_nothing_and_keep_units_in_order(
    servers: int, partitions: int, forwards: bool, batch: int, java_clients: JavaClients, bootstrap: str, tmp_path: Path
) -> None:
    """AMQP-9, UNIT-1, UNIT-2, REDELIVER-5, ACK-7, SEL-2: by a failover URI Qpid JMS goes on at a new server on the same
    port, or at the other; where they forward to each other one of them has the only partition, or transactions have
    messages of both, and each has one result."""
    dead_letters = f"dead{secrets.token_hex(4)}"
    made = tasks(servers, bootstrap, tmp_path, dead_letters=dead_letters, partitions=partitions, forwards=forwards)
    with running(*made) as places:
        said = {
            "url": failover_to(*places),
            "urls": " ".join(map(failover_to, places)),
            "queue": f"killed{secrets.token_hex(4)}",
            "units": str(UNITS),
            "each": str(EACH),
            "consumers": "4",
            "pause": "20",
            "limit": "200",
            "batch": str(batch),
        }
        client = java_clients.start("FailoverClient", (), said)
        kills = 0
        for place in itertools.cycle(places):
            try:
                client.wait(KILL_EACH_S)
                break
            except subprocess.TimeoutExpired:
                if kills < 4:  # then they may come to an end
                    kills += 1
                    place.restart()
        output, _ = client.communicate()
        every = {(unit, number) for unit in range(UNITS) for number in range(EACH)}
        if batch:  # the last ones may not be committed; then they are there still
            found: list[dict[str, Any]] = []
            ends_at = time.monotonic() + TIMEOUT_S
            while len(found) < len(every) and time.monotonic() < ends_at:
                for queue in (said["queue"], f"{said['queue']}.results"):
                    found += properties_in(places[0].url, queue, 0)
        else:
            every = {(unit, number) for unit, number in every if number % 10 == 5}
            found = properties_in(places[0].url, dead_letters, len(every))
    print(output)
    # One that was sent again after a break, and so is there twice, is not dead twice.
    origin = ["unit", "number"] if batch else ["_JBM_ORIG_PARTITION", "_JBM_ORIG_OFFSET"]
    assert len(found) == len({tuple(each[name] for name in origin) for each in found})
    assert {(each["unit"], each["number"]) for each in found} == every
    assert output.rstrip().endswith("WELL")
    assert kills > 1


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_the_api_goes_on_by_another_server_when_its_own_is_killed(bootstrap: str, tmp_path: Path) -> None:
    """AMQP-15, UNIT-1: what is sent again has its duplicate id, so nothing is there twice; units stay in order."""
    queue = Queue(f"killed{secrets.token_hex(4)}")
    with running(*tasks(2, bootstrap, tmp_path)) as places:
        url = "amqp://" + ",".join(each.url.removeprefix("amqp://") for each in places)
        with ConnectionFactory(url).create_connection() as connection:
            sending, receiving = (connection.create_session(mode) for mode in (AcknowledgeMode.AUTO, TRANSACTED))
            producer, consumer = sending.create_producer(queue), receiving.create_consumer(queue)
            done: dict[str, int] = dict.fromkeys("abcd", -1)
            for number in range(EACH):
                for unit in done:
                    _send_surely(producer, f"{unit}{number}", unit)
                if number in (10, 30):
                    places[number // 30].restart()
            while min(done.values()) < EACH - 1:
                try:
                    message = consumer.receive(TIMEOUT_S)
                    assert message is not None, done
                    receiving.commit()
                except errors.TransactionRolledBackError:
                    continue
                unit, number = str(message.body)[0], int(str(message.body)[1:])
                assert number == done[unit] + 1, (message, done)
                done[unit] = number
                if unit == "a" and number in (10, 30):
                    places[number // 30].restart()


def _send_surely(producer: MessageProducer, body: str, unit: str) -> None:
    for _ in range(20):
        try:
            producer.send(body, unit_of_order=unit, duplicate_id=body)
        except errors.SendTimeoutError:
            continue
        return
    raise AssertionError(f"{body} was never confirmed")
