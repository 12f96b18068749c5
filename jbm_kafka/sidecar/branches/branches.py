"""What this process knows of prepared branches: its own, those of its channels, and all others when somebody asks.

A thread reads `jbm.branches` while a channel of ours holds messages of a branch or a branch of ours is not carried out
everywhere; group workers look at what it knows.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.codec.branch_records import (
    branches_in,
    decode_branch,
    encode_branch,
    encode_sends,
    keys_of_ended,
    state_key,
)
from jbm_kafka.core.channel.branch import (
    NONCE_HEX,
    Branch,
    BranchPart,
    BranchRecord,
    BranchState,
    PreparedBranch,
    Xid,
    heuristic_error,
    is_across,
)
from jbm_kafka.core.channel.entries import PREPARED
from jbm_kafka.core.channel.process_names import process_name
from jbm_kafka.core.jms_errors import CorruptRecordError, IllegalStateError, JMSError
from jbm_kafka.ports import Clock, Kafka, KafkaClientError, Outgoing
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.wake_up import WakeUp
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.sidecar.branches.decider import Decider
from jbm_kafka.sidecar.branches.decisions import Decisions
from jbm_kafka.sidecar.branches.entry_kinds import EntryKinds

log = logging.getLogger(__name__)

LOOK_S = 0.2
NAMES_MS = 1_000
"""A name that another process has begun to use is known here after so long."""
STOP_TIMEOUT_S = 10.0
OTHERS_REMOVE_MS = 60_000
"""Branches that others decided and have not removed for so long are removed by whoever looks."""
LATE_MS = 10_000
"""What another sidecar is to decide at once, and has not for so long, is rolled back: it may be dead."""


class Branches:
    """Any thread may call it."""

    def __init__(
        self,
        kafka: Kafka,
        records: RegistryLog,
        decisions: Decisions,
        clock: Clock,
        *,
        workers: Workers,
        decider_id: str,
        entry_kinds: EntryKinds,
        route: Callable[[Sequence[Outgoing]], None],
        decided: Callable[[], None],
    ) -> None:
        """`decisions`: what `records` had. `decided` is told when there may be one more: group workers look then."""
        self.records = records
        self._decisions = decisions
        self._clock = clock
        self._workers = workers
        self._decider = Decider(kafka, records, clock, own_id=decider_id, route=route, pause=workers.pause)
        self._decided = decided
        self._entry_kinds = entry_kinds
        self._own: dict[str, Xid] = {}
        """Begun or prepared here, and not carried out everywhere."""
        self._across: dict[str, int] = {}
        """Of branches that another sidecar decides at once: since when a channel here waits for that, monotonic."""
        self._asked_at_ms = 0
        """When a group worker last asked about a branch, monotonic."""
        self._version = -1
        self._names: frozenset[Xid] = frozenset()
        """Of what waits for a decision, as read last."""
        self._heuristic: frozenset[str] = frozenset()
        """Branches of them of which something went another way."""
        self._worker: StepWorker | None = None
        self._wake = WakeUp()
        self._is_stopping = False
        self._lock = threading.Lock()

    # -- of group workers ------------------------------------------------------------------------------------------

    def state_of(self, branch: str) -> BranchState | None:
        """Return the branch's state as known now, or None if it is not known or its record cannot be read.

        Each call also has the branch looked for in the background, so a group worker calls until it knows.
        """
        self._asked_at_ms = now_ms = self._clock.monotonic_ms()
        self._start()
        decided = self._decider.decided.get(branch)
        if decided is not None:
            return decided
        if is_across(branch):
            self._across.setdefault(branch, now_ms)
        value = self.records.get(state_key(branch))
        try:
            return None if value is None else decode_branch(value).state
        except CorruptRecordError as error:
            log.debug("branch %s: %s", branch, error)
            return None

    # -- of sessions -----------------------------------------------------------------------------------------------

    def begin(self, xid: Xid) -> Branch:
        """A branch that is about to be prepared here.

        Raises:
            IllegalStateError: a branch of this name is open or prepared.
            JMSError: the cluster does not answer.
        """
        if not self.records.is_there or self.records.age_ms > NAMES_MS or xid in self._names:
            with raised_as_jms_errors(f"branch {xid}"):
                self.records.make()
                self.records.refresh()
            self._look_at_names()
        with self._lock:
            is_open = any(its == xid and name not in self._decider.decided for name, its in self._own.items())
            if is_open or xid in self._names:
                raise IllegalStateError(f"branch {xid} is open or prepared already: use another name, or end it first")
            branch = Branch(xid.hex + secrets.token_hex(NONCE_HEX // 2), xid)
            self._own[branch.branch] = xid
        return branch

    def forget(self, branch: str) -> None:
        """It was not prepared after all, or ended in one phase."""
        with self._lock:
            self._own.pop(branch, None)
        self._decider.forget(branch)

    def records_of(self, branch: Branch, parts: Sequence[BranchPart], sends: Sequence[Outgoing]) -> list[Outgoing]:
        """Return what the checkpoint writes that prepares it.

        Raises:
            IllegalStateError: an older process, which could not read it, receives from the same groups.
            JMSError: the cluster does not answer.
        """
        if not self.records.is_there:
            with raised_as_jms_errors(f"branch {branch.xid}"):
                self.records.make()
        self._check_read_by_all(branch, parts)
        pieces = encode_sends(branch.branch, sends)
        record = BranchRecord(
            xid=branch.xid,
            state=BranchState.PREPARED,
            decider=branch.decider or self._decider.own_id,
            prepared_at_ms=self._clock.now_ms(),
            process=process_name(platform.node(), os.getpid()),
            parts=tuple(parts),
            sends=len(sends),
            pieces=len(pieces),
        )
        if record.decider == self._decider.own_id:
            self._decider.note_prepared(branch.branch, record, sends)
        rows: Mapping[bytes, bytes] = {**pieces, state_key(branch.branch): encode_branch(record)}
        return [Outgoing(self.records.topic, 0, key, value) for key, value in rows.items()]

    @property
    def own_decider(self) -> str:
        """The transactional id by which this process decides."""
        return self._decider.own_id

    def note_prepared(self, branch: str, record: bytes) -> None:
        """Another sidecar has prepared it, for this one to decide."""
        self._decider.note_prepared(branch, decode_branch(record), ())

    def note_decided(self, branch: str, state: BranchState) -> None:
        """Its decider says so."""
        self._decider.decided[branch] = state

    def decide_across(self, branches: Sequence[Branch], wanted: BranchState, sends: Sequence[Outgoing]) -> BranchState:
        """Return what is decided of all of them durably, which this process decides; see Decider.decide_all."""
        state = self._decider.decide_all([each.branch for each in branches], wanted, sends)
        with self._lock:
            self._own.update({each.branch: each.xid for each in branches})
        self._start()
        self._wake.set()
        self._decided()
        return state

    def _check_read_by_all(self, branch: Branch, parts: Sequence[BranchPart]) -> None:
        for group, topic in {(part.group, part.topic): None for part in parts}:
            with raised_as_jms_errors(f"branch {branch.xid}"):
                others = self._entry_kinds.members_without(PREPARED, group, topic)
            if others:
                raise IllegalStateError(
                    f"branch {branch.xid} received from {topic}, and so does {others[0]} with an older jbm-kafka, "
                    f"which cannot read what is prepared: upgrade or stop that first"
                )

    def decide(self, branch: str, wanted: BranchState, *, is_forced: bool = False) -> BranchState:
        """Return what is decided of it durably: as wanted, unless it was decided before.

        The answer stays the same when another has decided it and all have carried it out.

        Raises:
            IllegalStateError: its messages went another way without a decision, and this is not `is_forced`.
            TransactionInDoubtError: Kafka did not take a decision in time.
        """
        if not is_forced and (branch in self._heuristic or not self._decider.has_prepared(branch)):
            for found in self.found():
                if found.branch == branch and found.heuristic:
                    raise heuristic_error(found)
        try:
            state = self._decider.decide(branch, wanted)
        except IllegalStateError:  # nothing is recorded of it any more
            known = self._decisions.of(branch)
            if known is None:
                raise
            return known
        self._start()
        self._wake.set()
        self._decided()
        return state

    def decision_of(self, xid: Xid) -> BranchState | None:
        """Return what was decided of the last branch of this name that was prepared, as read last; None: it is not
        known."""
        return self._decisions.of_name(xid)

    def prepared(self) -> list[PreparedBranch]:
        """All that wait for a decision, in this namespace.

        Raises:
            JMSError: the cluster does not answer.
        """
        with raised_as_jms_errors("prepared branches"):
            # Also what was prepared behind a transaction that another process, or a rollback of this one, has open.
            self.records.refresh_marked()
            self._remove(OTHERS_REMOVE_MS)
        return self._waiting()

    def _waiting(self) -> list[PreparedBranch]:
        """Return the branches that are prepared and that nobody has decided yet, from the records read so far."""
        decided = self._decider.decided
        return [
            each for each in self.found() if each.record.state is BranchState.PREPARED and each.branch not in decided
        ]

    def _look_at_names(self) -> None:
        waiting = self._waiting()
        self._names = frozenset(each.xid for each in waiting)
        self._heuristic = frozenset(each.branch for each in waiting if each.heuristic)

    def found(self) -> list[PreparedBranch]:
        """All that are recorded, as read last."""
        return list(branches_in(self.records.values()))

    # -- its thread ------------------------------------------------------------------------------------------------

    def stop(self, patience: Patience) -> None:
        """Read and decide nothing more."""
        with self._lock:
            self._is_stopping = True
        self._wake.set()
        if self._worker is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)
        self._decider.close()
        self.records.close()

    def _start(self) -> None:
        with self._lock:
            if not self._is_stopping and (self._worker is None or not self._worker.is_alive):
                self._worker = self._workers.start("jbm-branches", self._run())

    def _run(self) -> Steps:
        age_ms = OTHERS_REMOVE_MS
        while not self._is_stopping:
            try:
                self.records.refresh()
                self._remove(age_ms)
                self._remove(0)
                age_ms = 0
                self._forget_removed()
            except KafkaClientError as error:
                log.info("topic %s: %s; it is read again", self.records.topic, error)
            if self.records.version != self._version:
                self._version = self.records.version
                self._look_at_names()
                self._decided()
            self._end_late()
            is_needed = bool(self._own) or self._clock.monotonic_ms() - self._asked_at_ms < 10 * LOOK_S * 1000
            if not is_needed:
                return
            yield Wait(LOOK_S, self._wake)
            self._wake.clear()

    def _forget_removed(self) -> None:
        values = self.records.values()
        for branch in list(self._decider.decided):
            if branch not in self._own and state_key(branch) not in values:
                self._decider.forget(branch)

    def _end_late(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for branch, since_ms in list(self._across.items()):
            try:
                if self.state_of(branch) in (BranchState.COMMITTED, BranchState.ROLLED_BACK):
                    del self._across[branch]
                elif now_ms - since_ms > LATE_MS:
                    log.info("branch %s: its sidecar has not decided it, so it is rolled back here", branch)
                    self.decide(branch, BranchState.ROLLED_BACK)
                    del self._across[branch]
            except JMSError as error:
                log.info("branch %s is not decided: %s", branch, error)
                self._across[branch] = now_ms
                if isinstance(error, IllegalStateError):
                    del self._across[branch]

    def _remove(self, age_ms: int) -> None:
        """Remove what is carried out everywhere: at once of our own, or what anybody left for so long."""
        values = self.records.values()
        ended = keys_of_ended(values, before_ms=self._clock.now_ms() - age_ms)
        if not age_ms:
            ended = [key for key in ended if key.decode().partition("|")[0] in self._own]
        if ended:
            self.records.write(dict.fromkeys(ended))
        gone = {key.decode().partition("|")[0] for key in ended}
        for branch in gone:
            self.forget(branch)
