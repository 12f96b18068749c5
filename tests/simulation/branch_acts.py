"""Transaction managers, who prepare, decide and recover, each as it likes: the first durable decision counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jbm_kafka.core.channel.branch import BranchState, Xid, checked_xid
from jbm_kafka.core.jms_errors import IllegalStateError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.jms.xa import XASession
from tests.simulation.acts import Acts
from tests.simulation.branches import Branches
from tests.simulation.names import BRANCHES
from tests.simulation.node import Node
from tests.simulation.provider import SimulatedConnection, SimulatedProvider
from tests.simulation.receiver import Mode, Receiver
from tests.simulation.world import World
from tests.simulation.xa_receiver import XAReceiver

ROUNDS_BETWEEN = 50
"""In the calm end: 2 s."""
ROUNDS_UNTIL_REMOVED = 2_000
"""80 s: what others left is removed after 60."""
COMMITTED, ROLLED_BACK = BranchState.COMMITTED, BranchState.ROLLED_BACK


class BranchActs(Acts):
    """The acts of a simulation in which transactions are parts of others."""

    receiver = XAReceiver

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.cluster.create_topic(BRANCHES, 1, {"cleanup.policy": "compact"})
        world.cluster.faults.step = self._amid_a_decision
        self._branches = Branches(world)
        self._callers: list[Node] = []
        """Whose applications are in calls, one in the midst of the other's."""
        self._xids = 0
        self._rounds = 0

    @contextmanager
    def _calling(self, node: Node) -> Iterator[None]:
        self._callers.append(node)
        try:
            with node.calling():
                yield
        finally:
            self._callers.pop()

    def _amid_a_decision(self, transactional_id: str, step: str) -> None:
        """Others act between the steps of who decides, and it may stop there, or die."""
        is_meant = transactional_id.endswith(".xa") and step in ("begin", "commit") and bool(self._callers)
        if is_meant and not self._world.is_ending and self._chance.random() < 0.4:
            self._callers[-1].workers.pause(0.01)

    def _compact(self) -> None:
        super()._compact()
        self._world.cluster.log(BRANCHES, 0).compact(keeps_deletions=True)

    # -- sessions ----------------------------------------------------------------------------------------------------

    def open_session(self, node: Node, mode: Mode | None = None, queues: list[str] | None = None) -> None:
        if mode is None and self._chance.random() < 0.7:
            mode = Mode.TRANSACTED
        if mode is Mode.TRANSACTED and self._chance.random() < 0.6:  # a queue's units come by all of its consumers
            queues = (queues or self._some_queues()) * self._chance.randint(2, 3)
        super().open_session(node, mode, queues)

    def _has_enough(self, receiver: Receiver) -> bool:
        return super()._has_enough(receiver) and (bool(receiver.items) or self._chance.random() < 0.05)

    def receive_at(self, receiver: Receiver) -> None:
        assert isinstance(receiver, XAReceiver), receiver
        may_begin = receiver.mode is Mode.TRANSACTED and receiver.branch is None and not receiver.items
        if may_begin and receiver.node.can_call and self._chance.random() < 0.8:
            self._xids += 1
            with self._calling(receiver.node):
                receiver.begin(checked_xid(1, f"t{self._xids}", "jbm"))
            self._branches.begun[receiver.xa.xid(1, f"t{self._xids}", "jbm")] = self.new_commit(may_be_bad=False)[0]
        super().receive_at(receiver)
        is_in_midst = receiver.branch is not None and 0 < len(receiver.items) < 4
        if is_in_midst and len(receiver.inboxes) > 1 and receiver.can_act and receiver.node.can_call:
            with self._calling(receiver.node):
                receiver.receive_by_several(self._chance.choices(receiver.inboxes, k=2))

    def settle_at(self, receiver: Receiver, *, is_kind: bool = False) -> None:
        assert isinstance(receiver, XAReceiver), receiver
        if receiver.branch is None:
            super().settle_at(receiver, is_kind=is_kind)
            return
        if not receiver.node.can_call:
            return
        chance = self._chance
        is_poisoned = any(item.noted.message.is_poison for item in receiver.items) and not self._is_cured
        with self._calling(receiver.node):
            if (is_poisoned and chance.random() < 0.6) or (chance.random() < 0.15 and not is_kind):
                receiver.roll_back_unprepared()
            elif not is_poisoned and chance.random() < 0.15:
                receiver.commit_in_one_phase(*self.new_commit(may_be_bad=False))
            else:
                self._prepare(receiver)
        if receiver.is_prepared and chance.random() < 0.2:
            self._decide_at(receiver)

    def _prepare(self, receiver: XAReceiver) -> None:
        assert receiver.branch is not None, receiver
        commit, sends = self.new_commit(may_be_bad=False)
        self._branches.begun[receiver.branch] = commit
        receiver.prepare(commit, sends)

    # -- managers ----------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        prepared = [each for each in self._prepared() if each.node.can_call]
        if prepared:
            self._decide_at(self._chance.choice(prepared))

    def _prepared(self) -> list[XAReceiver]:
        receivers = [each for each in self._world.receivers if isinstance(each, XAReceiver)]
        return [each for each in receivers if each.is_prepared and each.node.can_act and not each.is_closed]

    def _decide_at(self, receiver: XAReceiver) -> None:
        """By the session that prepared it, which may have lost its branch to another manager."""
        xid = receiver.branch
        if xid is None or not receiver.node.can_call:
            return
        wanted = self._wanted(xid)
        with self._calling(receiver.node):
            receiver.end_prepared(lambda: self._ask(receiver.xa, None, xid, wanted))

    def _wanted(self, xid: Xid) -> BranchState:
        """What a manager wishes; of what has poison, that it comes again."""
        hands = self._branches.begun[xid].hands
        if any(hand.message.is_poison for hand in hands) and not self._is_cured:
            return ROLLED_BACK
        return self._chance.choice((COMMITTED, COMMITTED, ROLLED_BACK)) if not self._world.is_ending else COMMITTED

    def _ask(self, session: XASession, named: Xid | None, xid: Xid, wanted: BranchState) -> None:
        """Commit or roll back; what the call says of it must be what is recorded."""
        call = session.tpc_commit if wanted is COMMITTED else session.tpc_rollback
        self._world.note(f"{self._branches.begun[xid].name} is to be {wanted.value}, by {self._callers[-1].name}")
        try:
            call(named)
        except TransactionRolledBackError:
            self._branches.check_told(xid, ROLLED_BACK)
        except TransactionInDoubtError as error:
            self._world.note(f"{xid}: {error}")
        except IllegalStateError as error:
            self._world.note(f"{xid}: {error}")
            if "was committed before" in str(error):
                self._branches.check_told(xid, COMMITTED)
            else:
                self._branches.check_over(xid)
        else:
            self._branches.check_told(xid, wanted)

    def _recover(self) -> None:
        nodes = [node for node in self._nodes() if node.can_call]
        if nodes:
            self._recover_at(self._chance.choice(nodes), share=self._chance.choice((0.0, 0.5, 1.0)))

    def _recover_at(self, node: Node, *, share: float) -> None:
        """A manager lists what is prepared, and decides some of it, whoever prepared that."""
        provider = SimulatedProvider(node, records_attempts=False)
        heard = self._world.note
        session = XASession(
            SimulatedConnection("manager", provider, prefetch=1, blocks=False, heard=lambda error: heard(str(error)))
        )
        with self._calling(node):
            self._world.recorder.look()
            before = self._branches.waiting
            listed = session.tpc_recover()
            self._branches.check_listed(before, listed)
            for xid in listed:
                if self._chance.random() < share:
                    self._ask(session, xid, xid, self._wanted(xid))
            session.close()

    def _outlast(self) -> None:
        """A coordinator is stopped, another rolls back or commits what it has prepared, and it goes on."""
        prepared = self._prepared()
        if not prepared:
            return
        stopped = self._chance.choice(prepared)
        self._world.note(f"{stopped.node.name} is stopped with what {stopped.name} has prepared")
        self._world.counts.freezes += 1
        stopped.node.freeze()
        for node in [node for node in self._nodes() if node.can_call][:1]:
            self._recover_at(node, share=1.0)
        if stopped.node.is_alive and stopped.node.is_frozen:
            stopped.node.thaw()
            self._world.note(f"{stopped.node.name} goes on")
            self._decide_at(stopped)

    def _leave(self) -> None:
        """Who has prepared dies, and a manager may be there before another owner has read what is prepared."""
        prepared = self._prepared()
        if not prepared:
            return
        self._world.crash(self._chance.choice(prepared).node)
        others = [node for node in self._nodes() if node.can_call]
        if others and self._chance.random() < 0.4:
            self._recover_at(self._chance.choice(others), share=1.0)

    # -- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        self._branches.check()

    def calm(self) -> None:
        self._rounds += 1
        for receiver in self._prepared():
            self._decide_at(receiver)
        nodes = [node for node in self._nodes() if node.can_call]
        if nodes and self._rounds % ROUNDS_BETWEEN == 0:
            self._recover_at(self._chance.choice(nodes), share=1.0)

    def end(self, rest: Callable[[], None]) -> None:
        for _ in range(ROUNDS_UNTIL_REMOVED):
            rest()
        for node in self._nodes():
            assert not node.sidecar.branches.prepared(), f"nothing_stays_prepared: {node.name} lists some"
        self._branches.check_end()
