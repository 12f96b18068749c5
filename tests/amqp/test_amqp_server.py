"""The AMQP server over memory://, with qpid-proton's own blocking client."""

from __future__ import annotations

import gc
import secrets
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from proton import Connection, Delivery, Endpoint, Message, Timeout, symbol
from proton.reactor import AtLeastOnce, AtMostOnce, Copy, LinkOption
from proton.utils import BlockingConnection, ConnectionClosed, LinkDetached

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.amqp import receiver_links
from jbm_kafka.amqp.access import ANONYMOUS, Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.incoming import VALUES_MAX
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp_wire import engine_objects
from jbm_kafka.codec.amqp.sections import VALUE, section
from jbm_kafka.codec.amqp.values import list_of
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.jms_errors import ConnectionFailedError, JMSError
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.amqp.blocking_transactions import BlockingTransaction, is_committed
from tests.support.waiting import wait_until

TIMEOUT_S = 20


class ThroughProvider:
    """The provider in memory, but that its answers are the test's: nothing fails or waits in memory by itself."""

    def __init__(self, config: SidecarConfig = SidecarConfig()) -> None:  # noqa: B008
        self.world = f"amqp{secrets.token_hex(4)}"
        self._inner: Any = in_memory.connect(Installation(self.world, {}, None, config))
        self.is_unsure = False
        """No commit is answered."""
        self.held: deque[Callable[[], None]] | None = None
        """Confirmations of sends, which the test gives."""
        self.has_room = threading.Event()
        """Not set: a send waits."""
        self.has_room.set()
        self.is_waiting = threading.Event()
        self.ensuring = threading.Barrier(1)
        """So many destinations are looked for at the same time, or none is found."""
        self.shown = 0
        """Messages that browsers read."""
        self.attach_errors: list[JMSError] = []
        """Of the next receivers that join."""
        self.workers: list[Any] = []
        """Those of receivers that joined."""

    def attach(self, source: Any, link: Any) -> Any:
        if self.attach_errors:
            raise self.attach_errors.pop(0)
        self.workers.append(self._inner.attach(source, link))
        return self.workers[-1]

    def browse(self, *arguments: Any, **said: Any) -> Iterator[Any]:
        for each in self._inner.browse(*arguments, **said):
            self.shown += 1
            yield each

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def ensure(self, destination: Any) -> Any:
        self.ensuring.wait(TIMEOUT_S)
        return self._inner.ensure(destination)

    def submit(self, work: Any) -> None:
        if self.is_unsure:
            work.done.complete(JMSError("Kafka did not answer, so its outcome is not known"))
        else:
            self._inner.submit(work)

    def try_send(self, record: Any, report: Callable[[Any], None], *, is_waited_for: bool) -> bool:
        if self.has_room.is_set():
            self.send(record, report, is_waited_for=is_waited_for)
            return True
        return False

    def send(self, record: Any, report: Callable[[Any], None], *, is_waited_for: bool) -> None:
        if not self.has_room.is_set():
            self.is_waiting.set()
            self.has_room.wait(TIMEOUT_S)
        held = self.held
        give = report if held is None else lambda error: held.append(partial(report, error))
        self._inner.send(record, give, is_waited_for=is_waited_for)


@pytest.fixture
def provider() -> Any:
    return ThroughProvider()


@pytest.fixture
def server(provider: Any) -> Iterator[Server]:
    limits = Limits(
        message_bytes=8 * 2**20,
        links_per_connection=5,
        unconfirmed_bytes=300_000,
        unread_bytes=1_000_000,
        open_timeout_s=1.0,
    )
    with Server(ServerSettings([Listener(port=0)], limits=limits, drain_s=0.0), lambda: provider) as made:
        yield made


def connect(server: Server) -> Any:
    return BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)


def is_empty(receiver: Any) -> bool:
    """Nothing more comes, says the server, for it was asked to tell."""
    receiver.link.drain(1)
    receiver.connection.wait(lambda: not receiver.link.credit)
    return not receiver.fetcher.has_message


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    connection = connect(server)
    yield connection
    connection.close()


def test_a_released_message_comes_again_uncounted(client: Any) -> None:
    client.create_sender("orders").send(Message(body="one", durable=True))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "one"
    receiver.release(delivered=False)
    again = receiver.receive(timeout=TIMEOUT_S)
    assert (again.body, again.delivery_count) == ("one", 0)
    receiver.accept()


def test_a_failed_message_comes_again_counted(client: Any) -> None:
    client.create_sender("orders").send(Message(body="one", durable=True))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).delivery_count == 0
    receiver.fetcher.unsettled[0].local.failed = True  # proton's client leaves delivery-failed out otherwise
    receiver.release(delivered=True)
    again = receiver.receive(timeout=TIMEOUT_S)
    assert again.delivery_count == 1
    receiver.accept()


def undeliverable(receiver: Any, *, failed: bool) -> None:
    """It says so of the message that it has."""
    local = receiver.fetcher.unsettled[0].local
    local.undeliverable, local.failed = True, failed
    receiver.release(delivered=True)


def accepted(receiver: Any, count: int) -> list[tuple[Any, int]]:
    """What comes next, each with its count."""
    found = []
    for _ in range(count):
        message = receiver.receive(timeout=TIMEOUT_S)
        found.append((message.body, message.delivery_count))
        receiver.accept()
    return found


@pytest.mark.parametrize("failed", [True, False])
def test_what_is_undeliverable_at_a_link_goes_to_others_with_its_unit_behind_it(client: Any, failed: bool) -> None:
    """AMQP-16: and this link goes on with other units."""
    sender = client.create_sender("orders")
    for body in ("joe 1", "ann 1", "joe 2", "ann 2"):
        sender.send(Message(body=body, durable=True, group_id=body[:3]))
    refusing = client.create_receiver("orders", credit=1)
    bodies = set()
    for number in range(2):
        bodies.add(refusing.receive(timeout=TIMEOUT_S).body)
        undeliverable(refusing, failed=failed)
        sender.send(Message(body=number, durable=True))
    assert bodies == {"joe 1", "ann 1"}
    assert sorted(accepted(refusing, 2)) == [(0, 0), (1, 0)]
    assert is_empty(refusing)
    found = accepted(client.create_receiver("orders", name="another"), 4)
    assert [row for row in found if "joe" in row[0]] == [("joe 1", int(failed)), ("joe 2", 0)]
    assert [row for row in found if "ann" in row[0]] == [("ann 1", int(failed)), ("ann 2", 0)]


def test_what_is_undeliverable_at_the_only_link_waits_until_it_is_another_one(
    provider: ThroughProvider, client: Any
) -> None:
    """AMQP-16, of UNIT-17."""
    sender = client.create_sender("orders")
    sender.send(Message(body="joe 1", durable=True, group_id="joe"))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "joe 1"
    undeliverable(receiver, failed=False)
    sender.send(Message(body="joe 2", durable=True, group_id="joe"))
    assert is_empty(receiver)
    with Admin(f"memory://{provider.world}") as admin:
        (joe,) = admin.explain(Queue("orders"), unit="joe").messages
    assert [reason.rule for reason in joe.reasons] == [Rule.UNDELIVERABLE_HERE]
    receiver.close()
    assert accepted(client.create_receiver("orders", name="another"), 2) == [("joe 1", 0), ("joe 2", 0)]


def test_what_expires_while_it_is_undeliverable_makes_room_for_what_is_behind_it(client: Any) -> None:
    """AMQP-16, SEND-5."""
    sender = client.create_sender("orders")
    sender.send(Message(body="joe 1", durable=True, group_id="joe", ttl=1.0))
    sender.send(Message(body="joe 2", durable=True, group_id="joe"))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "joe 1"
    undeliverable(receiver, failed=True)
    receiver.link.flow(1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "joe 2"


def test_what_is_undeliverable_everywhere_is_a_dead_letter_when_its_attempts_are_used_up(
    server: Server, client: Any
) -> None:
    """AMQP-16, REDELIVER-3: the default is ten."""
    client.create_sender("orders").send(Message(body="one", durable=True))
    clients = [connect(server) for _ in range(10)]
    for count, each in enumerate(clients):
        receiver = each.create_receiver("orders", credit=1)
        assert receiver.receive(timeout=TIMEOUT_S).delivery_count == count
        undeliverable(receiver, failed=True)
        each.create_sender("elsewhere")  # with the answer the outcome has come there
    letters = client.create_receiver("DLQ", credit=1)
    assert letters.receive(timeout=TIMEOUT_S).body == "one"
    for each in clients:
        each.close()


def test_a_message_larger_than_the_frame_is_carried(client: Any) -> None:
    body = secrets.token_bytes(700_000)
    client.create_sender("orders").send(Message(body=body, durable=True))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == body
    receiver.accept()


def test_a_client_that_asks_for_nothing_keeps_its_sidecar_in_no_group() -> None:
    """It joined and left each queue's group every 11 s, for ever: each of 60 took part of a processor for that."""
    provider: Any = ThroughProvider(SidecarConfig(membership_idle_ms=1))
    with Server(ServerSettings([Listener(port=0)], drain_s=0.0), lambda: provider) as server:
        client = connect(server)
        receiver = client.create_receiver("orders", credit=0)
        (worker,) = provider.workers
        wait_until(lambda: not worker.is_alive, about="it leaves", timeout_s=TIMEOUT_S)
        (wire,) = server.wires
        assert wire.peer is not None
        looked = threading.Event()
        server.loop.call_soon_threadsafe(wire.peer.pump)
        server.loop.call_soon_threadsafe(looked.set)
        assert looked.wait(TIMEOUT_S)
        client.create_receiver("others", credit=0)
        assert len(provider.workers) == 2  # of each queue one
        client.create_sender("orders").send(Message(body="one"))
        assert receiver.receive(timeout=TIMEOUT_S).body == "one"
        receiver.accept()
        client.close()


def test_a_message_over_the_limit_costs_its_link_alone(client: Any) -> None:
    """AMQP-10."""
    with pytest.raises(LinkDetached, match="message-size-exceeded"):
        client.create_sender("orders").send(Message(body=b"x" * (9 * 2**20)))
    client.create_sender("orders", name="another").send(Message(body="small"))


def test_the_engine_of_a_client_that_left_is_freed_at_once(server: Server) -> None:
    """AMQP-10: it was in memory until Python collected garbage, some hundred clients later."""
    gc.disable()
    try:
        client = connect(server)
        client.create_sender("orders").send(Message(body="x"))
        client.create_receiver("orders").receive(timeout=TIMEOUT_S)
        (wire,) = server.wires
        engine = weakref.ref(wire._engine)
        client.close()
        wait_until(lambda: engine() is None, about="the engine goes", timeout_s=TIMEOUT_S)
    finally:
        gc.enable()


def test_garbage_costs_its_connection_alone(server: Server, client: Any) -> None:
    """AMQP-10."""
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00" + b"\xff" * 64, secrets.token_bytes(4_096)):
        with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=TIMEOUT_S) as other:
            other.sendall(garbage)
            other.settimeout(TIMEOUT_S)
            while True:
                try:
                    if not other.recv(4_096):
                        break
                except ConnectionResetError:
                    break
    client.create_sender("orders").send(Message(body="still served"))


@pytest.mark.parametrize(
    ("descriptor", "fields", "place", "count"),
    [
        (0x25, [], "DLQ", 0),
        (0x26, [], "orders", 0),
        (0x27, [True], "orders", 1),
        (0x27, [False], "orders", 0),
    ],
)
def test_another_outcome_in_a_committed_transaction_holds(
    server: Server, client: Any, descriptor: int, fields: list[Any], place: str, count: int
) -> None:
    """AMQP-6: what was not accepted in it was removed by the commit before."""
    sender = client.create_sender("orders")
    sender.send(Message(body="one", durable=True))
    sender.send(Message(body="two", durable=True))
    transaction = BlockingTransaction(client)
    receiver = client.create_receiver("orders", credit=2)
    assert {receiver.receive().body, receiver.receive().body} == {"one", "two"}
    transaction.settle(receiver, descriptor, fields)
    transaction.settle(receiver, 0x24, [])
    assert is_committed(transaction.discharge())
    receiver.close()
    other = connect(server)
    again = other.create_receiver(place, credit=1)
    assert again.receive().delivery_count == count
    again.accept()
    assert is_empty(again)
    other.close()


def test_a_connection_that_breaks_in_a_transaction_loses_and_sends_nothing(server: Server, client: Any) -> None:
    """AMQP-6, AMQP-7: what the transaction had comes again, counted; what was only on its way uncounted, but marked."""
    sender = client.create_sender("orders")
    for number in range(3):
        sender.send(Message(body=number, durable=True, group_id="one"))
    broken = connect(server)
    transaction = BlockingTransaction(broken)
    receiver = broken.create_receiver("orders", credit=3)
    assert receiver.receive().body == 0
    transaction.settle(receiver, 0x24, [])
    assert receiver.receive().body == 1
    transaction.send(broken.create_sender("answers"), Message(body="answer"))
    wire = next(wire for wire in server.wires if wire.peer is not None and wire.peer.transactions)
    server.loop.call_soon_threadsafe(wire.abort)
    again = client.create_receiver("orders", credit=1)
    for number in range(3):
        message = again.receive()
        assert (message.body, message.delivery_count) == (number, 1 if number < 2 else 0)
        receiver_state = again.fetcher.unsettled[0]
        receiver_state.update(Delivery.ACCEPTED)
        receiver_state.settle()
        again.fetcher.unsettled.popleft()
    assert is_empty(client.create_receiver("answers", credit=0))


def test_a_commit_in_doubt_ends_the_connection_and_what_it_had_comes_again(
    provider: ThroughProvider, server: Server, client: Any
) -> None:
    """AMQP-6: nobody got it any more, for the receiver that had it waited for an end of its transaction."""
    client.create_sender("orders").send(Message(body="one", durable=True))
    unlucky = connect(server)
    transaction = BlockingTransaction(unlucky)
    receiver = unlucky.create_receiver("orders", credit=1)
    assert receiver.receive().body == "one"
    transaction.settle(receiver, 0x24, [])
    provider.is_unsure = True
    with pytest.raises(ConnectionClosed, match="its outcome is not known"):
        transaction.discharge()
    again = client.create_receiver("orders", credit=1)
    assert again.receive().body == "one"
    again.accept()


def test_a_receiver_that_left_its_group_joins_again_however_often_nobody_answers(
    provider: ThroughProvider, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an outage its link was ended, and a client that did not make another got nothing any more."""
    monkeypatch.setattr(receiver_links, "AGAIN_MIN_S", 0.01)
    receiver = client.create_receiver("orders", credit=1)
    group_worker = provider.sidecar.sources.group_worker_of(Queue("orders"))
    provider.attach_errors = [ConnectionFailedError("no answer from Kafka")] * 3  # before: it may look at once
    group_worker.stop()
    assert group_worker.join(TIMEOUT_S)
    receiver.flow(1)
    client.create_sender("orders").send(Message(body="one", durable=True))
    assert receiver.receive().body == "one"
    assert not provider.attach_errors


def test_links_without_end_are_refused(server: Server, client: Any) -> None:
    """AMQP-10."""
    greedy = connect(server)
    for number in range(5):
        greedy.create_sender(f"orders{number}")
    with pytest.raises(LinkDetached, match="more than 5 links"):
        greedy.create_sender("one-more")
    client.create_sender("orders").send(Message(body="still served"))


def test_a_client_that_sends_faster_than_kafka_takes_is_read_no_more(
    provider: ThroughProvider, server: Server, client: Any
) -> None:
    """AMQP-10: all that it had credit for was in memory, however large."""
    sender = client.create_sender("orders")
    sender.send(Message(body="first", durable=True))
    held = provider.held = deque()
    sent = [sender.link.send(Message(body=bytes(100_000), durable=True)) for _ in range(40)]
    sending = threading.Thread(target=lambda: client.wait(lambda: all(each.settled for each in sent)))
    sending.start()
    wait_until(lambda: len(held) >= 3, about="more than it may hold", timeout_s=TIMEOUT_S)
    for _ in range(5):
        connect(server).close()  # time for the server to read more, if it does
    most = len(held)
    while sending.is_alive():
        wait_until(lambda: bool(held) or not sending.is_alive(), about="the rest", timeout_s=TIMEOUT_S)
        while held:
            held.popleft()()
    assert most <= 12
    assert all(each.remote_state == Delivery.ACCEPTED for each in sent)


def test_who_closes_right_behind_what_it_sent_loses_nothing_of_it(server: Server, client: Any) -> None:
    """Behind the 64th its client kept them, and forgot them when it closed, though it had credit for all."""
    other = connect(server)
    sender = other.create_sender("orders")
    other.wait(lambda: sender.link.credit >= 300)
    for number in range(300):
        sender.link.send(Message(body=number))
    other.close()
    receiver = client.create_receiver("orders", credit=300)
    assert [receiver.receive(TIMEOUT_S).body for _ in range(300)] == list(range(300))


def test_a_browser_of_a_long_queue_reads_as_its_client_takes(provider: ThroughProvider, client: Any) -> None:
    """AMQP-10: the whole queue was in memory before the first message went to the client."""
    sender = client.create_sender("orders")
    sent = [sender.link.send(Message(body=number, durable=True)) for number in range(3_000)]
    client.wait(lambda: all(each.settled for each in sent))
    browser = client.create_receiver("orders", credit=1, options=Copy())
    assert browser.receive(TIMEOUT_S).body == 0
    assert provider.shown == 1_000
    browser.link.flow(2_999)
    assert [browser.receive(TIMEOUT_S).body for _ in range(2_999)] == list(range(1, 3_000))
    assert is_empty(browser)


def test_a_message_of_more_values_than_are_taken_is_refused(client: Any) -> None:
    """AMQP-10: eight million nulls, a byte each, kept every other client waiting for 20 s."""
    sender = client.create_sender("orders")
    many = sender.link.delivery("many")
    sender.link.stream(section(VALUE, list_of([b"\x40"] * (VALUES_MAX + 1))))
    sender.link.advance()
    client.wait(lambda: many.remote_state)
    assert many.remote_state == Delivery.REJECTED
    assert "more than 1000000 values" in many.remote.condition.description
    sender.send(Message(body=[None] * 1_000))


@pytest.mark.parametrize("credit", [1, 5])
def test_a_transaction_that_begins_behind_its_receiver_has_several_of_a_unit(client: Any, credit: int) -> None:
    """AMQP-6: as qpid-proton's examples do it; a client that commits after three waited for the second for ever."""
    sender = client.create_sender("orders")
    for number in range(4):
        sender.send(Message(body=number, group_id="joe", durable=True))
    receiver = client.create_receiver("orders", credit=credit)
    transaction = BlockingTransaction(client)
    for number in range(3):
        assert receiver.receive(TIMEOUT_S).body == number
        transaction.settle(receiver, 0x24, [])
    assert is_committed(transaction.discharge())
    assert receiver.receive(TIMEOUT_S).body == 3
    receiver.accept()


def test_new_queues_of_one_client_are_made_side_by_side(provider: ThroughProvider, client: Any) -> None:
    """40 of them took 29 s."""
    provider.ensuring = threading.Barrier(4)
    make = client.container
    links = [make.create_sender(client.conn, f"sent{number}") for number in range(2)]
    links += [make.create_receiver(client.conn, f"received{number}", name=f"receiver {number}") for number in range(2)]
    client.wait(lambda: all(link.state & Endpoint.REMOTE_ACTIVE for link in links))
    assert all(link.remote_target.address or link.is_receiver for link in links)


def test_a_presettled_message_that_is_refused_ends_its_link(client: Any) -> None:
    """It was lost without a word; only unsettled ones have an outcome."""
    sender = client.create_sender(None, options=AtMostOnce())
    sender.send(Message(address="jbm.registry", body="x"))
    with pytest.raises(LinkDetached, match="jbm"):
        client.wait(lambda: False)
    client.create_sender("orders").send(Message(body="others go on", durable=True))


@pytest.fixture
def large_then_small(server: Server, provider: ThroughProvider, client: Any) -> Iterator[threading.Event]:
    """A map of many entries from Python, and "small" behind it; large ones are encoded when the event is set."""
    with ConnectionFactory(f"memory://{provider.world}").create_context() as context:
        producer = context.create_producer()
        producer.send(Queue("orders"), {f"entry {number}": number for number in range(2_000)})
        producer.send(Queue("orders"), "small")
    goes_on = threading.Event()
    server.encoder.submit(goes_on.wait, TIMEOUT_S)
    yield goes_on
    goes_on.set()


@pytest.mark.parametrize("snd_settle_mode", [AtLeastOnce, AtMostOnce])
def test_others_are_served_while_a_map_of_many_entries_is_encoded(
    server: Server, client: Any, large_then_small: threading.Event, snd_settle_mode: Any
) -> None:
    """AMQP-10: they waited a second for one of 100,000. What is behind it on its link comes behind it."""
    receiver = client.create_receiver("orders", credit=0, options=snd_settle_mode())
    receiver.link.flow(2)  # by itself it would ask for more
    client.create_sender("others")
    wait_until(lambda: server.encoder._work_queue.qsize() > 0, about="it is to be encoded", timeout_s=TIMEOUT_S)
    another = connect(server)
    another.create_sender("others").send(Message(body="other", durable=True))
    assert another.create_receiver("others", credit=1).receive(timeout=TIMEOUT_S).body == "other"
    another.close()
    assert not receiver.fetcher.has_message
    receiver.link.drain(0)
    large_then_small.set()
    client.wait(lambda: not receiver.link.credit)
    assert len(receiver.receive(timeout=TIMEOUT_S).body) == 2_000
    assert receiver.receive(timeout=TIMEOUT_S).body == "small"


@pytest.mark.parametrize("closes", [True, False])
def test_what_a_client_wants_no_more_when_it_is_encoded_goes_to_others(
    server: Server, client: Any, large_then_small: threading.Event, closes: bool
) -> None:
    """AMQP-10: uncounted, whether its link is closed or has no credit any more."""
    receiver = client.create_receiver("orders", credit=0)
    receiver.link.flow(1)
    client.create_sender("others")
    wait_until(lambda: server.encoder._work_queue.qsize() > 0, about="it is to be encoded", timeout_s=TIMEOUT_S)
    if closes:
        receiver.close()
    else:
        receiver.link.flow(-1)
        client.create_sender("others", name="behind the flow")
    large_then_small.set()
    other = connect(server).create_receiver("orders", credit=2)
    found = [other.receive(timeout=TIMEOUT_S) for _ in range(2)]
    assert {type(each.body): each.delivery_count for each in found} == {dict: 0, str: 0}


def test_one_look_after_another_finds_each_message(client: Any) -> None:
    """A look that had found one answered the next one too: nothing is there, it said."""
    sender = client.create_sender("orders")
    sent = [sender.link.send(Message(body=number, durable=True)) for number in range(500)]
    client.wait(lambda: all(each.settled for each in sent))
    receiver = client.create_receiver("orders", credit=0)
    for number in range(500):
        assert not is_empty(receiver), number
        assert receiver.fetcher.pop().body == number
        receiver.accept()


def test_what_several_senders_of_a_session_send_comes_in_order(client: Any) -> None:
    """ORDER-1: each had a partition of its own, and so had one that was closed and made again."""
    first, second = (client.create_sender("orders", name=name) for name in ("first", "second"))
    for number in range(10):
        (first, second)[number % 2].send(Message(body=number, durable=True))
    second.close()
    client.create_sender("orders", name="second").send(Message(body=10, durable=True))
    receiver = client.create_receiver("orders", credit=11)
    assert [receiver.receive(TIMEOUT_S).body for _ in range(11)] == list(range(11))


def test_what_several_senders_of_a_session_send_at_once_comes_in_order(client: Any) -> None:
    """ORDER-1: where the first ones go is asked, and what came behind them went before the other sender's."""
    senders = [client.create_sender("orders", name=name) for name in ("first", "second", "third")]
    sent = [senders[number % 3].link.send(Message(body=number, durable=True)) for number in range(60)]
    client.wait(lambda: all(each.settled for each in sent))
    receiver = client.create_receiver("orders", credit=60)
    assert [receiver.receive(TIMEOUT_S).body for _ in range(60)] == list(range(60))


def test_a_partition_that_takes_nothing_stops_only_who_sends_to_it(
    provider: ThroughProvider, server: Server, client: Any
) -> None:
    """AMQP-10: the event loop itself waited for room, and with it every client."""
    first, second = client.create_sender("orders"), client.create_sender("orders", name="second")
    for sender in (first, second):
        sender.send(Message(body="known", durable=True))
    provider.has_room.clear()
    sent = [
        sender.link.send(Message(body=f"{who} {number}"))
        for number in range(3)
        for who, sender in (("first", first), ("second", second))
    ]
    sending = threading.Thread(target=lambda: client.wait(lambda: all(each.settled for each in sent)))
    sending.start()
    assert provider.is_waiting.wait(TIMEOUT_S)
    connect(server).create_receiver("others", credit=1)
    assert not any(each.settled for each in sent)
    provider.has_room.set()
    sending.join()
    receiver = client.create_receiver("orders", credit=20)
    found = [receiver.receive(TIMEOUT_S).body for _ in range(8)]
    assert found[2:] == [f"{who} {number}" for number in range(3) for who in ("first", "second")]


def test_a_client_that_stalls_in_the_middle_of_a_frame_is_let_go(server: Server, client: Any) -> None:
    """AMQP-10."""
    with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=TIMEOUT_S) as other:
        other.sendall(b"AMQP\x00\x01\x00\x00\x00\x00\x00\x40\x02")
        while other.recv(4_096):
            pass
    client.create_sender("orders").send(Message(body="still served"))


def test_a_client_that_reads_no_more_leaves_the_rest_to_others(server: Server, client: Any) -> None:
    """AMQP-10: it has a limit of what is on its way to it, whatever its credit."""
    sender = client.create_sender("orders")
    sent = [sender.link.send(Message(body=bytes(100_000), durable=True)) for _ in range(300)]
    client.wait(lambda: all(each.settled for each in sent))
    greedy = connect(server)
    # Linux would buffer all of it.
    greedy.conn.transport._selectable._delegate.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
    greedy.create_receiver("orders", credit=1_000).receive()
    others = client.create_receiver("orders", credit=1)
    for _ in range(100):
        others.receive()
        others.accept()


def test_what_a_client_has_when_it_rolls_back_comes_again_once_it_let_go_of_it(client: Any) -> None:
    """UNIT-1, UNIT-2: the client had two copies of it, the first of which it released late: so the second one was
    taken back behind its back, and went to others before what came before it."""
    sender = client.create_sender("orders")
    for number in range(3):
        sender.send(Message(body=number, durable=True, group_id="one"))
    transaction = BlockingTransaction(client)
    receiver = client.create_receiver("orders", credit=10)
    assert receiver.receive().body == 0
    transaction.settle(receiver, 0x24, [])
    assert receiver.receive().body == 1
    transaction.discharge(fails=True)
    other = client.create_receiver("orders", name="other", credit=10)
    assert is_empty(other)  # of the unit one is still in the first client's hand
    receiver.release(delivered=False)
    got = [receiver.receive() for _ in range(1)]
    assert [(each.body, each.delivery_count) for each in got] == [(0, 1)]
    receiver.accept()
    for number in (1, 2):
        message = receiver.receive()
        assert (message.body, message.delivery_count) == (number, 0)
        receiver.accept()


def test_a_drain_is_answered_right_behind_a_confirmation(client: Any) -> None:
    """AMQP-8: somebody had the confirmed delivery still, and Proton said nothing before it was let go of."""
    client.create_sender("orders").send(Message(body="one", durable=True))
    receiver = client.create_receiver("orders", credit=10)
    assert receiver.receive(TIMEOUT_S).body == "one"
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.update(Delivery.ACCEPTED)
    client.wait(lambda: delivery.settled)
    delivery.settle()
    assert is_empty(receiver)


def test_a_pause_stops_what_is_behind_a_message_of_its_unit_that_a_client_has(
    provider: ThroughProvider, client: Any
) -> None:
    """PAUSE-2: it waited where neither a pause nor the end of a lease found it, and was sent nonetheless."""
    sender = client.create_sender("orders")
    for number in range(3):
        sender.send(Message(body=number, durable=True, group_id="one"))
    transaction = BlockingTransaction(client)
    receiver = client.create_receiver("orders", credit=10)
    assert receiver.receive(TIMEOUT_S).body == 0
    [link] = provider.workers[-1].data.links.values()
    with Admin(f"memory://{provider.world}") as admin:
        admin.pause(Queue("orders"), "consumption")
        wait_until(lambda: not link.buffer, about="the pause takes back what is unread", timeout_s=TIMEOUT_S)
        transaction.settle(receiver, 0x24, [])
        assert is_empty(receiver)
        admin.resume(Queue("orders"))
    for number in (1, 2):
        message = receiver.receive(TIMEOUT_S)
        assert (message.body, message.delivery_count) == (number, 0)
        transaction.settle(receiver, 0x24, [])
    assert is_committed(transaction.discharge())


def test_only_what_a_client_was_sent_is_recorded_as_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """REDELIVER-7: what is behind it in its unit is not asked for, and a drain does not wait for that."""
    monkeypatch.setattr(receiver_links, "DRAIN_S", 10.0 * TIMEOUT_S)
    careful: Any = ThroughProvider(SidecarConfig(persist_delivery_count_before_delivery=True))
    with Server(ServerSettings([Listener(port=0)], drain_s=0.0), lambda: careful) as server:
        client = connect(server)
        sender = client.create_sender("orders")
        for number in range(3):
            sender.send(Message(body=number, durable=True, group_id="one"))
        transaction = BlockingTransaction(client)
        receiver = client.create_receiver("orders", credit=10)
        for number in range(3):
            assert receiver.receive(TIMEOUT_S).body == number
            assert is_empty(receiver)
            channels = careful.workers[-1].data.channels.values()
            assert sorted(o for each in channels for o in each.checkpoints.attempted) == [*range(number + 1)]
            transaction.settle(receiver, 0x24, [])
        client.close()


def test_a_client_that_wants_signs_of_life_gets_them_from_the_start(server: Server) -> None:
    """AMQP-10: for its first ten seconds it got none, and so it left."""
    client = BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S, heartbeat=1)
    with pytest.raises(Timeout):
        client.create_receiver("orders").receive(timeout=3)
    client.close()


@pytest.mark.parametrize("kind", ["temporary-queue", "temporary-topic"])
def test_a_receiver_with_a_dynamic_source_gets_the_answers_until_it_is_closed(
    server: Server, client: Any, kind: str
) -> None:
    """AMQP-13."""

    class Kind(LinkOption):
        def apply(self, link: Any) -> None:
            (link.source if link.is_receiver else link.target).capabilities.put_object(symbol(kind))

    answers = client.create_receiver(None, credit=1, dynamic=True, options=Kind())
    address = answers.link.remote_source.address
    assert answers.link.remote_source.dynamic
    other = connect(server)
    other.create_sender(address, options=Kind()).send(Message(body="an answer"))
    assert answers.receive(timeout=TIMEOUT_S).body == "an answer"
    answers.accept()
    with pytest.raises(LinkDetached, match="another connection made it"):
        other.create_receiver(address, options=Kind())
    answers.close()
    with pytest.raises(LinkDetached, match="not-found"):
        other.create_sender(address, name="later", options=Kind()).send(Message(body="too late"))
    other.close()


def test_an_object_of_the_engine_that_another_thread_drops_is_freed_by_its_own() -> None:
    """AMQP-10: garbage that a group worker's thread collected aborted the process."""
    dropped: list[Any] = []
    freed: list[int] = []

    def serve() -> None:
        engine_objects.own()
        dropped.append(Connection())
        made.set()
        is_dropped.wait(TIMEOUT_S)
        freed.append(engine_objects.let_go())
        engine_objects.disown()

    made, is_dropped = threading.Event(), threading.Event()
    owner = threading.Thread(target=serve)
    owner.start()
    made.wait(TIMEOUT_S)
    dropped.clear()
    is_dropped.set()
    owner.join(TIMEOUT_S)
    assert freed == [1]


def test_a_destination_is_reached_by_its_alias_and_rights_are_its_own(provider: Any) -> None:
    """AMQP-3: by links, by a message without one, and for answers."""
    aliases = {"/queues/orders": Queue("orders"), "shop:answers": Queue("answers"), "/queues/bills": Queue("bills")}
    access = Access({ANONYMOUS: User(None, {"send": ["orders"], "receive": ["orders"]})})
    settings = ServerSettings([Listener(port=0)], access, drain_s=0.0, aliases=aliases)
    with Server(settings, lambda: provider) as made:
        client = connect(made)
        client.create_sender("/queues/orders").send(Message("by a link", durable=True, reply_to="shop:answers"))
        client.create_sender(None).send(Message("by itself", durable=True, address="/queues/orders"))
        for name in ("/queues/orders", "orders"):
            receiver = client.create_receiver(name, credit=1)
            found = receiver.receive(TIMEOUT_S)
            assert (found.body, found.reply_to) in [("by a link", "answers"), ("by itself", None)]
            receiver.accept()
            receiver.close()
        with pytest.raises(LinkDetached, match="queue:bills"):
            client.create_sender("/queues/bills")
        with pytest.raises(LinkDetached, match="/queues/others"):
            client.create_sender("/queues/others")
        client.close()
