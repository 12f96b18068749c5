"""Plays one seed over torn wires: turn by turn, each hand-over checked, and a calm end in which all must come.

python -m tests.wires --seed 7
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from jbm_kafka import AcknowledgeMode
from jbm_kafka.amqp_wire import engine_objects
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.branches.branches import LATE_MS
from tests.simulation.node import Node
from tests.support.manual_clock import ManualClock
from tests.wires.torn_wire import Socket, TornNet
from tests.wires.wire_application import WireApplication
from tests.wires.wire_ends import LETTERS, ClientEnd, ServerEnd, config_of
from tests.wires.wire_paper import WirePaper

QUEUE = "orders"
DEPTH_MAX = 3
TURNS_MAX = 60_000
"""No call takes so many."""
QUIET_MS = 3_000
"""In so long a time all comes that is there."""
LINES_SHOWN = 80
Mode = AcknowledgeMode
MODES = (Mode.CLIENT, Mode.CLIENT, Mode.INDIVIDUAL, Mode.TRANSACTED, Mode.AUTO)


class BrokenWireError(AssertionError):
    """A promise was broken; the text has the command that repeats it and the last lines of its history."""


@dataclass(frozen=True)
class Weather:
    """What a seed draws."""

    servers: int
    clients: int
    foreigners: int
    partitions: int
    attempts: int
    messages: int
    units: int
    modes: tuple[AcknowledgeMode, ...]
    prefetches: tuple[int, ...]
    reads: tuple[int, ...]
    """How much of what is there comes in one read, at most."""
    client_cuts: int
    server_cuts: int
    haste: float
    """How often time passes though there is something to do."""


def drawn(chance: Random) -> Weather:
    """What a seed plays in."""
    cuts = chance.choice(("none", "none", "clients", "clients", "servers"))
    servers = chance.choice((1, 2, 2)) if cuts != "servers" else 2
    clients = chance.choice((1, 2, 3))
    return Weather(
        servers=servers,
        clients=clients,
        foreigners=chance.choice((0, 0, 1)),
        partitions=chance.choice((1, 1, 3)),
        attempts=chance.choice((-1, -1, 2, 3)),
        messages=chance.choice((30, 60, 120, 200)),
        units=chance.choice((1, 1, 2, 5)),
        modes=chance.choice((MODES, (Mode.CLIENT,), (Mode.CLIENT, Mode.TRANSACTED))),
        prefetches=chance.choice(((1, 5), (5, 30), (30, 300), (1, 5, 30, 300))),
        reads=chance.choice(((1, 7, 100), (50, 400), (20, 2_000, 100_000), (100_000,))),
        client_cuts=chance.choice((2, 5, 10)) if cuts == "clients" else 0,
        server_cuts=chance.choice((1, 2)) if cuts == "servers" else 0,
        haste=chance.choice((0.03, 0.1, 0.3)),
    )


class _Alarms(logging.Handler):
    """An error in the product's log is a bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.seen.append(f"{record.getMessage()}: {cause!r}")


class WireHistory:
    """One seed. `run` plays it."""

    def __init__(self, seed: int, steps: int, narrowed: Mapping[str, Any] | None = None) -> None:
        """`narrowed`: what of its weather is not the seed's."""
        self.seed, self.steps = seed, steps
        self.weather = replace(drawn(Random(f"weather {seed}")), **(narrowed or {}))
        self.chance = Random(seed)
        self.lines: deque[str] = deque(maxlen=2_000)
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock, waits=False)
        self.net = TornNet()
        self.paper = WirePaper(self.weather.attempts)
        self.servers: list[ServerEnd] = []
        self.clients: list[ClientEnd] = []
        self.applications: list[WireApplication] = []
        self._depth = 0
        self._turns = 0
        self._names = 0
        self._cuts_left = [self.weather.client_cuts, self.weather.server_cuts]
        self._alarms = _Alarms()

    def note(self, line: str) -> None:
        """One line of history."""
        self.lines.append(f"{self.clock.monotonic_ms():>7} ms  {line}")

    # -- the world -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Play it.

        Raises:
            BrokenWireError: a promise was broken.
        """
        logger = logging.getLogger("jbm_kafka")
        level, propagate = logger.level, logger.propagate
        logger.addHandler(self._alarms)
        logger.propagate = False
        engine_objects.own()
        try:
            self._begin()
            for _ in range(self.steps):
                self._act()
                self._look()
            self._end()
        except AssertionError as error:
            raise BrokenWireError(self._report(str(error))) from error
        finally:
            self._let_go()
            engine_objects.disown()
            logger.removeHandler(self._alarms)
            logger.setLevel(level)
            logger.propagate = propagate

    def _begin(self) -> None:
        weather = self.weather
        self.cluster.create_topic(QUEUE, weather.partitions, {})
        for number in range(weather.servers):
            made = ServerEnd(
                number,
                net=self.net,
                cluster=self.cluster,
                clock=self.clock,
                config=config_of(weather.attempts),
                chance=self.chance,
                meanwhile=self._meanwhile,
                forwards=weather.servers > 1,
            )
            self.servers.append(made)
            made.server.begin()
        self.until(lambda: all(each.has_reached_all for each in self.servers), "servers meet")
        for each in self.servers:
            with each.node.calling():
                each.keep(QUEUE)
        self.pass_time(1_000)
        for number in range(weather.clients):
            self.clients.append(
                ClientEnd(
                    number,
                    self.servers[number % weather.servers],
                    net=self.net,
                    clock=self.clock,
                    until=self.until,
                    is_foreign=number < weather.foreigners,
                )
            )
        self._send(weather.messages // 2)

    def turn(self) -> None:
        """Somebody goes on, or time passes."""
        self._turns += 1
        chance = self.chance
        acts: list[Callable[[], Any]] = []
        for loop in self.net.names:
            if loop.is_ready:
                acts.append(loop.step)
        sockets = self.net.readable()
        if sockets:
            acts += [lambda: self._deliver(chance.choice(sockets))] * (1 + len(sockets) // 2)
        for server in self.servers:
            if server.loop.jobs and server.node.can_call:
                acts.append(lambda server=server: self._job(server))  # type: ignore[misc]
        if acts and chance.random() < 0.8:
            chance.choice(acts)()
            return
        workers = [worker for server in self.servers for worker in server.node.workers.ready()]
        if workers:
            chance.choice(workers).step()
        if not workers or chance.random() < (self.weather.haste if acts else 0.5):
            self.clock.advance(chance.choice((1, 5, 20)))

    def _deliver(self, socket: Socket) -> None:
        most = self.chance.choice(self.weather.reads)
        socket.deliver(self.chance.randint(1, most))

    def _job(self, server: ServerEnd) -> None:
        job = server.loop.jobs.popleft()
        with server.node.calling():
            job()

    def _meanwhile(self, node: Node, seconds: float) -> None:
        self._depth += 1
        try:
            if self._depth <= DEPTH_MAX:
                for _ in range(self.chance.randint(1, 6)):
                    self.turn()
        finally:
            self._depth -= 1
        self.clock.advance(max(int(seconds * 1_000), 1))

    def until(self, holds: Callable[[], bool], about: str) -> None:
        """Let others go on until it holds."""
        for _ in range(TURNS_MAX):
            if holds():
                return
            self.turn()
        raise AssertionError(f"calls_return: {about} does not end")

    def pass_time(self, duration_ms: int) -> None:
        """Let others go on for so long."""
        ends_at_ms = self.clock.monotonic_ms() + duration_ms
        self.until(lambda: self.clock.monotonic_ms() >= ends_at_ms, "time")

    # -- acts ----------------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        dice, chance = self.chance.random(), self.chance
        able = [each for each in self.applications if each.can_act]
        if dice < 0.03 and len(self.paper.sent) < self.weather.messages:
            self._send(chance.choice((1, 5)))
        elif dice < 0.08 or not able:
            if len(self.applications) < 4:
                self._open(self.chance.choice(self.clients))
        elif dice < 0.4:
            application = chance.choice(able)
            for _ in range(chance.choice((1, 3, 10, 40))):
                if not application.receive(chance.choice(application.consumers)):
                    break
        elif dice < 0.55:
            chance.choice(able).settle(chance, is_kind=False)
        elif dice < 0.565:
            self._close(chance.choice(able))
        elif dice < 0.575:
            application = chance.choice(able)
            if len(application.consumers) > 1:
                application.close_consumer(chance.randrange(len(application.consumers)))
        elif dice < 0.6:
            self._cut()
        else:
            for _ in range(chance.choice((1, 10, 40))):
                self.turn()
        for each in [each for each in self.applications if each.wants_close and each.can_act]:
            self._close(each)

    def _send(self, count: int) -> None:
        for _ in range(count):
            unit = None if self.chance.random() < 0.2 else f"u{self.chance.randrange(self.weather.units)}"
            it = self.paper.send(unit)
            key = None if unit is None else unit.encode()
            partitions = self.weather.partitions
            place = self.chance.randrange(partitions) if key is None else partition_for(key, partitions)
            record = Outgoing(QUEUE, place, key, b"%d" % it.number, [], None)
            with self.cluster.changed:
                self.cluster.append(record, None)
        self.note(f"{count} are sent")

    def _open(self, client: ClientEnd, mode: Mode | None = None) -> WireApplication | None:
        chance = self.chance
        self._names += 1
        mode = mode or chance.choice(self.weather.modes)
        made = WireApplication(
            f"a{self._names}@{client.name}",
            client,
            mode,
            QUEUE,
            self.paper,
            prefetch=chance.choice(self.weather.prefetches),
            consumers=chance.choice((1, 2)),
            blocks=chance.random() < 0.5,
            is_cut_off=lambda: self._is_cut_off(client),
            note=self.note,
        )
        self.note(f"{made.name} opens: {mode.name}, prefetch {made.prefetch}")
        try:
            made.begin()
        except JMSError as error:
            self.note(f"{made.name} cannot begin: {error}")
            made.close()
            return None
        self.applications.append(made)
        return made

    def _close(self, application: WireApplication) -> None:
        self.applications.remove(application)
        application.close()

    def _is_cut_off(self, client: ClientEnd) -> bool:
        return any(
            wire.is_cut and end.name == client.name and not end.is_over for wire in self.net.wires for end in wire.ends
        )

    def _cut(self) -> None:
        clients, servers = self._cuts_left
        if clients:
            busiest = max(self.applications, key=lambda each: each.spread, default=None)  # there is most to lose
            client = self.chance.choice(self.clients) if busiest is None else busiest.client
            for wire in self.net.between(client.name):
                self._cuts_left[0] -= 1
                self.note(f"the wire of {client.name} is cut")
                wire.cut(self.chance)
                self.paper.cut(client.name)
        elif servers:
            wires = self.net.between(self.servers[0].name, self.servers[1].name)
            if wires:
                self._cuts_left[1] -= 1
                self.note("a wire between servers is cut")
                self.chance.choice(wires).cut(self.chance)
                self.paper.cut(None)

    def _look(self) -> None:
        for each in self.applications:
            each.look()
        for server in self.servers:
            if self.chance.random() < 0.1:
                server.poll_keepers()
        assert not self._alarms.seen, f"no_errors: {self._alarms.seen[0]}"

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self.note("-- from here on nothing goes wrong --")
        self.until(lambda: all(each.can_act for each in self.applications), "commits")
        for each in list(self.applications):
            self._close(each)
        self.pass_time(500)
        kind = None
        while kind is None:
            kind = self._open(self.clients[0], Mode.CLIENT)
        quiet_since = self.clock.monotonic_ms()
        quiet_ms = QUIET_MS + (LATE_MS if self.weather.server_cuts else 0)  # a branch in doubt ends so late
        while self.clock.monotonic_ms() < quiet_since + quiet_ms:
            for consumer in kind.consumers:
                while kind.receive(consumer):
                    quiet_since = self.clock.monotonic_ms()
            kind.settle(self.chance, is_kind=True)
            for _ in range(30):
                self.turn()
            self._look()
        self._close(kind)
        self.pass_time(500)
        self._look()
        self.paper.check_end(self._letters())

    def _letters(self) -> list[int]:
        if LETTERS not in self.cluster.topics:
            return []
        found: list[int] = []
        for partition in range(self.cluster.partition_count(LETTERS)):
            log = self.cluster.log(LETTERS, partition)
            records, _ = log.read(log.begin, 10**6, committed_only=True)
            found += [int(each.value() or b"-1") for each in records]
        return found

    def _let_go(self) -> None:
        for server in self.servers:
            server.node.crash()
        for loop in self.net.names:
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # as when a process is killed
            loop.close()

    def _report(self, cause: str) -> str:
        lines = "\n".join(list(self.lines)[-LINES_SHOWN:])
        return (
            f"{cause}\n\nRepeat it with: python -m tests.wires --seed {self.seed} --steps {self.steps}\n"
            f"{self.weather}\n\n{lines}"
        )

    def summary(self) -> str:
        """What happened, in a line."""
        return (
            f"seed {self.seed}: {self._turns} turns, {len(self.paper.sent)} messages, {self.paper.hand_overs} "
            f"hand-overs, {self.paper.cuts} cuts, {len(self._letters())} letters, {self.clock.monotonic_ms()} ms"
        )
