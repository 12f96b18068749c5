"""Who has which client id (CONN-2), told by connections: one in the whole cluster, and a dead one's is free again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbm_kafka.core.jms_errors import InvalidClientIDError
from tests.simulation.leases import SLACK_MS

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.world import World


@dataclass(eq=False, slots=True)
class Hold:
    """One connection's."""

    client_id: str
    node: Node
    connection: str
    is_doubtful: bool = False
    died_ms: int | None = None
    is_let_go: bool = False

    def lose(self, error: InvalidClientIDError) -> None:
        """It was told that another process has it now: only who was thought dead may hear that."""
        assert self.is_doubtful or self.is_let_go, f"who_is_alive_keeps_it: {error}"
        self.is_let_go = True


class ClientLeases:
    """Those of all processes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holds: list[Hold] = []
        self._calls: list[Hold] = []
        """Those whose calls have not returned."""
        self._connections = 0

    def hold(self, node: Node, client_id: str) -> None:
        """One more connection wants it."""
        began_ms = self._world.clock.monotonic_ms()
        before = self._of(client_id)
        is_contended = any(each.client_id == client_id for each in self._calls)
        self._connections += 1
        mine = Hold(client_id, node, f"k{self._connections}")
        self._calls.append(mine)
        self.look()
        is_refused = False
        try:
            with node.calling():
                node.sidecar.claims.client_ids.hold(client_id, mine.connection, mine.lose)
        except InvalidClientIDError:
            is_refused = True
        finally:
            self._calls.remove(mine)
        self.look()
        is_refused_rightly = is_contended or any(self._is_in_the_way(each, began_ms) for each in before)
        self._world.note(f"{client_id} is {'refused' if is_refused else 'held'} at {node.name}")
        if is_refused:
            came = len(self._of(client_id)) > len(before)
            assert is_refused_rightly or came, f"a_free_client_id_is_had: {client_id} is refused at {node.name}"
            return
        for other in self._of(client_id):
            is_firm = other.node is node or self._is_firm(other)
            assert not is_firm, f"one_has_a_client_id: {client_id} is at {other.node.name} and at {node.name}"
        self._holds.append(mine)

    def release(self, node: Node) -> None:
        """Some connection of a process closes."""
        mine = [each for each in self._holds if each.node is node and not each.is_let_go]
        if mine:
            hold = self._world.random.choice(mine)
            self._world.note(f"{hold.client_id} is let go at {node.name}")
            with node.calling():
                node.sidecar.claims.client_ids.release(hold.client_id, hold.connection)
            hold.is_let_go = True

    def look(self) -> None:
        """Take down who stands still or is thought dead, and who is gone."""
        for hold in (*self._holds, *self._calls):
            hold.is_doubtful = hold.is_doubtful or hold.node.is_frozen or hold.node.is_thought_dead
            if not hold.node.is_alive and hold.died_ms is None:
                hold.died_ms = self._world.clock.monotonic_ms()

    def _of(self, client_id: str) -> list[Hold]:
        return [each for each in self._holds if each.client_id == client_id and not each.is_let_go]

    def _is_firm(self, hold: Hold) -> bool:
        """Nobody else may have it now. A process that closes lets go of all, at some time of its closing."""
        return hold.node.can_act and not hold.node.is_stopping and not hold.is_doubtful

    def _is_in_the_way(self, hold: Hold, now_ms: int) -> bool:
        if hold.died_ms is None:
            return True
        return now_ms <= hold.died_ms + self._world.config.session_timeout_ms + SLACK_MS
