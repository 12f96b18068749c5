"""Simulated applications whose transactions a manager ends: their calls wait while others act (ACK-10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jbm_kafka.core.channel.branch import Xid
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.jms.receiving.inbox import ConsumerInbox
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.xa import XASession
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from tests.simulation.paper import Commit
from tests.simulation.provider import SimulatedConnection, SimulatedProvider
from tests.simulation.receiver import OUTBOX_BYTES, Item, Mode, Receiver

LOOK_S = 0.02
RECEIVE_LOOKS = 6
LOOKS_MAX = 2_000
"""Until a call is thought to wait for ever; time-outs are other tests'."""


class WaitingConnection(SimulatedConnection):
    """Its sessions' calls wait, and others act meanwhile."""

    rest: Callable[[], None]

    def wait_for(self, completion: Completion, timeout_s: float, *, about: str) -> None:
        for _ in range(LOOKS_MAX):
            if completion.is_done:
                break
            self.rest()
        assert completion.is_done, f"everything_is_finished: {about} waits for ever"
        completion.wait(0, about=about)


class XAReceiver(Receiver):
    """With a session for a manager, if it is TRANSACTED; else as any."""

    branch: Xid | None = None
    """What its session is in."""
    is_prepared = False

    def _connect(self, behind: SimulatedProvider, prefetch: int, *, blocks: bool) -> SimulatedConnection:
        if self.mode is not Mode.TRANSACTED:
            return super()._connect(behind, prefetch, blocks=blocks)
        made = WaitingConnection(self.name, behind, prefetch=prefetch, blocks=blocks, heard=self._told)
        made.rest = self._rest
        return made

    def _rest(self) -> None:
        """It waits, and its own process goes on, as others do."""
        for worker in self.node.workers.ready():
            worker.step()
            self._recorder.look()
        self.node.workers.pause(LOOK_S)

    def _new_session(self, mode: Mode) -> Session:
        return XASession(self._connection) if mode is Mode.TRANSACTED else super()._new_session(mode)

    @property
    def xa(self) -> XASession:
        """Its session."""
        assert isinstance(self.session, XASession), self.session
        return self.session

    @property
    def can_act(self) -> bool:
        """What is prepared waits for its manager, and its session too."""
        return super().can_act and not self.is_prepared

    def receive_by_several(self, inboxes: Sequence[ConsumerInbox]) -> None:
        """One message by each of these consumers, in this order; each waits for a moment."""
        for inbox in inboxes:
            self._turn = (None, 0)
            for _ in range(RECEIVE_LOOKS):
                if not self.can_act or self.receive(inbox) is not None:
                    break
                self._rest()

    def begin(self, xid: Xid) -> None:
        """What it receives from now on belongs to this branch."""
        self.xa.tpc_begin(xid)
        self.branch = xid

    def prepare(self, commit: Commit, sends: list[Outgoing]) -> None:
        """With these sends. It returns when it is durable, or has failed."""
        items = self._taken(commit, sends)
        commit.is_branch = True
        self.is_prepared = self._is_recorded(commit, items, self.xa.tpc_prepare)
        if not self.is_prepared:
            self.branch = None

    def commit_in_one_phase(self, commit: Commit, sends: list[Outgoing]) -> None:
        """As `prepare`."""
        items = self._taken(commit, sends)
        if self._is_recorded(commit, items, self.xa.tpc_commit):
            self._recorder.commit_ended(commit, None)
        self.branch = None

    def roll_back_unprepared(self) -> None:
        """It never comes to a prepare."""
        items = list(self.items)
        self._have_no_more(items)
        self._returned(items, None)
        self.xa.tpc_rollback()
        self.branch = None

    def end_prepared(self, call: Callable[[], None]) -> None:
        """By a call of its own session, which has no branch then, unless the outcome is not known."""
        try:
            call()
        finally:
            self.is_prepared = self.xa._branch is not None
            self.branch = self.branch if self.is_prepared else None

    def _rolled_back(self, commit: Commit, error: Exception) -> None:
        self._recorder.look()
        assert commit.outcome == "pending", f"told_what_is_recorded: {commit.name} is {commit.outcome}: {error}"
        self._recorder.commit_ended(commit, error)

    def _taken(self, commit: Commit, sends: list[Outgoing]) -> list[Item]:
        items = list(self.items)
        self._have_no_more(items)
        commit.hands = [item.noted for item in items]
        for record in sends:
            self.session._core.outbox.add(record, OUTBOX_BYTES)
        return items

    def _is_recorded(self, commit: Commit, items: list[Item], call: Callable[[], None]) -> bool:
        is_lost = any(item.is_lost for item in items)
        if is_lost:
            commit.outcome = "rolled back"
        else:
            self._recorder.committing(commit)
        self.commit_under_way = commit
        try:
            call()
        except TransactionRolledBackError as error:
            self.commit_under_way = None
            if not is_lost:
                self._rolled_back(commit, error)
            self._returned(items, None)
            return False
        except JMSError as error:
            self.commit_under_way = None
            self._recorder.look()
            if commit.outcome == "pending":
                self._recorder.commit_ended(commit, error)
            self.close()
            return False
        self.commit_under_way = None
        assert not is_lost, f"lost_is_rolled_back: {self.name} keeps what was taken from it"
        return True
