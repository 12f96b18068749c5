"""Messages that are large, or have many values, or whose rest does not come: they cost their sender, nobody else."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from proton import Delivery, Described, Message, symbol
from proton.utils import BlockingConnection, LinkDetached

from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.incoming import VALUES_MAX, Producer, _let_others_run
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp.shares import Whose
from jbm_kafka.amqp.unfinished import Unfinished
from jbm_kafka.codec.amqp.sections import VALUE, section
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.amqp.blocking_transactions import TRANSACTIONAL, BlockingTransaction
from tests.support.waiting import wait_until

TIMEOUT_S = 20
HERE, THERE, ALICE = Whose("address", "10.0.0.1"), Whose("address", "10.0.0.2"), Whose("user", "alice")
LARGE: dict[str, Any] = {
    "many values": [5] * 3_000,
    "values in values": [[[number] * 3] * 4 for number in range(300)],
    "many bytes": "x" * 70_000,
}


@pytest.fixture
def server() -> Iterator[Server]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    limits = Limits(message_bytes=8 * 2**20, unfinished_bytes=900_000, unfinished_bytes_per_user=600_000)
    settings = ServerSettings([Listener(port=0)], limits=limits, drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made


def connect(server: Server) -> Any:
    return BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    connection = connect(server)
    yield connection
    connection.close()


@pytest.fixture
def goes_on(server: Server) -> Iterator[threading.Event]:
    """The thread for large messages has something else to do until it is set."""
    event = threading.Event()
    server.encoder.submit(event.wait, TIMEOUT_S)
    yield event
    event.set()


def is_to_be_read(server: Server) -> None:
    wait_until(lambda: server.encoder._work_queue.qsize() > 0, about="it is to be read beside", timeout_s=TIMEOUT_S)


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_others_are_served_while_a_large_message_is_read_and_what_is_behind_it_stays_behind_it(
    server: Server, client: Any, goes_on: threading.Event, body: Any
) -> None:
    """AMQP-10, ORDER-1: from another sender of its session, too."""
    first, second = (client.create_sender("orders", name=f"sender {number}") for number in range(2))
    sent = [first.link.send(Message(body=body, durable=True)), second.link.send(Message(body="small", durable=True))]
    client.create_sender("others")
    is_to_be_read(server)
    another = connect(server)
    another.create_sender("others").send(Message(body="other", durable=True))
    another.close()
    assert not any(each.settled for each in sent)
    goes_on.set()
    client.wait(lambda: all(each.settled for each in sent))
    receiver = client.create_receiver("orders", credit=2)
    assert [receiver.receive(timeout=TIMEOUT_S).body for _ in range(2)] == [body, "small"]


def test_a_commit_waits_for_a_large_message_before_it(server: Server, client: Any, goes_on: threading.Event) -> None:
    """Of ORDER-1: both are there, in order."""
    transaction = BlockingTransaction(client)
    sender = client.create_sender("orders")
    for body in (LARGE["many values"], "small"):
        delivery = sender.link.send(Message(body=body, durable=True))
        delivery.local.data = [transaction.id]
        delivery.update(TRANSACTIONAL)
    discharge = Described(symbol("amqp:discharge:list"), [transaction.id, False])
    commit = transaction._control.link.send(Message(body=discharge))
    client.create_sender("others")
    is_to_be_read(server)
    assert not commit.settled
    goes_on.set()
    client.wait(lambda: commit.settled)
    assert commit.remote_state == Delivery.ACCEPTED
    receiver = client.create_receiver("orders", credit=2)
    assert [receiver.receive(timeout=TIMEOUT_S).body for _ in range(2)] == [LARGE["many values"], "small"]


def test_large_messages_are_read_on_a_thread_of_their_own_and_small_ones_on_the_loop() -> None:
    """AMQP-10."""
    threads: set[tuple[str, str]] = set()
    codes = {each.__code__: each.__name__ for each in (_let_others_run, Producer._read_at_once)}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            threads.add((codes[frame.f_code], threading.current_thread().name))

    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    threading.setprofile(note)
    try:
        with Server(ServerSettings([Listener(port=0)], drain_s=0.0), lambda: in_memory.connect(installation)) as made:
            sender = connect(made).create_sender("orders")
            for body in ("small", LARGE["many values"]):
                sender.send(Message(body=body, durable=True))
    finally:
        threading.setprofile(None)
    assert threads == {("_read_at_once", "jbm-amqp"), ("_let_others_run", "jbm-amqp-encoder_0")}


def test_a_message_of_more_than_a_million_values_is_refused_by_its_count(client: Any) -> None:
    """AMQP-10: and what comes behind it is taken."""
    count = VALUES_MAX + 1
    body = b"\xd0" + (20).to_bytes(4, "big") + count.to_bytes(4, "big") + b"\x43" * 16
    sender = client.create_sender("orders")
    sent = sender.link.delivery("many")
    sender.link.stream(section(VALUE, body))
    sender.link.advance()
    small = sender.link.send(Message(body="small", durable=True))
    client.wait(lambda: sent.settled and small.settled)
    assert "more than 1000000 values" in sent.remote.condition.description
    assert client.create_receiver("orders", credit=1).receive(timeout=TIMEOUT_S).body == "small"


def part(client: Any, name: str, size: int) -> Any:
    """A sender that has sent so many bytes of a message, and not the rest."""
    sender = client.create_sender("orders", name=name)
    sender.link.delivery("endless")
    sender.link.stream(section(VALUE, b"\xb0" + (2**22).to_bytes(4, "big")) + bytes(size))
    return sender


def test_who_has_too_many_unfinished_bytes_loses_the_link_that_sends_more(server: Server, client: Any) -> None:
    """AMQP-10: of all connections of the address together; others send on."""
    part(client, "one", 400_000)
    client.wait(lambda: server.unfinished.bytes > 400_000)
    another = connect(server)
    part(another, "two", 300_000)
    with pytest.raises(LinkDetached, match=r"resource-limit-exceeded.*600000 bytes of address '127.0.0.1'"):
        another.wait(lambda: False)
    another.create_sender("orders", name="three").send(Message(body="small", durable=True))
    another.close()
    wait_until(lambda: 400_000 < server.unfinished.bytes < 500_000, about="only the first", timeout_s=TIMEOUT_S)
    client.close()
    wait_until(lambda: server.unfinished.bytes == 0, about="nothing is left", timeout_s=TIMEOUT_S)


def test_a_message_in_many_parts_is_unfinished_no_more_when_its_rest_has_come(server: Server, client: Any) -> None:
    body = "x" * 500_000
    for _ in range(3):
        client.create_sender("orders", name=secrets.token_hex(4)).send(Message(body=body, durable=True))
    assert server.unfinished.bytes == 0
    assert client.create_receiver("orders", credit=1).receive(timeout=TIMEOUT_S).body == body


def test_beyond_what_all_may_have_the_largest_of_who_has_most_ends() -> None:
    """AMQP-10: else who has most would keep everybody else from sending."""
    parts: Unfinished[str] = Unfinished(most=100, most_each=60)
    assert parts.add(HERE, "h1", 20) is None
    assert parts.add(HERE, "h2", 30) is None
    assert parts.add(THERE, "t1", 40) is None
    assert parts.add(ALICE, "a1", 20) == ("h2", "100 bytes of all clients")
    parts.drop(HERE, "h2")
    parts.drop(HERE, "unknown")
    assert parts.add(ALICE, "a1", 0) is None
    assert parts.add(ALICE, "a2", 41) == ("a2", "60 bytes of user 'alice'")
    for whose, link in ((HERE, "h1"), (THERE, "t1"), (ALICE, "a1"), (ALICE, "a2"), (ALICE, "a2")):
        parts.drop(whose, link)
    assert parts.bytes == 0


def test_a_message_for_a_coordinator_that_has_no_end_ends_its_link(client: Any) -> None:
    """AMQP-10: the engine kept all of it."""
    control = BlockingTransaction(client)._control
    control.link.delivery("endless")
    control.link.stream(bytes(10_000))
    with pytest.raises(LinkDetached, match="message-size-exceeded"):
        client.wait(lambda: False)
