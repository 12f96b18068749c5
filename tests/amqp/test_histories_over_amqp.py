"""Random histories over `amqp://`: sessions of every mode, failures and closes, against a model of the queue."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from proton.reactor import Selector
from proton.utils import BlockingConnection

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.amqp.access import ANONYMOUS, Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import ForwardingSettings, Listener, ServerSettings
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.waiting import wait_until

EVERYTHING = {"send": ["#"], "receive": ["#"], "browse": ["#"]}
USERS = {
    ANONYMOUS: User(rights=EVERYTHING),  # type: ignore[arg-type]
    "sidecars": User(Verifier.of_password("secret"), {"forward": ["#"]}),
}
LETTERS = "letters"
SETTINGS = {
    f"{kind}{partitions}.#": AddressSettings(
        max_delivery_attempts=attempts, dead_letter_address=LETTERS, partitions=partitions
    )
    for kind, attempts in (("tried", 3), ("free", -1))
    for partitions in (1, 4)
}
SOON_S, LATE_S = 0.05, 20.0
EXPLICIT = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.TRANSACTED)
MODES = (*EXPLICIT, AcknowledgeMode.CLIENT, AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
FEW, MANY = 50, 290
"""Of so few in hand all go back at once. Of more, the later ones of a unit may come again as if nobody had had them."""


class World:
    """Some servers over one world in memory, which forward to each other if there are several."""

    def __init__(self, servers: int) -> None:
        self.name = f"histories{secrets.token_hex(4)}"
        config = SidecarConfig(address_settings=SETTINGS)
        self.servers: list[Server] = []
        for place in "ab"[:servers]:
            port = free_port()
            said = ForwardingSettings(f"127.0.0.1:{port}", "sidecars", "secret") if servers > 1 else None
            settings = ServerSettings([Listener(port=port)], access=Access(USERS), drain_s=0.0, forwarding=said)
            installation = Installation(self.name, {}, place, config)
            self.servers.append(Server(settings, partial(in_memory.connect, installation)))

    def start(self) -> None:
        """Serve; each has reached the others then."""
        for each in self.servers:
            each.start()
        for each in self.servers:
            if (others := each.neighbours) is not None:
                reached = partial(getattr, others, "_reached")
                wait_until(reached, about="the other is reached", timeout_s=LATE_S)

    def stop(self) -> None:
        for each in self.servers:
            each.stop()

    def stay(self, queue: Queue) -> list[Any]:
        """Clients that are members of the queue's group to the end: partitions that move take what is in hand."""
        found: list[Any] = []
        for each in self.servers if len(self.servers) > 1 else ():
            found.append(BlockingConnection(f"127.0.0.1:{each.ports[0]}", timeout=LATE_S))
            found[-1].create_receiver(queue.name, credit=1, options=Selector("region = 'nowhere'"))
        return found


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "forwarded"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(request.param)
    made.start()
    yield made
    made.stop()


@dataclass
class Sent:
    """A message, as the model knows it."""

    unit: str | None
    place: int
    """In its unit."""
    state: str = "new"
    """Then `hand`, `gone` or `dead`."""
    failures: int = 0
    hands: int = 0


@dataclass
class Using:
    """One session and what it has in hand."""

    session: Session
    mode: AcknowledgeMode
    connection: int
    prefetch: int
    consumers: list[MessageConsumer]
    hand: dict[int, Message] = field(default_factory=dict)


def number_of(message: Message) -> int:
    return int(str(message.body).rpartition("/")[2])


class History:
    """One queue, played by a seed."""

    def __init__(self, world: World, seed: int, *, is_crowded: bool) -> None:
        """`is_crowded`: hundreds in hand at a time."""
        self.world = world
        self.random = Random(seed)
        self.is_crowded = is_crowded
        self.attempts = -1 if is_crowded else self.random.choice([-1, 3])
        kind = "tried" if self.attempts == 3 else "free"
        self.queue = Queue(f"{kind}{self.random.choice([1, 4])}.{secrets.token_hex(4)}")
        self.sent: list[Sent] = []
        self.units: dict[str, list[int]] = defaultdict(list)
        self.using: list[Using] = []
        self.trace: list[object] = []
        self.connections: list[Connection] = []

    def play(self) -> None:
        """All of it. Raises AssertionError with what happened."""
        with ExitStack() as stack:
            for each in self.world.stay(self.queue):
                stack.callback(each.close)
            stack.callback(self._close_all)
            for number in range(2):
                self.connections.append(self._connect(number))
            self._send(300 if self.is_crowded else self.random.choice([10, 40]))
            for _ in range(self.random.choice([15, 30])):
                self._step()
            self._end()

    def _connect(self, number: int) -> Connection:
        server = self.world.servers[number % len(self.world.servers)]
        made = ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_connection()
        made.exception_listener = lambda error: self.trace.append(f"told: {error}")
        made.start()
        return made

    def _close_all(self) -> None:
        for each in self.connections:
            each.close()

    def _step(self) -> None:
        dice = self.random.random()
        if dice < 0.1:
            self._send(self.random.choice([1, 5]))
        elif dice < 0.2 or not self.using:
            if len(self.using) < 4:
                self._open()
        elif dice < 0.65:
            self._receive(self.random.choice(self.using))
        elif dice < 0.87:
            self._settle(self.random.choice(self.using))
        elif dice < 0.95:
            self._close_session(self.random.choice(self.using))
        elif dice < 0.98:
            using = self.random.choice(self.using)
            if len(using.consumers) > 1:
                self.trace.append("close a consumer")
                using.consumers.pop(self.random.randrange(len(using.consumers))).close()
        else:
            number = self.random.randrange(2)
            self.trace.append(f"close connection {number}")
            self.connections[number].close()
            for using in [each for each in self.using if each.connection == number]:
                self._left(using)
            self.connections[number] = self._connect(number)

    def _send(self, count: int) -> None:
        with self.connections[self.random.randrange(2)].create_session() as session:
            producer = session.create_producer(self.queue)
            for _ in range(count):
                unit = None if self.random.random() < 0.2 else f"u{self.random.randrange(5)}"
                place = len(self.units[unit]) if unit else 0
                if unit:
                    self.units[unit].append(len(self.sent))
                producer.send(f"{self.queue.name}/{len(self.sent)}", unit_of_order=unit)
                self.sent.append(Sent(unit, place))
        self.trace.append(f"send {count}")

    def _open(self) -> None:
        number, mode = self.random.randrange(2), self.random.choice(MODES)
        session = self.connections[number].create_session(mode)
        prefetch = self.random.choice([300, 1000] if self.is_crowded else [1, 5, 30, 300])
        consumers = [
            session.create_consumer(self.queue, prefetch=prefetch) for _ in range(self.random.choice([1, 1, 2]))
        ]
        self.using.append(Using(session, mode, number, prefetch, consumers))
        self.trace.append(f"open {mode.name} with {len(consumers)} of {prefetch} at {number}")

    def _receive(self, using: Using) -> None:
        count = self.random.choice([100, 250] if self.is_crowded else [1, 3, 10])
        for _ in range(count):
            consumer = self.random.choice(using.consumers)
            if len(using.hand) >= min(using.prefetch, MANY if self.is_crowded else FEW):
                break
            message = consumer.receive(SOON_S)
            if message is None:
                break
            self._got(using, message)

    def _got(self, using: Using, message: Message) -> None:
        number = number_of(message)
        it = self.sent[number]
        self.trace.append(f"{using.mode.name} got {number} ({it.unit} {it.place}), {message.delivery_count}")
        assert it.state == "new", f"{number} came though it is {it.state}"
        if it.unit is not None:
            for before in self.units[it.unit][: it.place]:
                state = self.sent[before].state
                is_mine = before in using.hand and using.mode is not AcknowledgeMode.INDIVIDUAL
                assert is_mine or state in ("gone", "dead"), f"{number} came though {before} is {state}"
        if not self.is_crowded:
            assert message.redelivered == (it.hands > 0), f"{number} had {it.hands}, marked {message.redelivered}"
            assert it.failures < message.delivery_count <= it.hands + 1
        it.hands += 1
        if using.mode in EXPLICIT:
            it.state = "hand"
            using.hand[number] = message
        else:
            it.state = "gone"

    def _settle(self, using: Using) -> None:
        if not using.hand:
            return
        is_success = self.random.random() < 0.6
        self.trace.append(f"{using.mode.name} settles {len(using.hand)}: {is_success}")
        if using.mode is AcknowledgeMode.INDIVIDUAL:
            for number, message in list(using.hand.items()):
                if self.random.random() < 0.7:
                    message.acknowledge()
                    self._gone(using, number)
                else:
                    message.nack(0)
                    self._failed(using, number)
        elif using.mode is AcknowledgeMode.TRANSACTED:
            (using.session.commit if is_success else using.session.rollback)()
            self._all(using, is_success=is_success)
        elif is_success:
            using.session.acknowledge()
            self._all(using, is_success=True)
        elif self.random.random() < 0.5:
            using.session.recover()
            self._all(using, is_success=False)
        else:
            self._nack(using)

    def _nack(self, using: Using) -> None:
        """With it go the later ones of its unit."""
        number = self.random.choice(list(using.hand))
        it = self.sent[number]
        using.hand[number].nack(0)
        later = [] if it.unit is None else [each for each in self.units[it.unit][it.place + 1 :] if each in using.hand]
        self.trace.append(f"nack {number}, with it {later}")
        self._failed(using, number)
        for each in later:
            self.sent[each].state = "new"
            del using.hand[each]

    def _all(self, using: Using, *, is_success: bool) -> None:
        for number in list(using.hand):
            if is_success:
                self._gone(using, number)
            else:
                self._failed(using, number)

    def _gone(self, using: Using, number: int) -> None:
        self.sent[number].state = "gone"
        del using.hand[number]

    def _failed(self, using: Using, number: int) -> None:
        it = self.sent[number]
        it.failures += 1
        it.state = "dead" if it.failures == self.attempts else "new"
        del using.hand[number]

    def _close_session(self, using: Using) -> None:
        self.trace.append(f"close {using.mode.name} with {len(using.hand)}")
        using.session.close()
        self._left(using)

    def _left(self, using: Using) -> None:
        self._all(using, is_success=False)
        self.using.remove(using)

    def _end(self) -> None:
        """Everything comes, and every letter is there once."""
        self.trace.append("the end")
        for using in list(self.using):
            self._close_session(using)
        session = self.connections[0].create_session(AcknowledgeMode.INDIVIDUAL)
        using = Using(session, AcknowledgeMode.INDIVIDUAL, 0, 1, [session.create_consumer(self.queue)])
        while left := [number for number, each in enumerate(self.sent) if each.state == "new"]:
            message = using.consumers[0].receive(LATE_S)
            assert message is not None, f"never came: {left}"
            self._got(using, message)
            message.acknowledge()
            self._gone(using, number_of(message))
        assert using.consumers[0].receive(SOON_S) is None
        with Admin(f"memory://{self.world.name}") as admin:
            found = [letter for _, letter in admin.dead_letters(LETTERS)] if admin.exists(LETTERS) else []
        letters = sorted(number_of(each) for each in found if str(each.body).startswith(self.queue.name))
        dead = [number for number, each in enumerate(self.sent) if each.state == "dead"]
        assert letters == dead
        assert not [each for each in self.trace if str(each).startswith("told")]


@pytest.mark.parametrize(
    "seed", [2, 7, 122, *(pytest.param(each, marks=pytest.mark.thorough) for each in (0, 1, 3, 4, 5, 6))]
)
@pytest.mark.parametrize("is_crowded", [False, True], ids=["few", "crowded"])
def test_whatever_sessions_do_nothing_is_lost_and_units_stay_in_order(
    world: World, seed: int, is_crowded: bool
) -> None:
    history = History(world, seed, is_crowded=is_crowded)
    try:
        history.play()
    except BaseException:
        print(*history.trace, sep="\n")
        raise
