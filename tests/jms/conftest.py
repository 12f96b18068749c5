"""One sidecar for all API tests; what differs by destination is said by patterns on the last word of its name.

Tests that need nothing of a broker but its promises run twice, on Kafka and on `memory://`, and must agree.
"""

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue, Topic, aio
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.over_amqp import SOON_OVER_AMQP, is_over_amqp
from tests.jms.support import SETTINGS
from tests.support.amqp_server import amqp_server
from tests.support.on_a_loop import LoopThread, OnALoop
from tests.support.topics import delete_topics_beginning_with

Connect = Callable[..., Connection]
RUN = f"jms-{uuid.uuid4().hex[:8]}"
ON_BOTH = {
    *(
        "test_auto",
        "test_dups_ok",
        "test_group_ack",
        "test_pre_and_no",
        "test_bad_input",
        "test_call_guard",
        "test_client",
        "test_completions",
        "test_consumers",
    ),
    *(
        "test_listener_failures",
        "test_individual",
        "test_lifecycle",
        "test_listeners",
        "test_messages",
        "test_one_unit",
    ),
    "test_listeners_at_close",
    *(
        "test_plain_texts",
        "test_polling",
        "test_receive_body",
        "test_redelivery",
        "test_send_order",
        "test_sending",
    ),
    *(
        "test_settling",
        "test_shared_sidecar",
        "test_transacted",
        "test_exception_listener",
        "test_unit_barriers",
        "test_units",
    ),
    "test_bookstore",
    "test_senders",
    "test_rejecting",
    "test_json_and_headers",
    "test_browser_selectors",
    "test_browsers_of_processes",
    "test_selectors",
    "test_bytes_messages",
    "test_map_and_stream",
    "test_object_messages",
    "test_record_deliveries",
    "test_duplicates",
    "test_subscriptions",
    "test_letters_to_topics",
    "test_private_subscribers",
    "test_subscription_selectors",
    "test_selectors_of_processes",
    "test_temporary_destinations",
    "test_requests",
}
"""The files of those tests; what is marked `kafka_only` in them excepted."""
ON_A_LOOP = {"test_auto", "test_individual", "test_transacted", "test_consumers", "test_polling", "test_receive_body"}
"""Of them those that `jbm_kafka.aio` must pass too, in memory; what is marked `threads_only` excepted."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both, where a test connects at all."""
    name = metafunc.module.__name__.rpartition(".")[2]
    if "backend" in metafunc.fixturenames and name in ON_BOTH:
        backends: list[object] = ["kafka"]
        if not metafunc.definition.get_closest_marker("kafka_only"):
            backends.append("memory")
        if name in ON_A_LOOP and len(backends) > 1 and not metafunc.definition.get_closest_marker("threads_only"):
            backends.append("aio")
        if len(backends) > 1 and is_over_amqp(name, metafunc.function.__name__):
            backends.append("amqp" if name in SOON_OVER_AMQP else pytest.param("amqp", marks=pytest.mark.thorough))
        metafunc.parametrize("backend", backends, indirect=True, scope="package")


@pytest.fixture(scope="package")
def backend(request: pytest.FixtureRequest) -> str:
    """`kafka`, `memory`, `aio`, which is in memory too, or `amqp`: a server in this process, over a world in memory."""
    return str(getattr(request, "param", "kafka"))


@pytest.fixture(scope="package")
def bootstrap(backend: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where tests connect to: the shared broker, started when first needed, a world in memory, or an AMQP server."""
    if backend == "kafka":
        yield str(request.getfixturevalue("shared_broker"))
    elif backend == "amqp":
        with amqp_server(f"{RUN}-{backend}", SETTINGS) as url:
            yield url
    else:
        yield f"memory://{RUN}-{backend}"


def make_factory(bootstrap: str, **options: object) -> ConnectionFactory:
    """Same sidecar as `warm`; other defaults for its connections."""
    if bootstrap.startswith("amqp://"):  # the server has the settings
        return ConnectionFactory(bootstrap, **options)  # type: ignore[arg-type]
    settings: dict[str, object] = {"session_timeout_ms": 3_000, "checkpoint_interval_ms": 20, **options}
    return ConnectionFactory(bootstrap, address_settings=SETTINGS, **settings)  # type: ignore[arg-type]


MakeFactory = Callable[..., ConnectionFactory]


@pytest.fixture(scope="package")
def factory_of(backend: str, bootstrap: str) -> Iterator[MakeFactory]:
    """Makes factories, as `make_factory`."""
    if backend != "aio":
        yield partial(make_factory, bootstrap)
        return
    thread = LoopThread()

    def make(**options: object) -> Any:
        awaited = aio.ConnectionFactory(bootstrap)
        awaited._inner = make_factory(bootstrap, **options)
        return OnALoop(awaited, thread)

    yield make
    thread.stop()


@pytest.fixture(scope="package")
def warm(bootstrap: str, factory_of: MakeFactory) -> Iterator[ConnectionFactory]:
    """The factory of most tests, with its sidecar kept running between them."""
    factory = factory_of()
    with factory.create_connection():
        yield factory
    if "://" not in bootstrap:
        delete_topics_beginning_with(bootstrap, RUN)


@pytest.fixture
def connect(warm: ConnectionFactory, factory_of: MakeFactory) -> Iterator[Callable[..., Connection]]:
    """Makes started connections that end with the test; options as of a factory's connections."""
    connections: list[Connection] = []

    def make(**options: object) -> Connection:
        connection = (factory_of(**options) if options else warm).create_connection()
        connections.append(connection)
        connection.start()
        return connection

    yield make
    for connection in reversed(connections):
        connection.close()


@pytest.fixture(scope="package")
def shared(warm: ConnectionFactory) -> Iterator[Connection]:
    with warm.create_connection() as connection:
        yield connection


@pytest.fixture
def connection(shared: Connection) -> Iterator[Connection]:
    """Started, and shared by most tests: not theirs to stop. Sessions that a test leaves open are closed."""
    yield shared
    for session in list(shared._sessions):
        session.close()


@pytest.fixture
def session(connection: Connection) -> Session:
    """An AUTO session, for sending and for receiving what is left."""
    return connection.create_session(AcknowledgeMode.AUTO)


@pytest.fixture
def prices() -> Topic:
    """A topic of two partitions that no other test has."""
    return Topic(f"{RUN}-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def client_id() -> str:
    """That no other test has."""
    return f"client-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def orders() -> Queue:
    """A queue of two partitions that no other test has."""
    return Queue(f"{RUN}-{uuid.uuid4().hex[:8]}")
