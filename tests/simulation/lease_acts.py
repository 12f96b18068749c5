"""Processes that may not all receive together, and connections with client ids (decisions 28, 32)."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.jms_errors import IllegalStateError
from tests.simulation.acts import SESSIONS_MAX, Acts
from tests.simulation.client_leases import ClientLeases
from tests.simulation.leases import Leases
from tests.simulation.names import SELECTORS
from tests.simulation.node import Node
from tests.simulation.provider import LeasingProvider
from tests.simulation.receiver import Mode, Receiver, opening_of_queue
from tests.simulation.world import World

RED, OTHERS = (each for each in SELECTORS if each in ("JMSType = 'red'", "JMSType <> 'red'"))
SETS = [frozenset(each) for each in ((None,), (RED,), (OTHERS,), (RED, OTHERS), (None, RED))]
CLIENT_IDS = ("app", "bureau")
ROUNDS_UNTIL_TOLD, ROUNDS_UNTIL_GONE = 400, 400
"""16 s each: more than any time-out here, one after the other."""


class LeaseActs(Acts):
    """The acts of a simulation of processes with equal and with other selectors."""

    provider = LeasingProvider

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.leases = Leases(world, *world.queues)
        self.clients = ClientLeases(world)
        self._chosen = self._chance.choice(SETS)
        """What most applications choose at present."""

    # -- consumers -------------------------------------------------------------------------------------------------

    def _fashion(self) -> None:
        self._chosen = self._chance.choice(SETS)

    def _session(self) -> None:
        nodes = [node for node in self._nodes() if node.can_call]
        if not nodes:
            return
        node = self._chance.choice(nodes)
        here = self._world.receivers_at(node)
        closable = [receiver for receiver in here if receiver.can_act]
        if closable and (len(here) >= SESSIONS_MAX or self._chance.random() < 0.45):
            self.close(self._chance.choice(closable))
        else:
            self.open_session(node)

    def open_session(self, node: Node, mode: Mode | None = None, queues: list[str] | None = None) -> None:
        if not node.can_call:
            return
        chosen = self._chosen if self._chance.random() < 0.75 else self._chance.choice(SETS)
        if self._world.is_ending:
            chosen = frozenset({None})
        self._sessions += 1
        (queue,) = self._world.queues
        openings = [opening_of_queue(queue, each, may_wait=True) for each in sorted(chosen, key=str)]
        with node.calling(), self.leases.opening(node, chosen) as call:
            try:
                receiver = self.open_receiver(node, mode or self._chance.choice(list(Mode)), openings)
            except IllegalStateError as error:
                self._world.note(f"{node.name} is refused with {sorted(map(str, chosen))}: {error}")
                self._is_the_refusal(error)
                self.leases.refused(call, chosen)
                return
            self.leases.let_in(call, receiver, chosen)

    def _is_the_refusal(self, error: IllegalStateError) -> None:
        assert "all processes must select alike" in str(error), f"the_refused_is_told: {error}"

    def close(self, receiver: Receiver) -> None:
        """Its session ends while its process goes on."""
        self._world.note(f"{receiver.name} closes")
        with receiver.node.calling():
            self.end_session(receiver)
        self._world.receivers.remove(receiver)

    def end_session(self, receiver: Receiver) -> None:
        """With it its selectors go, also when its process closes: others may be let in before the process has ended."""
        self.leases.closing(receiver)
        super().end_session(receiver)
        self.leases.closed(receiver)

    def _tidy(self) -> None:
        for receiver in list(self._world.receivers):
            if receiver.wants_close and receiver.commit_under_way is None and receiver.node.can_call:
                self.close(receiver)

    def receive_at(self, receiver: Receiver) -> None:
        if not receiver.node.can_call:
            return
        with receiver.node.calling():
            super().receive_at(receiver)
        if receiver.refusal is not None:
            self._world.note(f"{receiver.name} is told: {receiver.refusal}")
            self._is_the_refusal(receiver.refusal)
            self.leases.told(receiver.node)
            receiver.refusal = None
            receiver.wants_close = self._chance.random() < 0.8

    # -- client ids ------------------------------------------------------------------------------------------------

    def _client(self) -> None:
        nodes = [node for node in self._nodes() if node.can_call]
        if not nodes:
            return
        node = self._chance.choice(nodes)
        if self._chance.random() < 0.4:
            self.clients.release(node)
        else:
            self.clients.hold(node, self._chance.choice(CLIENT_IDS))

    # -- what goes wrong -------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        members = [each.member_id for node in self._nodes() for each in node.kafka.members]
        members = [each for each in members if each in self._world.cluster.group(each.rpartition("/")[0]).members]
        if members:
            member = self._chance.choice(members)
            self._world.note(f"the session of {member} expires")
            self._world.counts.expiries += 1
            self.leases.note_doubt(member)
            self._world.cluster.expire_member(member.rpartition("/")[0], member)

    def _outlast(self) -> None:
        """A process stands still for longer than its lease, and another comes with other selectors meanwhile."""
        busy = [node for node in self._nodes() if node.can_call and self._world.receivers_at(node)]
        if not busy:
            return
        sleeper = self._chance.choice(busy)
        self._world.note(f"{sleeper.name} stands still for longer than its lease")
        self._world.counts.freezes += 1
        sleeper.freeze()
        self._world.clock.advance(self._world.config.session_timeout_ms + self._chance.choice((1, 600)))
        self._fashion()
        for node in [node for node in self._nodes() if node.can_call]:
            self.open_session(node)

    # -- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        self.leases.look()
        self.clients.look()

    def calm(self) -> None:
        self._tidy()

    def before_end(self, rest: Callable[[], None]) -> None:
        """Who cannot receive beside others hears so; then all close, and nobody is refused who comes later."""
        for _ in range(ROUNDS_UNTIL_TOLD):
            rest()
        self.leases.all_are_told()
        while any(receiver.commit_under_way for receiver in self._world.receivers):
            rest()
        for receiver in list(self._world.receivers):
            self.close(receiver)
        for _ in range(ROUNDS_UNTIL_GONE):
            rest()
