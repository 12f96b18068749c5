"""One sidecar for all API tests; what differs by destination is said by patterns on the last word of its name."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import SETTINGS
from tests.support.topics import delete_topics_beginning_with

Connect = Callable[..., Connection]
RUN = f"jms-{uuid.uuid4().hex[:8]}"


def make_factory(bootstrap: str, **options: object) -> ConnectionFactory:
    """Same sidecar as `warm`; other defaults for its connections."""
    settings: dict[str, object] = {"session_timeout_ms": 3_000, "checkpoint_interval_ms": 20, **options}
    return ConnectionFactory(bootstrap, address_settings=SETTINGS, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="package")
def warm(bootstrap: str) -> Iterator[ConnectionFactory]:
    """The factory of most tests, with its sidecar kept running between them."""
    factory = make_factory(bootstrap)
    with factory.create_connection():
        yield factory
    delete_topics_beginning_with(bootstrap, RUN)


@pytest.fixture
def connect(warm: ConnectionFactory, bootstrap: str) -> Iterator[Callable[..., Connection]]:
    """Makes started connections that end with the test; options as of a factory's connections."""
    connections: list[Connection] = []

    def make(**options: object) -> Connection:
        connection = (make_factory(bootstrap, **options) if options else warm).create_connection()
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
def orders() -> Queue:
    """A queue of two partitions that no other test has."""
    return Queue(f"{RUN}-{uuid.uuid4().hex[:8]}")
