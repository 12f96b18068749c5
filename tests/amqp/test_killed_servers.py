"""AMQP servers on one broker are killed by SIGKILL while clients work."""

from __future__ import annotations

import itertools
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue, errors
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.jms.producer import MessageProducer
from tests.amqp.java_clients import JavaClients
from tests.amqp.server_process import ServerTask, running

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


def dead_numbers(url: str, dead_letters: str, count: int) -> list[tuple[tuple[int, int], int, int]]:
    """Place, unit and number of all dead letters, by their original places; there are so many at least. A server that
    was killed has its partitions until its session ends, and a drained link says nothing of those.
    """
    client: Any = BlockingConnection(url, timeout=TIMEOUT_S)
    receiver = client.create_receiver(dead_letters, credit=1)
    found: list[tuple[tuple[int, int], int, int]] = []
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
        letter: Any = receiver.fetcher.pop().properties
        receiver.accept()
        place = letter["_JBM_ORIG_PARTITION"], letter["_JBM_ORIG_OFFSET"]
        found.append((place, letter["unit"], letter["number"]))


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("servers", "partitions", "forwards"), [(1, 16, False), (2, 16, False), (2, 1, True)])
def test_killed_servers_lose_nothing_and_keep_units_in_order(
    servers: int, partitions: int, forwards: bool, java_clients: JavaClients, bootstrap: str, tmp_path: Path
) -> None:
    """AMQP-9, UNIT-1, UNIT-2, REDELIVER-5, of SEL-2: by a failover URI Qpid JMS goes on at a new server on the same
    port, or at the other; where they forward to each other one of them has the only partition."""
    dead_letters = f"dead{secrets.token_hex(4)}"
    made = tasks(servers, bootstrap, tmp_path, dead_letters=dead_letters, partitions=partitions, forwards=forwards)
    with running(*made) as places:
        said = {
            "url": f"failover:({','.join(each.url for each in places)})"
            "?failover.randomize=true&failover.maxReconnectDelay=500",
            "queue": f"killed{secrets.token_hex(4)}",
            "units": str(UNITS),
            "each": str(EACH),
            "consumers": "4",
            "pause": "20",
            "limit": "200",
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
        letters = dead_numbers(places[0].url, dead_letters, UNITS * (EACH // 10))
    print(output)
    # One that was sent again after a break, and so is there twice, is not dead twice.
    assert len(letters) == len({offset for offset, *_ in letters})
    assert {(unit, number) for _, unit, number in letters} == {
        (unit, number) for unit in range(UNITS) for number in range(5, EACH, 10)
    }
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
