"""Who may receive from a queue together, and who has a client id (SEL-2, CONN-2): told by applications and brokers.

Nothing of the product is read: what a process selects is what its applications opened and closed, and whether it is a
member of the queue's group the brokers say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from tests.simulation.names import group_of

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.receiver import Receiver
    from tests.simulation.world import World

Selectors = frozenset[str | None]
NO_SELECTORS: Selectors = frozenset({None})
SLACK_MS = 500
"""After a session timeout, until a dead process binds nobody."""


@dataclass(eq=False, slots=True)
class Standing:
    """One process at the queue."""

    node: Node
    sets: set[Selectors] = field(default_factory=set)
    """One of them is what it receives with: which, when it closed something beside others, only they know."""
    is_doubtful: bool = False
    """It stood still, or a session of its expired: others may have thought it dead."""
    is_told: bool = False
    """Its applications know that it receives nothing."""
    received_as: str | None = None
    """The member that it was when it last got a message."""
    changed_ms: int = 0
    """When it last opened or closed anything."""
    died_ms: int | None = None


@dataclass(eq=False, slots=True)
class Opening:
    """Somebody opens consumers."""

    node: Node
    began_ms: int
    members: dict[Standing, str | None]
    """Of the others, when it began."""
    stood_still: bool = False


class Leases:
    """The standings of all processes at one queue."""

    def __init__(self, world: World, queue: str) -> None:
        self._world = world
        self._group = group_of(queue)
        self._standings: dict[Node, Standing] = {}
        self._uses: dict[Receiver, Selectors] = {}
        self._openings: list[Opening] = []
        world.recorder.gets = self._gets

    # -- opening and closing ---------------------------------------------------------------------------------------

    @contextmanager
    def opening(self, node: Node, chosen: Selectors) -> Iterator[Opening]:
        """While a process opens consumers: its others may receive with the new set before this one hears of it."""
        standing = self._standings.setdefault(node, Standing(node))
        if not self._used(node):
            standing.is_doubtful, standing.is_told = node.is_thought_dead, False
        before, now_ms = set(standing.sets), self._now_ms
        standing.sets.add(self._used(node) | chosen)
        standing.changed_ms = now_ms
        others = {each: each.node.member_of(self._group) for each in self._others(node)}
        call = Opening(node, now_ms, others)
        self._openings.append(call)
        try:
            yield call
        finally:
            self._openings.remove(call)
            standing.changed_ms = self._now_ms
            if not self._used(node):
                standing.sets = before

    def let_in(self, call: Opening, receiver: Receiver, chosen: Selectors) -> None:
        """It has its consumers, and was told nothing."""
        standing = self._standings[call.node]
        before = self._used(call.node)
        self._uses[receiver] = chosen
        wanted = self._used(call.node)
        # Who selects the same already claims nothing more: what others claimed meanwhile is told by its next receive.
        for other in () if standing.is_doubtful or wanted == before else self._others(call.node):
            is_firm = self._is_receiving(other) and not other.is_doubtful and other.changed_ms < call.began_ms
            is_same = call.members.get(other) == other.received_as
            assert not (is_firm and is_same) or wanted in other.sets, (
                f"others_are_refused: {call.node.name} selects {_told(wanted)} beside {_shown(other)}"
            )
        standing.sets, standing.is_told = {wanted}, False

    def refused(self, call: Opening, chosen: Selectors) -> None:
        """It was told that others select otherwise."""
        wanted = self._used(call.node) | chosen
        is_right = call.stood_still or any(self._is_in_the_way(each, wanted, call) for each in self._others(call.node))
        assert is_right, f"let_in_when_nobody_minds: {call.node.name} selects {_told(wanted)} and is refused"

    def closing(self, receiver: Receiver) -> None:
        """Its consumers go one after the other, and others may come between: any rest may be what it has then."""
        standing = self._standings[receiver.node]
        chosen = self._uses[receiver]
        others = self._used(receiver.node, but=receiver)
        for count in range(len(chosen)):
            standing.sets.update(others.union(rest) for rest in combinations(chosen, count) if others or rest)
        standing.changed_ms = self._now_ms

    def closed(self, receiver: Receiver) -> None:
        """Some selectors less: beside others it may keep the larger set (decision 32)."""
        self._uses.pop(receiver, None)
        standing = self._standings[receiver.node]
        standing.changed_ms = self._now_ms
        if self._used(receiver.node):
            standing.sets.add(self._used(receiver.node))

    def told(self, node: Node) -> None:
        """One of its applications heard why nothing comes."""
        self._standings[node].is_told = True

    def note_doubt(self, member: str) -> None:
        """A session of this member has expired."""
        for standing in self._standings.values():
            if any(each.member_id == member for each in standing.node.kafka.members):
                standing.is_doubtful = True

    # -- what must hold --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take down who stands still, and who is gone."""
        for standing in self._standings.values():
            if standing.node.is_frozen:
                standing.is_doubtful = True
            if not standing.node.is_alive and standing.died_ms is None:
                standing.died_ms = self._now_ms
        for receiver in [each for each in self._uses if not each.node.is_alive]:
            del self._uses[receiver]
        for call in self._openings:
            call.stood_still = call.stood_still or call.node.is_frozen

    def _gets(self, node: Node, queue: str, what: str) -> None:
        """SEL-2: no two that select otherwise both receive."""
        member = node.member_of(self._group)
        mine = self._standings.get(node)
        if member is None or mine is None:
            return  # what it had before it was thrown out
        if mine.is_told:  # and tried again
            mine.is_told = False
            mine.sets.add(self._used(node))
        mine.received_as = member
        for other in self._others(node):
            if self._is_receiving(other):
                assert mine.sets & other.sets, (
                    f"those_who_receive_select_alike: {_shown(mine)} gets {what}, and so does {_shown(other)}"
                )

    def all_are_told(self) -> None:
        """After a calm while: whoever still has consumers, and heard nothing, selects as the others do."""
        here = [each for each in self._standings.values() if each.node.is_alive and self._used(each.node)]
        here = [each for each in here if each.sets != {NO_SELECTORS} or self._has_partitions(each.node)]
        for one in here:
            for other in here:
                is_said = one.is_told or other.is_told
                assert is_said or one.sets & other.sets, f"the_refused_is_told: {_shown(one)} beside {_shown(other)}"

    def _has_partitions(self, node: Node) -> bool:
        """Who has no selectors looks when partitions come to it, and not before (decision 32)."""
        member = node.member_of(self._group)
        return member is not None and bool(self._world.cluster.group(self._group).members[member].assigned)

    # -- each a question -------------------------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms()

    def _used(self, node: Node, but: Receiver | None = None) -> Selectors:
        uses = (chosen for receiver, chosen in self._uses.items() if receiver.node is node and receiver is not but)
        return frozenset[str | None]().union(*uses)

    def _others(self, node: Node) -> list[Standing]:
        return [each for each in self._standings.values() if each.node is not node]

    def _is_receiving(self, standing: Standing) -> bool:
        node = standing.node
        if not node.can_act or standing.is_told or standing.received_as is None or not self._used(node):
            return False
        return node.member_of(self._group) == standing.received_as

    def _is_in_the_way(self, other: Standing, wanted: Selectors, call: Opening) -> bool:
        if other.died_ms is not None:
            return call.began_ms <= other.died_ms + self._world.config.session_timeout_ms + SLACK_MS
        is_here = bool(self._used(other.node)) or other.changed_ms >= call.began_ms
        was_here = call.members.get(other) is not None or any(each.node is other.node for each in self._openings)
        if not (is_here or was_here):
            return False
        is_unsure = other.is_doubtful or other.node.is_stopping
        return is_unsure or other.sets != {wanted} or (was_here and not self._used(other.node))


def _told(chosen: Selectors) -> str:
    return " and ".join(sorted(str(each) for each in chosen)) or "nothing"


def _shown(standing: Standing) -> str:
    return f"{standing.node.name} with {', or '.join(sorted(map(_told, standing.sets)))}"
