"""What can happen next: each act a function that draws its details by chance and does it, if it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jbm_kafka.memory.memory_kafka import CommitFault, MemoryKafka
from jbm_kafka.ports import KafkaClientError, Outgoing
from tests.simulation.names import OUT, SELECTORS, changelog_of, group_of
from tests.simulation.node import Node
from tests.simulation.paper import Commit
from tests.simulation.provider import SimulatedProvider
from tests.simulation.receiver import Mode, Opening, Receiver, opening_of_queue

if TYPE_CHECKING:
    from jbm_kafka.memory.memory_producer import MemoryTransactionalProducer
    from tests.simulation.world import World

SESSIONS_MAX = 4
DELAYS_MS = (200, 1_500, 6_000)
ONE_IN_HAND = (Mode.AUTO, Mode.DUPS_OK)
"""Modes in which only the last message may still fail."""


class Acts:
    """The acts of one simulation, by name."""

    provider: type[SimulatedProvider] = SimulatedProvider
    """What stands behind its applications."""
    receiver: type[Receiver] = Receiver
    """An application."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.random
        self._foreign: MemoryTransactionalProducer | None = None
        self._foreign_is_open = False
        self._sessions = 0
        self._commits = 0
        self.by_name: dict[str, Callable[[], None]] = {
            name: getattr(self, f"_{name}") for name in world.profile.weights
        }

    def _nodes(self) -> list[Node]:
        return [node for node in self._world.nodes if node.can_act]

    def _receivers(self) -> list[Receiver]:
        return [receiver for node in self._nodes() for receiver in self._world.receivers_at(node) if receiver.can_act]

    # -- the product works -----------------------------------------------------------------------------------------

    def _work(self) -> None:
        ready = [(node, worker) for node in self._nodes() for worker in node.workers.ready()]
        if ready:
            _, worker = self._chance.choice(ready)
            worker.step()

    # -- applications ----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        chance, profile = self._chance, self._world.profile
        burst = chance.choice(
            (1, 1, 3, 8, 90 if profile.memory_budget_bytes < 1 << 20 and chance.random() < 0.1 else 2)
        )
        for _ in range(burst):
            unit = None if chance.random() < profile.alone else f"u{chance.randrange(profile.units)}".encode()
            self._world.send(
                chance.choice(self._world.destinations),
                unit,
                poison=chance.random() < profile.poison,
                expires_in_ms=chance.choice((50, 1_000)) if chance.random() < 0.04 else 0,
                delay_ms=chance.choice(DELAYS_MS) if profile.delayed and chance.random() < profile.delayed else 0,
            )

    def _session(self) -> None:
        nodes = self._nodes()
        if not nodes:
            return
        node = self._chance.choice(nodes)
        open_here = self._world.receivers_at(node)
        closable = [receiver for receiver in open_here if receiver.can_act]
        if closable and (len(open_here) >= SESSIONS_MAX or self._chance.random() < 0.35):
            receiver = self._chance.choice(closable)
            self._world.note(f"{receiver.name} closes")
            receiver.close()
            self._world.receivers.remove(receiver)
        else:
            self.open_session(node)

    def open_session(self, node: Node, mode: Mode | None = None, queues: list[str] | None = None) -> None:
        """One more receiver at a node; what is not given is drawn."""
        if node.is_stopping:
            return
        self._sessions += 1
        mode = mode or self._chance.choice(list(Mode))
        queues = queues or self._some_queues()
        self.open_receiver(node, mode, self.openings_of(queues))

    def openings_of(self, queues: list[str]) -> list[Opening]:
        """Their consumers, with another selector first for each receiver."""
        selectors = list(SELECTORS) if self._world.selects and not self._world.is_ending else [None]
        return [
            opening_of_queue(queue, selectors[(self._sessions + place) % len(selectors)])
            for place, queue in enumerate(queues)
        ]

    def open_receiver(self, node: Node, mode: Mode, openings: list[Opening], client_id: str | None = None) -> Receiver:
        """One more receiver with these consumers."""
        prefetch = self._chance.randint(1, self._world.profile.prefetch)
        triggers = (self._chance.randint(0, prefetch), self._chance.choice((0, 20, 300)))
        receiver = self.receiver(
            node,
            f"s{self._sessions}",
            mode,
            openings,
            prefetch=prefetch,
            listens=self._chance.random() < 0.5,
            blocks=self._chance.random() < 0.2,
            records_attempts=self._world.profile.persists_attempts,
            triggers=triggers,
            appetite=self._chance.choice((1, prefetch)),
            recorder=self._world.recorder,
            client_id=client_id,
            provider=self.provider,
        )
        told = [opening.name for opening in openings]
        self._world.note(f"{receiver.name} opens at {node.name}: {mode.name}, {told}, prefetch {receiver.prefetch}")
        self._world.receivers.append(receiver)
        return receiver

    def open_kind_receivers(self) -> None:
        """Those that everything comes to its end with, however it was left."""
        for node in self._world.nodes:
            if node.is_alive:
                for mode in (Mode.CLIENT, Mode.TRANSACTED):
                    self.open_session(node, mode, list(self._world.queues))

    def before_end(self, rest: Callable[[], None]) -> None:
        """When nothing goes wrong any more; `rest`: a calm round goes by."""

    def end(self, rest: Callable[[], None]) -> None:
        """When everything has come to its end; `rest`: a calm round goes by."""

    def check(self) -> None:
        """What must hold of what these acts do."""

    def calm(self) -> None:
        """In each round of the calm end, beside receiving and settling."""

    def _some_queues(self) -> list[str]:
        queues = list(self._world.queues)
        if self._chance.random() < 0.5:
            queues = [self._chance.choice(queues)]
        if self._chance.random() < 0.2:
            queues.append(queues[0])
        return queues

    def _receive(self) -> None:
        receivers = self._receivers()
        if receivers:
            self.receive_at(self._chance.choice(receivers))

    def receive_at(self, receiver: Receiver) -> None:
        """A receiver asks for messages and takes what is there."""
        chance = self._chance
        inbox = chance.choice(receiver.inboxes)
        for _ in range(chance.randint(1, receiver.prefetch)):
            if receiver.mode in ONE_IN_HAND and any(item.noted.message.is_poison for item in receiver.items):
                receiver.give_back_all()
                return
            if receiver.receive(inbox) is None:
                return

    def _settle(self) -> None:
        receivers = [receiver for receiver in self._receivers() if self._has_enough(receiver)]
        if receivers:
            self.settle_at(self._chance.choice(receivers))

    def _has_enough(self, receiver: Receiver) -> bool:
        """Some work on one message after the other; others gather several, also of one unit, before they say a word."""
        if not receiver.items:
            return receiver.mode is Mode.TRANSACTED
        return len(receiver.items) >= receiver.appetite or self._chance.random() < 0.05

    def settle_at(self, receiver: Receiver, *, is_kind: bool = False) -> None:
        """A receiver says something about what it holds; a kind one only what must be said."""
        chance = self._chance
        poison = [item for item in receiver.items if item.noted.message.is_poison and not self._is_cured]
        if receiver.mode is Mode.TRANSACTED:
            if poison or (chance.random() < 0.25 and not is_kind):
                receiver.give_back_all()
            else:
                self._commit(receiver)
        elif not receiver.items:
            return
        elif poison and receiver.mode not in ONE_IN_HAND:
            receiver.nack(poison[0], None if is_kind else chance.choice((None, 0, 20, 300)))
        elif poison or (chance.random() < 0.15 and not is_kind):
            receiver.give_back_all()
        else:
            self._settle_one(receiver, is_kind)

    def _settle_one(self, receiver: Receiver, is_kind: bool) -> None:
        chance = self._chance
        item = receiver.items[-1] if is_kind else chance.choice(receiver.items)
        if receiver.lazy is not None:
            if is_kind:
                receiver.lazy.hurry()
            receiver.lazy.finish()
        elif receiver.mode is Mode.AUTO:
            receiver.acknowledge_all()
        elif chance.random() < 0.15 and not is_kind:
            receiver.nack(item, chance.choice((None, 0, 20, 300)))
        elif chance.random() < 0.1:
            receiver.acknowledge_all()
        else:
            receiver.acknowledge(item)
            if chance.random() < 0.2:
                receiver.acknowledge(item)  # twice

    @property
    def _is_cured(self) -> bool:
        return self._world.is_ending and self._world.profile.max_attempts < 0

    def _commit(self, receiver: Receiver) -> None:
        receiver.commit(*self.new_commit())

    def new_commit(self, *, may_be_bad: bool = True) -> tuple[Commit, list[Outgoing]]:
        """One more, and what it sends; `may_be_bad`: which brokers may refuse for good."""
        self._commits += 1
        name = f"c{self._commits}"
        is_bad = self._chance.random() < 0.05 and not self._world.is_ending and may_be_bad
        sends = {f"{name}.{i}{'-bad' if is_bad and i == 0 else ''}": OUT for i in range(self._chance.randint(1, 3))}
        records = [
            Outgoing(queue, self._chance.randrange(self._world.cluster.partition_count(queue)), None, send.encode())
            for send, queue in sends.items()
        ]
        return Commit(name, [], sends), records

    # -- what goes wrong -------------------------------------------------------------------------------------------

    def _time(self) -> None:
        self._world.clock.advance(self._chance.randint(1, 60))

    def _long_time(self) -> None:
        duration_ms = self._chance.choice((500, 2_100, 3_500, 11_000))
        self._world.note(f"{duration_ms} ms pass")
        self._world.clock.advance(duration_ms)

    def _crash(self) -> None:
        nodes = [node for node in self._world.nodes if node.is_alive]
        if nodes:
            self._world.crash(self._chance.choice(nodes))

    def _start(self) -> None:
        idle = [m for m in self._world.machines if not any(n.is_alive and n.machine is m for n in self._world.nodes)]
        if not idle:
            return
        machine = self._chance.choice(idle)
        if self._chance.random() < 0.3:
            machine.lose_state()
        node = self._world.start_node(machine)
        for _ in range(self._chance.randint(1, 2)):
            self.open_session(node)

    def _stop(self) -> None:
        nodes = self._nodes()
        if not nodes:
            return
        node = self._chance.choice(nodes)
        if not node.can_call:
            return
        self._world.note(f"{node.name} closes")
        node.is_stopping = True
        with node.calling():
            for receiver in self._world.receivers_at(node):
                if receiver.can_act:
                    self.end_session(receiver)
            node.sidecar.close()
        self._world.forget_receivers(node)
        self._world.note(f"{node.name} is closed")
        node.crash()

    def end_session(self, receiver: Receiver) -> None:
        """The application closes its session, in a call."""
        receiver.close()

    def _expire(self) -> None:
        members = [
            (group.name, member) for group in map(self._world.cluster.group, self.groups()) for member in group.members
        ]
        if members:
            group, member = self._chance.choice(members)
            self._world.note(f"the session of {member} expires")
            self._world.counts.expiries += 1
            self._world.cluster.expire_member(group, member)

    def groups(self) -> list[str]:
        """Whose members' sessions may expire."""
        return [group_of(queue) for queue in self._world.queues]

    def _freeze(self) -> None:
        frozen = [node for node in self._world.nodes if node.is_alive and node.is_frozen]
        if frozen and self._chance.random() < 0.7:
            node = self._chance.choice(frozen)
            self._world.note(f"{node.name} goes on")
            node.thaw()
        elif self._nodes():
            node = self._chance.choice(self._nodes())
            self._world.note(f"{node.name} is frozen")
            self._world.counts.freezes += 1
            node.freeze()

    def _jump(self) -> None:
        machine = self._chance.choice(self._world.machines)
        difference_ms = self._chance.choice((-60_000, -900, 700, 60_000))
        self._world.note(f"the clock of {machine.name} jumps by {difference_ms} ms")
        machine.clock.jump(difference_ms)

    def _unknown_outcome(self) -> None:
        fault = self._chance.choice(list(CommitFault))
        self._world.note(f"the next commit's answer is lost: {fault.name}")
        self._world.counts.commits_unknown += 1
        self._world.cluster.faults.commits.append(fault)

    def _refuse(self) -> None:
        self._world.refusals = self._chance.randint(1, 4)
        self._world.note(f"the next {self._world.refusals} copies and sends are refused")

    def _foreign_transaction(self) -> None:
        world, chance = self._world, self._chance
        if self._foreign is None:
            self._foreign = MemoryKafka(world.cluster).transactional_producer("foreign", transaction_timeout_ms=3_000)
            self._foreign.initialise(1.0)
        try:
            if not self._foreign_is_open:
                self._foreign.begin()
                self._foreign_is_open = True
                unit = f"u{chance.randrange(world.profile.units)}".encode()
                self._foreign.produce(world.message(chance.choice(world.destinations), unit))
            else:
                self._foreign_is_open = False
                if chance.random() < 0.5:
                    self._foreign.commit(1.0)
                else:
                    self._foreign.abort(1.0)
        except KafkaClientError:
            self._foreign, self._foreign_is_open = None, False

    def _compact(self) -> None:
        for queue, partitions in self._world.queues.items():
            for partition in range(partitions):
                self._world.cluster.log(changelog_of(queue), partition).compact(keeps_deletions=True)
