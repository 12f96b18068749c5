"""Goal: over wires that split, delay and break, nothing is lost, units stay in order, and what was seen says so.

Method: AMQP servers, our client and others, and two sidecars that forward run in one thread over Kafka in memory, one
turn at a time, in an order that a seed decides. Each read takes a part of what is on its way. A wire that is cut loses
some of it, in each direction another. The checks know what was sent, and what applications saw and said.
A failure prints the command that repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from dataclasses import replace

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.amqp_client.amqp_provider import AmqpProvider
from jbm_kafka.amqp_client.client_settings import ClientSettings
from jbm_kafka.amqp_client.remote_connection import RemoteConnection
from jbm_kafka.amqp_client.remote_link import RemoteLink
from tests.support.manual_clock import ManualClock
from tests.wires.stepped_loop import SteppedIo, SteppedLoop
from tests.wires.torn_wire import TornNet
from tests.wires.wire_application import WireApplication
from tests.wires.wire_history import QUEUE, WireHistory

STEPS = 400
FIXED_SEEDS, MORE_SEEDS = range(1, 7), range(7, 50)
RANDOM_SEEDS = 2
LONG_SEEDS = 600
ALIAS = "/queues/orders"


def play(seed: int) -> WireHistory:
    played = WireHistory(seed, STEPS)
    played.run()
    return played


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_every_promise_holds_over_torn_wires:
        run = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # the processes of one run must agree
        chance = [run.randrange(10**9) for _ in range(RANDOM_SEEDS)]
        more = [pytest.param(seed, marks=pytest.mark.thorough) for seed in MORE_SEEDS]
        metafunc.parametrize("seed", [*FIXED_SEEDS, *more, *chance])


def test_every_promise_holds_over_torn_wires(seed: int) -> None:
    """UNIT-3, REDELIVER-1, REDELIVER-5, of SEL-2, AMQP-9: in every history."""
    print(f"seed {seed}")
    play(seed)


class LostSession(WireHistory):
    """A session has messages of a unit by two consumers when its wire is cut."""

    def _act(self) -> None:
        client = self.clients[self.seed % 2]
        session = WireApplication(
            "session",
            client,
            AcknowledgeMode.CLIENT,
            QUEUE,
            self.paper,
            prefetch=30,
            consumers=2,
            blocks=False,
            is_cut_off=lambda: self._is_cut_off(client),
            note=self.note,
        )
        session.begin()
        self.applications.append(session)
        for turn in range(6):
            consumer = session.consumers[turn % 2]
            self.until(lambda consumer=consumer: session.receive(consumer), "a receive")  # type: ignore[misc]
        assert session.spread == (2, 6)
        for wire in self.net.between(client.name):
            wire.cut(self.chance)
            self.paper.cut(client.name)


@pytest.mark.parametrize("client", [0, 1])
def test_what_a_lost_session_had_by_two_consumers_comes_again_marked(client: int) -> None:
    """REDELIVER-1: of one of two sidecars, which has the messages, and of the one that has them forwarded."""
    world = {"servers": 2, "clients": 2, "foreigners": 0, "partitions": 1, "units": 1, "attempts": -1, "messages": 40}
    played = LostSession(2 + client, 1, world)
    played.run()
    assert played.paper.cuts == 1
    assert played.paper.hand_overs >= 20 + 6


class ProviderByAlias(AmqpProvider):
    """Of a client that calls the queue as its server's file does."""

    async def _connected(self) -> RemoteConnection:
        found = await super()._connected()

        def add(link: RemoteLink) -> None:
            if link.link.is_receiver:
                link.link.source.address = ALIAS
            RemoteConnection.add(found, link)

        found.add = add  # type: ignore[method-assign]
        return found


class ByAlias(WireHistory):
    """A client receives by an alias that its own server alone knows; one of two servers has the messages."""

    def _act(self) -> None:
        client = self.clients[self.seed % 2]
        end = client.server
        end.server.settings = replace(end.server.settings, aliases={ALIAS: Queue(QUEUE)})
        addresses = (("127.0.0.1", end.port),)
        settings = ClientSettings(f"amqp://{end.name}", addresses, "", "", "", tls=None, has_certificate=False)
        client.provider = ProviderByAlias(
            settings, receiver_idle_ms=1_000, begin_io=lambda: SteppedIo(client.loop, self.until), clock=self.clock
        )
        made = self._open(client, AcknowledgeMode.AUTO)
        assert made is not None
        self.until(lambda: made.receive(made.consumers[0]), "a receive")


@pytest.mark.parametrize("client", [0, 1])
def test_a_message_was_not_forwarded_to_who_receives_by_an_alias_of_one_server(client: int) -> None:
    """AMQP-3, AMQP-9: the other server was asked for the alias, which its file had not, or not yet."""
    world = {"servers": 2, "clients": 2, "foreigners": 0, "partitions": 1, "units": 1, "attempts": -1, "messages": 2}
    ByAlias(2 + client, 1, world).run()


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_promise_holds_over_torn_wires_for_long() -> None:
    first = secrets.randbelow(10**9)
    print(f"seeds {first} to {first + LONG_SEEDS - 1}")
    for seed in range(first, first + LONG_SEEDS):
        play(seed)


def test_a_seed_repeats_its_history_over_wires() -> None:
    first, second = play(3), play(3)
    assert first.lines == second.lines
    assert first.paper.hand_overs > 0


def test_the_seeds_play_what_can_go_wrong() -> None:
    """Else all holds for nothing: some cut wires, some letters, some forwarded, some by foreign clients."""
    played = [WireHistory(seed, STEPS) for seed in FIXED_SEEDS]
    assert any(each.weather.client_cuts for each in played)
    assert any(each.weather.server_cuts for each in played)
    assert any(each.weather.servers == 2 for each in played)
    assert any(each.weather.foreigners for each in played)
    assert any(each.weather.attempts > 0 for each in played)


class Hearing(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


def test_a_wire_gives_what_was_written_in_parts_and_in_order_and_when_it_is_cut_the_first_of_it() -> None:
    clock, net = ManualClock(), TornNet()
    loops = [SteppedLoop(clock, net) for _ in range(2)]
    net.names.update(zip(loops, "ab", strict=True))
    there = Hearing()
    net.listen(loops[1], lambda: there, 1)
    socket, _ = net.connect(loops[0], Hearing, 1)
    socket.write(bytes(range(100)))
    for size in (1, 30):
        socket.other.deliver(size)
        loops[1].step()
    assert there.heard == [bytes([0]), bytes(range(1, 31))]
    net.wires[0].cut(random.Random(1))
    socket.write(b"too late")
    while loops[1].is_ready or socket.other.is_readable:
        socket.other.deliver(7)
        loops[1].step()
    said = b"".join(there.heard)
    assert there.is_lost
    assert 31 <= len(said) < 100
    assert said == bytes(range(len(said)))
    for each in loops:
        each.close()
