"""Limits and batches of a worker over AMQP: the same, but for what is divided by partitions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from jbm_kafka import ConnectionFactory, Failed, Message, PauseOn, Queue, Worker
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.waiting import wait_until

ORDERS = Queue("orders")
TIMEOUT_S = 30.0


@pytest.fixture
def url() -> Iterator[str]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings([Listener(port=0)], drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        yield f"amqp://127.0.0.1:{server.ports[0]}"


def send(url: str, *bodies: str) -> None:
    with ConnectionFactory(url).create_sender() as sender:
        for body in bodies:
            sender.send(ORDERS, body, unit_of_order="ann")


def test_a_batch_is_in_order_and_what_failed_comes_again(url: str) -> None:
    """HANDLER-5, HANDLER-6."""
    worker, seen = Worker(url), list[str]()

    @worker.batch(ORDERS, size=3, wait_ms=100)
    def take(messages: list[Message]) -> None:
        seen.extend(message.body for message in messages)
        if failed := [each for each in messages if each.body == "b" and each.delivery_count == 1]:
            raise Failed(failed)

    send(url, *"abcd")
    worker.start()
    wait_until(lambda: seen[-1:] == ["d"] and seen.count("b") == 2, about="all", timeout_s=TIMEOUT_S)
    assert worker.stop()
    assert list(dict.fromkeys(seen)) == list("abcd")
    assert seen.count("a") == 1


def test_a_handler_pauses_and_receives_again(url: str) -> None:
    """HANDLER-4."""
    worker, seen = Worker(url), list[str]()

    @worker.handler(ORDERS, rate="1000/s", pause_on=PauseOn(failures=2, for_s=0.2), timeout_s=30)
    def take(message: Message) -> None:
        if message.delivery_count < 3:
            raise ConnectionError("down")
        seen.append(message.body)

    send(url, *"ab")
    worker.start()
    wait_until(lambda: seen == list("ab"), about="all", timeout_s=TIMEOUT_S)
    connection = worker.connection
    assert connection is not None
    assert max(row.handler_pauses for row in connection.statistics().destinations) > 0
    assert worker.stop()


def test_a_total_rate_is_refused(url: str) -> None:
    """HANDLER-3."""
    worker = Worker(url)
    worker.handler(ORDERS, rate_total="1/s")(lambda message: None)
    with pytest.raises(InvalidSettingError, match="rate_total is '1/s': by AMQP nobody knows"):
        worker.start()
