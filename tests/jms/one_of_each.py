"""One of each object of the API, in a world in memory, and ways to make mistakes with them."""

from collections.abc import Callable
from typing import Any

from jbm_kafka import (
    AcknowledgeMode,
    BytesMessage,
    ConnectionFactory,
    MapMessage,
    Message,
    MessageConsumer,
    Queue,
    Session,
    TextMessage,
    errors,
)
from jbm_kafka.admin import Admin
from jbm_kafka.testing.stopped_clock import StoppedClock
from tests.jms.support import receive

Make = Callable[[Any], object]
Mistakes = list[tuple[Make, type[errors.JMSError], str]]
HOST = "localhost:9092"
NOWHERE = "127.0.0.1:1"
QUEUE = Queue("orders")


class Objects:
    """One of each, of a world in memory."""

    def __init__(self) -> None:
        self.factory = ConnectionFactory("memory://mistakes")
        self.connection = self.factory.create_connection()
        self.connection.start()
        self.session, self.transacted = self._session(), self._session(AcknowledgeMode.TRANSACTED)
        self.producer, self.free_producer = self.session.create_producer(QUEUE), self.session.create_producer()
        self.transacted_producer = self.transacted.create_producer(QUEUE)
        self.consumer = self.session.create_consumer(Queue("empty"))
        self.context = self.factory.create_context()
        self.context_producer = self.context.create_producer()
        self.admin = Admin(NOWHERE)
        listener = self._session()
        self.listening = listener.create_consumer(QUEUE)
        self.beside_listening = listener.create_consumer(Queue("other"))
        self.listening.set_listener(print)
        self.made, self.made_of_bytes, self.without_body = TextMessage("a"), BytesMessage(b""), Message()
        self.map = MapMessage({"a": 1})
        self.clock = StoppedClock(0, wait_idle=lambda: None)
        self.properties = self.made.properties
        self.properties.update(text="x", flag=True)
        self._receive()
        self._close()

    def _session(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        return self.connection.create_session(mode)

    def _sent(self, mode: AcknowledgeMode) -> MessageConsumer:
        """Receives two messages."""
        queue = Queue(f"sent.{mode.name}")
        for body in "ab":
            self.free_producer.send(body, destination=queue)
        return self._session(mode).create_consumer(queue)

    def _receive(self) -> None:
        individual = self._sent(AcknowledgeMode.INDIVIDUAL)
        self.settled, self.given_back = receive(individual), receive(individual)
        self.settled.acknowledge()
        self.given_back.nack()
        self.of_auto = receive(self._sent(AcknowledgeMode.AUTO))
        client = self._sent(AcknowledgeMode.CLIENT)
        self.of_client = receive(client)
        with self._session(AcknowledgeMode.CLIENT) as ending:
            self.of_closed = receive(ending.create_consumer(client.destination))

    def _close(self) -> None:
        self.closed_connection, self.closed_context = self.factory.create_connection(), self.factory.create_context()
        self.closed_session, self.closed_admin = self._session(), Admin(NOWHERE)
        self.closed_producer, self.closed_consumer = (
            self.session.create_producer(QUEUE),
            self.session.create_consumer(QUEUE),
        )
        self.closed_browser = self.session.create_browser(QUEUE)
        for closed in (self.closed_connection, self.closed_context, self.closed_session, self.closed_admin):
            closed.close()
        for part in (self.closed_producer, self.closed_consumer, self.closed_browser):
            part.close()


def new(make: Callable[..., object], *arguments: object, **options: object) -> Make:
    """Make one."""
    return lambda _: make(*arguments, **options)


def call(what: str, method: str, *arguments: object, **options: object) -> Make:
    """Call a method of one of the objects, and go through what it gives."""
    return lambda objects: list(getattr(getattr(objects, what), method)(*arguments, **options))


def enter(what: str, method: str) -> Make:
    """Go into what it gives."""
    return lambda objects: getattr(getattr(objects, what), method)().__enter__()


def assign(what: str, name: str, value: object) -> Make:
    """Set an attribute of one of the objects."""
    return lambda objects: setattr(getattr(objects, what), name, value)
