"""Administrators pause and resume queues while all goes on (PAUSE-1, PAUSE-2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from jbm_kafka.admin.pausing import change
from jbm_kafka.codec.pause_record import Halt
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.jms.session import Session
from jbm_kafka.memory.memory_kafka import ProcessCrashed
from jbm_kafka.registry.registry_log import RegistryLog
from tests.simulation.acts import Acts
from tests.simulation.names import REGISTRY
from tests.simulation.node import Node
from tests.simulation.provider import SimulatedConnection, SimulatedProvider
from tests.simulation.receiver import Mode
from tests.simulation.stepped_kafka import SteppedKafka
from tests.simulation.workers import Blocked
from tests.simulation.world import World

FOLLOW_MS, ROUND_MS = 3_000, 40
PARTS = {"production": ("production",), "consumption": ("consumption",), "both": ("production", "consumption")}


class PauseActs(Acts):
    """The acts of a simulation whose queues are paused and resumed."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        kafka = SteppedKafka(world.cluster, world.clock)
        self._registry = RegistryLog(kafka, kafka.admin(), REGISTRY)
        self._paused: set[tuple[str, str]] = set()
        """(queue, part) of what is paused, and every process has heard it."""
        self._changing: set[tuple[str, str]] = set()
        """Recorded less than three seconds ago: who has heard of it does it, who has not does not yet."""
        self._unheard: set[Node] = set()
        """Stood still when something was paused or resumed: three seconds were not enough."""
        world.recorder.gets = self._gets

    def _pause(self) -> None:
        parts = PARTS[self._chance.choice(list(PARTS))]
        self._change(self._chance.choice(list(self._world.queues)), parts, Halt("an operator", 1))

    def _resume(self) -> None:
        if self._paused:
            queue, part = self._chance.choice(sorted(self._paused))
            self._change(queue, (part,), None)

    def _change(self, queue: str, parts: tuple[str, ...], halt: Halt | None) -> None:
        """Record it, and let three seconds go by in which every process does what it is ready to."""
        # Others act within the three seconds too; what they changed then would be forgotten at their end.
        if self._changing or self._is_any_in_step():
            return
        self._changing = {(queue, part) for part in parts}
        if halt is None:
            self._paused -= self._changing  # what is paused once more stays so all the while
        halts: Mapping[str, Halt | None] = dict.fromkeys(parts, halt)
        change(self._registry, Queue(queue), halts)
        self._world.note(f"{queue}: {parts} {'resumed' if halt is None else 'paused'}")
        self._let_all_hear()
        self._paused |= set() if halt is None else self._changing
        self._changing = set()
        self._world.note(f"{queue}: that holds now; not for {[node.name for node in self._unheard]}")

    def _is_any_in_step(self) -> bool:
        return any(worker.is_in_step for node in self._world.nodes if node.is_alive for worker in node.workers.all)

    def _let_all_hear(self) -> None:
        world, still = self._world, set[Node]()
        for _ in range(FOLLOW_MS // ROUND_MS):
            for node in [node for node in world.nodes if node.is_alive]:
                if node.is_frozen:
                    still.add(node)
                for worker in node.workers.ready() if node.can_act else ():
                    with suppress(ProcessCrashed, Blocked):
                        worker.step()
            world.recorder.look()
            world.clock.advance(ROUND_MS)
        for receiver in world.receivers:
            receiver.look()
        self._unheard = still

    def _gets(self, node: Node, queue: str, what: str) -> None:
        """PAUSE-2: no receiver is handed anything more."""
        is_held = (queue, "consumption") in self._paused and node not in self._unheard
        assert not is_held, f"nothing_while_paused: at {node.name} there is {what}"

    def _produce(self) -> None:
        """PAUSE-1: every send raises, and none does when it is resumed."""
        nodes = [node for node in self._nodes() if node not in self._unheard and node.can_call]
        if not nodes:
            return
        node, queue = self._chance.choice(nodes), self._chance.choice(list(self._world.queues))
        provider = SimulatedProvider(node, records_attempts=False)
        connection = SimulatedConnection("p", provider, prefetch=1, blocks=False, heard=lambda error: None)
        session = Session(connection, Mode.TRANSACTED)
        is_refused = False
        try:
            session.create_producer(Queue(queue)).send("of a transaction that is rolled back")
        except IllegalStateError:
            is_refused = True
        session.rollback()
        place = queue, "production"
        is_paused, may_refuse = place in self._paused, place in self._paused | self._changing
        assert is_refused or not is_paused, f"refused_while_paused: {node.name} sends to {queue}"
        assert may_refuse or not is_refused, f"sent_when_resumed: {node.name} cannot send to {queue}"

    def before_end(self, rest: Callable[[], None]) -> None:
        for queue in self._world.queues:
            self._change(queue, PARTS["both"], None)
