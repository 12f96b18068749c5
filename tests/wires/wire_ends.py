"""What stands at the ends of torn wires: servers with their sidecars, and clients with their sessions' provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from jbm_kafka import AddressSettings, Queue
from jbm_kafka.amqp.access import ANONYMOUS, Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.beside import Beside
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import ForwardingSettings, Listener, ServerSettings
from jbm_kafka.amqp_client.amqp_provider import AmqpProvider
from jbm_kafka.amqp_client.client_settings import ClientSettings
from jbm_kafka.amqp_client.remote_connection import RemoteConnection
from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.receiving.inbox import ConsumerInbox
from jbm_kafka.jms.session import Session
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers.shared_sidecars import RunningSidecar
from jbm_kafka.providers.sidecar_provider import SidecarProvider
from tests.simulation.machine import Machine, MachineClock
from tests.simulation.node import Node
from tests.simulation.provider import SimulatedConnection, SimulatedProvider
from tests.support.manual_clock import ManualClock
from tests.wires.stepped_loop import SteppedIo, SteppedLoop
from tests.wires.torn_wire import TornNet

FIRST_PORT = 5_672
USERS = {
    ANONYMOUS: User(rights={"send": ["#"], "receive": ["#"], "browse": ["#"]}),
    "sidecars": User(Verifier.of_password("secret"), {"forward": ["#"]}),
}
LETTERS = "letters"
NOBODYS = "JMSType = 'nobody'"
"""What the keepers of partitions select."""


class SteppedServer(Server):
    """A server whose loop and threads are its simulation's."""

    def __init__(self, settings: ServerSettings, connect: Callable[[], SidecarProvider], loop: SteppedLoop) -> None:
        super().__init__(settings, connect)
        self.loop.close()
        self.loop: asyncio.AbstractEventLoop = loop
        self.mailbox = LoopMailbox(loop)
        self.threads = loop  # type: ignore[assignment]
        self.beside = Beside(loop, loop)  # type: ignore[arg-type]

    def begin(self) -> asyncio.Task[None]:
        """Listen."""
        self.provider = self._connect()
        return self.loop.create_task(self._listen())


class ServerEnd:
    """One process with a sidecar that serves AMQP, and forwards to the others if there are any."""

    def __init__(
        self,
        number: int,
        *,
        net: TornNet,
        cluster: MemoryCluster,
        clock: ManualClock,
        config: SidecarConfig,
        chance: Random,
        meanwhile: Callable[[Node, float], None],
        forwards: bool,
    ) -> None:
        self.name = f"server{number}"
        self.port = FIRST_PORT + number
        machine_clock = MachineClock(clock)
        machine = Machine(self.name, machine_clock, MemoryJournal(clock=machine_clock), folder=self.name)
        self.node = Node(
            self.name,
            machine,
            cluster=cluster,
            clock=clock,
            config=config,
            sources=[],
            chance=chance,
            meanwhile=meanwhile,
        )
        installation = Installation("wires", {}, self.name, config)
        running = RunningSidecar(installation, self.node.kafka, self.node.clock, self.node.sidecar)
        self.provider = SidecarProvider(installation, running, compresses=False, let_go=lambda patience: None)
        said = ForwardingSettings(f"127.0.0.1:{self.port}", "sidecars", "secret") if forwards else None
        settings = ServerSettings([Listener(port=self.port)], access=Access(USERS), drain_s=0.0, forwarding=said)
        self.loop = SteppedLoop(clock, net)
        net.names[self.loop] = self.name
        self.server = SteppedServer(settings, lambda: self.provider, self.loop)
        self._keepers: list[ConsumerInbox] = []

    @property
    def has_reached_all(self) -> bool:
        """It listens, and forwards."""
        neighbours = self.server.neighbours
        return self.server.is_ready and (neighbours is None or bool(neighbours._reached))

    def keep(self, queue: str) -> None:
        """Be a member of the queue's group to the end: partitions that move take what is in hand."""
        connection = SimulatedConnection(
            f"{self.name}-keeper",
            SimulatedProvider(self.node, records_attempts=False),
            prefetch=1,
            blocks=False,
            heard=lambda error: None,
        )
        session = Session(connection, AcknowledgeMode.CLIENT)
        connection.is_started = False
        inbox = session.create_consumer(Queue(queue), selector=NOBODYS)._inbox
        connection.is_started = True
        inbox.link.demand.is_waiting = True
        inbox.connect()
        self._keepers.append(inbox)

    def poll_keepers(self) -> None:
        """They ask for what never comes."""
        for each in self._keepers:
            assert each.poll_for_listener() is None


class ForeignProvider(AmqpProvider):
    """Of a client that knows nothing of units, as those of other makers."""

    async def _connected(self) -> RemoteConnection:
        found = await super()._connected()
        found.gives_units = False
        return found


class ClientEnd:
    """One process with a connection to a server."""

    def __init__(
        self,
        number: int,
        server: ServerEnd,
        *,
        net: TornNet,
        clock: ManualClock,
        until: Callable[[Callable[[], bool], str], None],
        is_foreign: bool,
    ) -> None:
        self.name = f"client{number}"
        self.server = server
        self.is_foreign = is_foreign
        self.loop = SteppedLoop(clock, net)
        net.names[self.loop] = self.name
        settings = ClientSettings(
            f"amqp://{server.name}", (("127.0.0.1", server.port),), "", "", "", tls=None, has_certificate=False
        )
        make = ForeignProvider if is_foreign else AmqpProvider
        self.provider = make(
            settings, receiver_idle_ms=1_000, begin_io=lambda: SteppedIo(self.loop, until), clock=clock
        )


def config_of(attempts: int) -> SidecarConfig:
    """Settings of every sidecar of a world."""
    return SidecarConfig(
        session_timeout_ms=60_000,
        checkpoint_interval_ms=20,
        address_settings={"#": AddressSettings(max_delivery_attempts=attempts, dead_letter_address=LETTERS)},
        revoke_drain_ms=200,
        leave_drain_ms=200,
        linger_ms=60_000,
        receiver_idle_ms=1_000,
        transaction_timeout_ms=3_000,
    )
