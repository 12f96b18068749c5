"""What of the API over AMQP has no like elsewhere: who comes in, what is refused, and connections that break."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    ConnectionFactory,
    Message,
    Queue,
    Reject,
    Topic,
    Worker,
    XAConnectionFactory,
    aio,
    errors,
)
from jbm_kafka.amqp.access import Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.core.receiving.hand import HERE
from jbm_kafka.jms.connection import Connection
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.secured import Certificates, make_certificates
from tests.support.waiting import wait_until

TIMEOUT_S = 20.0
PASSWORD = "päss, =word"
USERS = {
    "shop": User(Verifier.of_password(PASSWORD), {"send": ["orders.#"], "receive": ["orders.#"], "browse": ["#"]}),
    "carol": User(rights={"send": ["#"], "receive": ["orders.#"]}),
}


@pytest.fixture
def world() -> str:
    return f"amqp{secrets.token_hex(4)}"


def serve(world: str, *listeners: Listener, access: Access | None = None) -> Server:
    """A server over a world in memory."""
    settings = ServerSettings(listeners or [Listener(port=0)], drain_s=0.0)
    if access is not None:
        settings = ServerSettings(listeners, access, drain_s=0.0)
    installation = Installation(world, {}, None, SidecarConfig())
    return Server(settings, lambda: in_memory.connect(installation))


@pytest.fixture
def server(world: str) -> Iterator[Server]:
    with serve(world) as made:
        yield made


def url_of(*servers: Server) -> str:
    return "amqp://" + ",".join(f"127.0.0.1:{each.ports[0]}" for each in servers)


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with ConnectionFactory(url_of(server)).create_connection() as made:
        yield made


def eventually(holds: Callable[[], bool]) -> None:
    wait_until(holds, about="what follows from what was done", timeout_s=TIMEOUT_S)


def break_all(server: Server) -> None:
    """As when the network does."""
    for wire in list(server.wires):
        server.loop.call_soon_threadsafe(wire.abort)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(world: str, certificates: Certificates) -> Iterator[Server]:
    """A listener without TLS, and one with it."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.authority))
    tls.load_cert_chain(certificates.server)
    tls.verify_mode = ssl.CERT_OPTIONAL
    with serve(world, Listener(port=0), Listener(port=0, tls=tls), access=Access(USERS)) as made:
        yield made


def test_a_user_comes_in_by_password_and_may_what_his_patterns_say(secured: Server) -> None:
    """AMQP-14."""
    factory = ConnectionFactory(f"amqp://localhost:{secured.ports[0]}")
    with factory.create_connection("shop", PASSWORD) as connection:
        session = connection.create_session()
        session.create_producer(Queue("orders.new")).send("one")
        message = session.create_consumer(Queue("orders.new")).receive(TIMEOUT_S)
        assert message is not None
        assert message.body == "one"
        with pytest.raises(errors.JMSSecurityError, match="user 'shop' may not"):
            session.create_consumer(Queue("payments"))
        with pytest.raises(errors.JMSSecurityError, match="user 'shop' may not"):
            session.create_producer().send("two", destination=Queue("payments"))
    with pytest.raises(errors.JMSSecurityError, match="does not let user 'shop' in"):
        factory.create_connection("shop", "wrong")
    with pytest.raises(errors.JMSSecurityError, match="a client without user"):
        factory.create_context()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN", "EXTERNAL"])
def test_over_tls_also_by_plain_and_by_certificate(secured: Server, certificates: Certificates, mechanism: str) -> None:
    """AMQP-14."""
    kafka: dict[str, object] = {"ssl.ca.location": str(certificates.authority), "sasl.mechanism": mechanism}
    if mechanism == "EXTERNAL":
        kafka |= {
            "ssl.certificate.location": str(certificates.certificate),
            "ssl.key.location": str(certificates.key),
        }
    else:
        kafka |= {"sasl.username": "shop", "sasl.password": PASSWORD}
    url = f"amqps://localhost:{secured.ports[1]}"
    with ConnectionFactory(url, kafka=kafka).create_context() as context:
        context.create_producer().send(Queue("orders.new"), "one")
        assert context.create_consumer(Queue("orders.new")).receive_body(str, TIMEOUT_S) == "one"
    with pytest.raises(errors.ConnectionFailedError, match=r"the certificate of localhost:.* is not trusted"):
        ConnectionFactory(url).create_connection()


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("amqp://x", {"address_settings": {"#": AddressSettings()}}, "address_settings: settings of the sidecar"),
        ("amqp://x", {"namespace": "a", "state_dir": "/nowhere"}, "namespace, state_dir: settings of the sidecar"),
        ("amqp://x", {"kafka": {"acks": "all"}}, "'acks'.*is for a Kafka client"),
        ("amqp://x", {"kafka": {"ssl.ca.location": "a.pem"}}, "is for TLS; write amqps://"),
        ("amqps://x", {"kafka": {"ssl.ca.location": "/no/a.pem"}}, "ssl.ca.location is '/no/a.pem': No such"),
        ("amqp://x", {"kafka": {"sasl.mechanism": "GSSAPI"}}, "sasl.mechanism is 'GSSAPI'"),
        ("amqp://shop:secret@x", {}, r"url is 'amqp://\*\*\*@x': give user and password"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(url: str, options: dict[str, object], text: str) -> None:
    """AMQP-14."""
    with pytest.raises(errors.InvalidSettingError, match=text) as refused:
        ConnectionFactory(url, **options)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_nobody_there_is_told_with_the_addresses(world: str) -> None:
    """AMQP-14."""
    with serve(world) as gone:
        url = url_of(gone)
    with pytest.raises(errors.ConnectionFailedError, match=f"{url}: nobody answers at 127.0.0.1"):
        ConnectionFactory(url).create_connection()


def test_a_port_without_tls_is_told(server: Server) -> None:
    """AMQP-14."""
    with pytest.raises(errors.ConnectionFailedError, match="is it without TLS\\? then write amqp://"):
        ConnectionFactory(url_of(server).replace("amqp:", "amqps:")).create_connection()


def test_distributed_transactions_are_refused(server: Server) -> None:
    """AMQP-14."""
    with XAConnectionFactory(url_of(server)).create_xa_connection() as connection:
        session = connection.create_xa_session()
        with pytest.raises(errors.IllegalStateError, match="not served over AMQP"):
            session.tpc_begin(session.xid(1, "a", "b"))
        with pytest.raises(errors.IllegalStateError, match="not served over AMQP"):
            session.tpc_recover()


def test_a_client_id_is_one_connections(server: Server) -> None:
    """AMQP-14, CONN-2."""
    factory = ConnectionFactory(url_of(server), client_id="billing")
    with factory.create_connection() as first:
        assert first.client_id == "billing"
        with pytest.raises(errors.InvalidClientIDError, match="billing"):
            factory.create_connection()
    factory.create_connection().close()


def test_a_message_is_the_same_over_amqp_and_beside_it(connection: Connection, world: str) -> None:
    """AMQP-14: both ways, with a unit beside another group, and a duplicate id."""
    queue = Queue("orders")
    options: dict[str, Any] = {
        "unit_of_order": "joe",
        "correlation_id": "c",
        "type": "t",
        "reply_to": Topic("answers"),
        "priority": 8,
    }
    with ConnectionFactory(f"memory://{world}").create_connection() as beside:
        for sender, receiver in ((connection, beside), (beside, connection)):
            producer = sender.create_session().create_producer(queue)
            sent, _ = (
                producer.send(
                    {"a": 1}, properties={"JMSXGroupID": "other", "n": 1}, duplicate_id=str(id(sender)), **options
                )
                for _ in range(2)
            )
            with receiver.create_session() as session:
                consumer = session.create_consumer(queue)
                got = consumer.receive(TIMEOUT_S)
                assert consumer.receive(0.2) is None
            assert got is not None
            assert (got.body, got.unit_of_order, dict(got.properties)) == (
                {"a": 1},
                "joe",
                {"JMSXGroupID": "other", "n": 1},
            )
            for name in ("correlation_id", "type", "reply_to", "priority", "timestamp", "delivery_mode"):
                assert getattr(got, name) == getattr(sent, name), name


def test_asyncio_and_workers_go_by_it_too(server: Server) -> None:
    """AMQP-14: a transaction on an event loop; and handlers, of which one fails once."""
    queue, got = Queue("orders"), list[tuple[object, int]]()

    async def transact() -> list[object]:
        async with (
            aio.ConnectionFactory(url_of(server)).create_connection() as connection,
            connection.create_session(AcknowledgeMode.TRANSACTED) as session,
        ):
            producer, consumer = await session.create_producer(queue), await session.create_consumer(queue)
            for body in ("1", "2"):
                await producer.send(body, unit_of_order="u")
            await session.commit()
            received = [await consumer.receive(TIMEOUT_S) for _ in range(2)]
            await session.commit()
            assert await consumer.receive(0.1) is None
            return [message.body for message in received if message is not None]

    assert asyncio.run(transact()) == ["1", "2"]
    worker = Worker(url_of(server))

    @worker.handler("orders", concurrency=2)
    def take(message: Message) -> None:
        got.append((message.body, message.delivery_count))
        if got[-1] == ("a", 1):
            raise ValueError("once")

    with ConnectionFactory(url_of(server)).create_sender() as sender:
        for body in "ab":
            sender.send(queue, body, unit_of_order="u")
    worker.start()
    eventually(lambda: len(got) == 3)
    worker.stop()
    assert got == [("a", 1), ("a", 2), ("b", 1)]


def test_a_connection_that_breaks_is_told_and_what_was_in_hand_comes_again(
    connection: Connection, server: Server
) -> None:
    """AMQP-15."""
    told: list[Exception] = []
    connection.exception_listener = told.append
    queue = Queue("orders")
    session = connection.create_session(AcknowledgeMode.CLIENT)
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    for body in ("a", "b"):
        producer.send(body, unit_of_order="u")
    first = consumer.receive(TIMEOUT_S)
    assert first is not None
    break_all(server)
    eventually(lambda: len(told) == 2)
    assert {type(each) for each in told} == {errors.ConnectionFailedError, errors.JMSError}
    producer.send("c", unit_of_order="u")
    again = [consumer.receive(TIMEOUT_S) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in again if each is not None] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    with pytest.raises(errors.IllegalStateError, match="refused"):
        first.acknowledge()
    session.acknowledge()
    assert consumer.receive(0.2) is None


def test_a_transaction_whose_connection_breaks_is_rolled_back(connection: Connection, server: Server) -> None:
    """AMQP-15."""
    queue, target = Queue("orders"), Queue("done")
    connection.create_session().create_producer(queue).send("a", unit_of_order="u")
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    consumer = session.create_consumer(queue)
    assert consumer.receive(TIMEOUT_S) is not None
    session.create_producer(target).send("done")
    break_all(server)
    eventually(lambda: not consumer._link.group_worker.is_running)
    with pytest.raises(errors.TransactionRolledBackError):
        session.commit()
    again = consumer.receive(TIMEOUT_S)
    assert again is not None
    assert again.body == "a"
    session.create_producer(target).send("done twice")
    session.commit()
    browser = connection.create_session().create_browser(target, include="all")
    assert [message.body for message in browser] == ["done twice"]


@pytest.mark.parametrize("prefetch", [1, 100])
def test_what_is_acknowledged_before_it_arrives_is_found_and_is_no_more_than_the_prefetch(
    server: Server, prefetch: int
) -> None:
    """ACK-4: what was being acknowledged counted nowhere, so it was overlooked, and asked for once more."""
    factory = ConnectionFactory(url_of(server), block_on_acknowledge=True, prefetch=prefetch)
    with factory.create_connection() as connection:
        connection.start()
        with connection.create_session() as session:
            producer = session.create_producer(Queue("orders"))
            for number in range(20):
                producer.send(str(number))
        consumer = connection.create_session(AcknowledgeMode.PRE).create_consumer(Queue("orders"))
        found = set()
        for _ in range(20):
            message = consumer.receive_nowait()
            assert message is not None
            found.add(message.body)
            assert len(consumer._link.buffer.at(HERE)) <= prefetch
    assert len(found) == 20


def test_of_several_servers_another_is_used_when_one_ends(world: str) -> None:
    """AMQP-15: listeners and a durable subscription go on there. "one" is marked if it comes again."""
    prices, got = Topic("prices"), list[tuple[object, bool]]()
    with ExitStack() as stack:
        second = stack.enter_context(serve(world))
        first = serve(world)
        first.start()
        factory = ConnectionFactory(url_of(first, second), client_id="billing")
        connection = stack.enter_context(factory.create_connection())
        session = connection.create_session()
        consumer = session.create_durable_consumer(prices, "audit")
        consumer.set_listener(lambda message: got.append((message.body, message.redelivered)))
        sending = connection.create_session().create_producer(prices)
        sending.send("one")
        eventually(lambda: got == [("one", False)])
        first.stop()
        sending.send("two")
        eventually(lambda: [each for each in got if each != ("one", True)] == [("one", False), ("two", False)])


def test_a_worker_with_schedules_says_that_they_need_the_brokers(server: Server) -> None:
    worker = Worker(url_of(server))
    worker.cron("0 3 * * *", queue="orders", name="nightly")(lambda: None)
    with pytest.raises(errors.IllegalStateError, match=r"schedules are recorded in Kafka, and amqp://.* goes through"):
        worker.start()
    assert worker.connection is None


def test_tasks_go_over_amqp_and_their_results_come_back(server: Server) -> None:
    worker = Worker(url_of(server))

    @worker.task("orders")
    def double(count: int) -> int:
        if count < 0:
            raise Reject("too few")
        return 2 * count

    worker.start()
    try:
        assert double.ask(21).get(timeout=TIMEOUT_S) == 42
        with pytest.raises(errors.TaskFailedError, match="task 'double' failed: too few"):
            double.ask(-1).get(timeout=TIMEOUT_S)
    finally:
        worker.stop()
