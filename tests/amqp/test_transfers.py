"""Messages as their bytes, by addresses of the server's own: against Artemis and RabbitMQ (docs/moving-in.md)."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from jbm_kafka import errors
from jbm_kafka.amqp_client.amqp_records import AmqpRecord
from jbm_kafka.amqp_client.transfer_connection import Sending, TransferConnection, TransferOutcome, TransferReceiving
from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage, decode_transfer
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.codec.property_header import Property
from jbm_kafka.core.destination import Queue
from tests.support.amqp_peers import PEERS, AmqpPeer, amqp_peer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(180)]

TIMEOUT_S = 20.0
NOTHING_S = 1.0
ORDERS = Queue("orders")


@pytest.fixture(scope="module", params=PEERS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpPeer]:
    with amqp_peer(request.param, tmp_path_factory.mktemp("peer")) as running:
        yield running


@pytest.fixture
def address(peer: AmqpPeer) -> str:
    """A queue that no other test has."""
    return peer.new_address()


@pytest.fixture
def connection(peer: AmqpPeer) -> Iterator[TransferConnection]:
    with closing(TransferConnection(peer.settings)) as made:
        yield made


def encoded(body: str, unit: str | None = None, **properties: str) -> bytes:
    held = {name: Property("string", value) for name, value in properties.items()}
    headers = encode_headers(message_id=f"ID:{body}", properties=held, body_kind=b"text")
    record = AmqpRecord("t", None, unit.encode() if unit else None, body.encode(), headers, 0)
    return encode_transfer(record, b"text", ORDERS, delivery_count=0, now_ms=int(time.time() * 1000))


def send(sending: Sending, *messages: bytes) -> None:
    """Return when the server has them all."""
    told: queue.Queue[tuple[TransferOutcome, str]] = queue.Queue()
    for each in messages:
        sending.send(each, lambda outcome, why: told.put((outcome, why)))
    for _ in messages:
        assert told.get(timeout=TIMEOUT_S) == (TransferOutcome.ACCEPTED, "")


def decoded(data: bytes) -> IncomingMessage:
    return decode_transfer(data, now_ms=int(time.time() * 1000))


def bodies(receiving: TransferReceiving, count: int) -> list[str]:
    """Of so many, which are accepted."""
    found: list[str] = []
    while len(found) < count:
        taken = receiving.take(count - len(found), TIMEOUT_S)
        assert taken, found
        found += [(decoded(each.data).value or b"").decode() for each in taken]
        receiving.accept(taken)
    return found


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_what_was_sent_comes_in_order_and_is_gone_when_it_is_accepted(
    connection: TransferConnection, address: str
) -> None:
    """Also by an address that is no name of ours, and more than may be unsettled."""
    send(connection.send_to(ORDERS, address), *(encoded(each, "joe") for each in numbered(100)))
    receiving = connection.receive_from(ORDERS, address, "", 10)
    assert bodies(receiving, 100) == numbered(100)
    assert receiving.take(1, NOTHING_S) == []


def test_no_more_comes_than_may_be_unsettled_and_all_goes_back_uncounted(peer: AmqpPeer, address: str) -> None:
    """So a bridge that is started anew again and again sends nothing to the server's dead letters."""
    with closing(TransferConnection(peer.settings)) as connection:
        send(connection.send_to(ORDERS, address), *(encoded(each) for each in numbered(30)))
        receiving = connection.receive_from(ORDERS, address, "", 8)
        first = receiving.take(8, TIMEOUT_S)
        while len(first) < 8:
            first += receiving.take(8 - len(first), TIMEOUT_S)
        assert receiving.take(1, NOTHING_S) == []
    with closing(TransferConnection(peer.settings)) as connection:
        receiving = connection.receive_from(ORDERS, address, "", 8)
        (again,) = receiving.take(1, TIMEOUT_S)
        assert (decoded(again.data).value, decoded(again.data).delivery_count) == (b"0", 0)
        receiving.accept([again])
        assert bodies(receiving, 29) == numbered(30)[1:]


def test_what_was_not_accepted_comes_again_in_order_after_a_kill_of_the_server(peer: AmqpPeer, address: str) -> None:
    """And so may what was: that is confirmed to nobody, which is why a bridge records what it has sent on."""
    connection = TransferConnection(peer.settings)
    try:
        send(connection.send_to(ORDERS, address), *(encoded(each, "joe") for each in numbered(20)))
        receiving = connection.receive_from(ORDERS, address, "", 10)
        assert bodies(receiving, 5) == numbered(5)
        assert receiving.take(3, TIMEOUT_S)
        peer.kill()
        wait_until(lambda: connection.broke is not None, about="the connection is over", timeout_s=TIMEOUT_S)
        with pytest.raises(errors.JMSError, match="connection"):
            receiving.take(10, TIMEOUT_S)
        peer.start()
    finally:
        connection.abort()
    with closing(TransferConnection(peer.settings)) as again:
        receiving = again.receive_from(ORDERS, address, "", 10)
        found = bodies(receiving, 15)
        while found[-1] != "19":
            found += bodies(receiving, 1)
        assert found == numbered(20)[-len(found) :]


def test_a_selector_is_served_or_what_it_does_not_choose_comes(
    connection: TransferConnection, address: str, peer: AmqpPeer
) -> None:
    """RabbitMQ says that it serves selectors, and does not: so a bridge looks itself."""
    send(connection.send_to(ORDERS, address), encoded("one", region="EU"), encoded("two", region="US"))
    receiving = connection.receive_from(ORDERS, address, "region = 'US'", 10)
    assert bodies(receiving, 1) == ["two" if peer.name == "artemis" else "one"]


def test_an_address_that_the_server_has_not_is_an_error_that_names_it(
    connection: TransferConnection, peer: AmqpPeer
) -> None:
    if peer.name == "rabbitmq":
        with pytest.raises(errors.JMSError, match="no queue 'nowhere'"):
            connection.receive_from(ORDERS, "/amq/queue/nowhere", "", 10)
