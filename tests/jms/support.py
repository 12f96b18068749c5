"""Words the API tests share."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from jbm_kafka import SYSTEM_GENERATED, AcknowledgeMode, AddressSettings, Message, Queue
from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.sidecar.lane.group_worker import GroupWorker

DELAY_MS = 1_500
"""Of a queue `….delayed`: longer than a busy machine takes for what another unit may do meanwhile."""
SETTINGS = {
    "#": AddressSettings(partitions=2),
    "#.one": AddressSettings(partitions=1),
    "#.twice": AddressSettings(max_delivery_attempts=2),
    "#.thrice": AddressSettings(max_delivery_attempts=3),
    "#.delayed": AddressSettings(redelivery_delay_ms=DELAY_MS),
    "#.growing": AddressSettings(
        redelivery_delay_ms=50, redelivery_delay_multiplier=10.0, max_redelivery_delay_ms=800, max_delivery_attempts=-1
    ),
    "#.spread": AddressSettings(redelivery_delay_ms=600_000, redelivery_collision_avoidance_factor=0.5),
    "#.removed": AddressSettings(max_delivery_attempts=1, dead_letter_address=None, expiry_address=None),
    "#.held": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold"),
    "#.told": AddressSettings(partitions=1, record_deliveries=True),
    "#.windowless": AddressSettings(duplicate_window_ms=0),
    "#.named": AddressSettings(default_unit_of_order="by-destination"),
    "#.generated": AddressSettings(default_unit_of_order=SYSTEM_GENERATED),
}
"""By the last word of a queue's name: `Queue(f"{orders.name}.twice")`."""

DEAD_LETTERS = Queue("DLQ")
EXPIRED = Queue("ExpiryQueue")
SOON_S = 40.0
"""Longer than anything takes that is going to happen."""
NOTHING_S = 0.3
"""How long a receive looks for what must not be there; it catches up with the log before it gives up."""


def send(session: Session, queue: Destination, *bodies: str, unit: str | None = None) -> None:
    """Send texts in order; none is missing when it returns."""
    producer = session.create_producer(queue)
    for body in bodies:
        producer.send(body, unit_of_order=unit)


def receive(consumer: MessageConsumer) -> Message:
    """The next message, which must come."""
    message = consumer.receive(SOON_S)
    assert message is not None, "nothing came"
    return message


def receive_all(consumer: MessageConsumer, count: int) -> list[Message]:
    """So many messages."""
    return [receive(consumer) for _ in range(count)]


def bodies(messages: Iterable[Message]) -> list[object]:
    """What is in them."""
    return [message.body for message in messages]


def left(connection: Connection, queue: Queue) -> list[object]:
    """What a queue still holds, looked at by a browser."""
    with connection.create_session(AcknowledgeMode.AUTO) as session:
        return bodies(session.create_browser(queue, include="all"))


def copies(connection: Connection, address: Queue, of: Queue) -> list[Message]:
    """The messages at a dead-letter or expiry address that came from a queue."""
    with connection.create_session(AcknowledgeMode.AUTO) as session:
        messages = session.create_browser(address, include="all")
        return [m for m in messages if m.properties.get("_JBM_ORIG_DESTINATION") == str(of)]


def eventually(holds: Callable[[], bool], about: str) -> None:
    """Look until it holds; for what nobody announces."""
    deadline = time.monotonic() + SOON_S
    look = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, about
        look.wait(0.02)


def ask(consumer: MessageConsumer) -> None:
    """Ask for one ahead, as a receive does that took one."""
    with consumer._link.lock:
        consumer._link.request(1)


@contextmanager
def standing_still(consumer: MessageConsumer) -> Iterator[None]:
    """Its group worker does nothing inside the block: it stands in the midst of its commands, before it hands over."""
    stands, may_go = threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        may_go.wait(SOON_S)

    group_worker_behind(consumer).post(stand)
    assert stands.wait(SOON_S), "the group worker does not run"
    try:
        yield
    finally:
        may_go.set()


class Seen:
    """A listener that keeps what it got and lets the test wait for it."""

    def __init__(self, then: Callable[[Message], object] | None = None) -> None:
        self.messages: list[Message] = []
        self.threads: list[threading.Thread] = []
        self._then = then
        self._changed = threading.Condition()

    def __call__(self, message: Message) -> None:
        with self._changed:
            self.messages.append(message)
            self.threads.append(threading.current_thread())
            self._changed.notify_all()
        if self._then is not None:
            self._then(message)

    def wait(self, count: int) -> list[Message]:
        """So many came."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, SOON_S), bodies(self.messages)
            return list(self.messages)


class Aside:
    """Runs a call on a thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._outcome: list[object] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def thread_name(self) -> str:
        return self._thread.name

    def result(self) -> object:
        self._thread.join(SOON_S)
        assert not self._thread.is_alive(), "still running"
        if self._error:
            raise self._error[0]
        return self._outcome[0]

    def _run(self) -> None:
        try:
            self._outcome.append(self._call())
        except BaseException as error:
            self._error.append(error)


def delays_ms(consumer: MessageConsumer) -> list[int]:
    """How long the worker behind a consumer has each message that came back wait, or had: by its own word."""
    channels = list(group_worker_behind(consumer).data.channels.values())
    return [redelivery.delay_ms for channel in channels for _, redelivery in channel.state.redeliveries.items()]


def group_worker_behind(consumer: MessageConsumer) -> GroupWorker:
    """The group worker that serves a consumer."""
    assert isinstance(consumer._link.group_worker, GroupWorker), consumer._link.group_worker
    return consumer._link.group_worker
