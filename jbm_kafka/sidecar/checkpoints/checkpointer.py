"""The checkpoint thread: one Kafka transaction for everything since the last, group commit for all that wait.

Group workers freeze what is dirty, transfers bring sends; both go out together, then comes the journal,
then the waits for it end.
What harms a transaction is left out of the next try: a fenced group, a refused record; the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jbm_kafka.core.channel.counters import DurationCounter
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.ports import (
    AccessRefused,
    Clock,
    GroupFenced,
    KafkaClientError,
    OutcomeUnknown,
    RecordTooLarge,
    Refusal,
    TransactionAborted,
)
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import GO_ON, Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.unit_of_work import expired_before_commit
from jbm_kafka.registry.topics import gone
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FreezeRequest, FrozenGroup, Participant, Transfer
from jbm_kafka.sidecar.checkpoints.checkpoint_schedule import CheckpointSchedule
from jbm_kafka.sidecar.checkpoints.hanging_transactions import HangingTransactions
from jbm_kafka.sidecar.checkpoints.transaction import TransactionWriter
from jbm_kafka.sidecar.checkpoints.unrecorded import Unrecorded, refusal_of, rolled_back
from jbm_kafka.sidecar.checkpoints.unwritable import without_leader
from jbm_kafka.sidecar.log_lines.partition_lines import FenceLines, TwinLines

log = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.1
BUG_PAUSE_S = 1.0
"""Before the next checkpoint after one that failed by a bug: it will again, and each time writes a traceback."""
UNMADE_PAUSE_MS = 8_000
"""Left out for so long for want of its changelog, which is made again within seconds where that is allowed, a group
worker gives up, and its receivers get the error."""
ATTEMPTS_MAX = 8
"""Tries of one round before its transfers are given up; what group workers have dirty is tried again for ever."""
FREEZE_TIMEOUT_S = 5.0
"""A participant answers within milliseconds, unless its Kafka client blocks; then the checkpoint goes on without it."""
FENCED_PAUSE_MS = 100
"""A fenced participant is left out for this long: its group tells it what it still owns meanwhile."""
REFUSED_PAUSE_MS = 1_000
"""A participant whose records Kafka refused; twice as long each time again, for every try costs the others an abort."""
REFUSED_PAUSE_MAX_MS = 30_000


@dataclass(slots=True)
class _Round:
    """One checkpoint on its way: what may still be left out of it."""

    transfers: list[Transfer]
    fenced: frozenset[Participant] = frozenset()
    failure: str = ""
    """Why the latest try failed, as Kafka said it."""
    was_cut_off: bool = False
    """The latest try was not committed, and nobody says whose fault it was: it may have been too large for its time."""


class Backoff:
    """Which participants are left out for how long. The checkpoint thread only."""

    def __init__(self, clock: Clock) -> None:
        self.lines = FenceLines()
        self.twin = TwinLines()
        self._clock = clock
        self._until_ms: dict[Participant, int] = {}
        self._pause_ms: dict[Participant, int] = {}
        """How long a participant that was refused was left out the last time."""

    def now(self) -> frozenset[Participant]:
        """Participants whose pause has not ended."""
        now_ms = self._clock.monotonic_ms()
        self._until_ms = {one: until_ms for one, until_ms in self._until_ms.items() if until_ms > now_ms}
        self._pause_ms = {one: pause_ms for one, pause_ms in self._pause_ms.items() if one.is_alive}
        return frozenset(self._until_ms)

    def fenced(self, participants: Iterable[Participant]) -> None:
        """Their groups do not know them at present."""
        until_ms = self._clock.monotonic_ms() + FENCED_PAUSE_MS
        self._until_ms.update((participant, until_ms) for participant in participants)

    def refused(self, participants: Iterable[Participant]) -> None:
        """Kafka refused something of theirs."""
        now_ms = self._clock.monotonic_ms()
        for participant in participants:
            pause_ms = min(2 * self._pause_ms.get(participant, REFUSED_PAUSE_MS // 2), REFUSED_PAUSE_MAX_MS)
            self._pause_ms[participant] = pause_ms
            self._until_ms[participant] = now_ms + pause_ms

    def pause_ms(self, participant: Participant) -> int:
        """How long it was left out after the latest refusal; 0: it took part since, or was never refused."""
        return self._pause_ms.get(participant, 0)

    def took_part(self, participants: Iterable[Participant]) -> None:
        """A checkpoint with them was committed."""
        if self._pause_ms:
            for participant in participants:
                self._pause_ms.pop(participant, None)


class Checkpointer:
    """The checkpoint thread, which runs from `start` to `stop`."""

    def __init__(
        self,
        *,
        writer: TransactionWriter,
        hanging: HangingTransactions,
        clock: Clock,
        interval_ms: int,
        workers: Workers,
    ) -> None:
        self._writer = writer
        self._hanging = hanging
        self._clock = clock
        self._workers = workers
        self.schedule = CheckpointSchedule(interval_ms)
        self._backoff = Backoff(clock)
        self._unrecorded = Unrecorded()
        self._worker: StepWorker | None = None
        self.checkpoints = 0
        """How many were committed."""
        self.failures = 0
        """How many tries were not."""
        self.seconds = DurationCounter()
        """The durations of rounds that were committed, from the freeze on."""
        self.begun_ms = 0
        """Since when one is under way, monotonic; 0: none is."""

    # -- any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._worker = self._workers.start("jbm-checkpoint", self._run())

    @property
    def has_died(self) -> bool:
        """It began, is to go on, and its thread has ended."""
        return self._worker is not None and not self.schedule.is_ending and not self._worker.is_alive

    def submit(self, transfer: Transfer) -> None:
        """Commit a transfer with the next checkpoint; its completion tells."""
        if not self.schedule.submit(transfer):
            transfer.done.complete(_stopped(transfer))

    def stop(self, patience: Patience, timeout_s: float) -> None:
        """Finish what is submitted, then end; when Kafka takes it no more, fail it and end the waits for it."""
        self.schedule.end()
        if self._worker is None or patience.wait(self._worker.wait_end, timeout_s):
            self._writer.close(deletes_marks=not patience.is_over)
            return
        self._worker.abandon()
        for transfer in self.schedule.unfinished():
            transfer.done.complete(JMSError(f"{transfer.about}: Kafka did not answer, so its outcome is not known"))

    # -- the checkpoint thread -----------------------------------------------------------------------------------

    def _run(self) -> Steps:
        # A restart ends the transaction in which its past was killed now, instead of waiting for its timeout while
        # channels recover: their changelogs cannot be read beyond it.
        yield from self._writer.prepare()
        yield GO_ON
        while True:
            self.schedule.wake.clear()
            is_ending = self.schedule.is_ending  # before the look: what was submitted until then is found by it
            silent_since_ms = self.schedule.take_silence()
            if silent_since_ms is not None:
                yield from self._hanging.end(silent_since_ms)
            wait = self.schedule.wait_for_work(self._clock.monotonic_ms())
            if wait is not None:
                if is_ending:
                    return
                yield wait
                continue
            self.begun_ms = self._clock.monotonic_ms()
            group_workers, transfers = self.schedule.take_work(self.begun_ms)
            try:
                yield from self._checkpoint(group_workers, transfers)
                self.schedule.end_round(self._clock.monotonic_ms())
            except Exception as error:  # a bug: the transfers' callers must not wait for ever
                log.exception("a checkpoint failed; what it held stays unsettled and is tried again")
                for transfer in transfers:
                    transfer.done.complete(JMSError(f"{transfer.about}: the checkpoint failed: {error}"))
                self.failures += 1
                yield Wait(BUG_PAUSE_S)
            self.begun_ms = 0

    def _checkpoint(self, dirty: list[Participant], transfers: list[Transfer]) -> Steps:
        """Try until it is committed or nothing is left to commit."""
        left = _Round(transfers=transfers, fenced=self._backoff.now())
        for attempt in range(ATTEMPTS_MAX):
            wanted = dict.fromkeys(
                [*dirty, *(group_worker for transfer in left.transfers for group_worker, _ in transfer.settlings)]
            )
            group_workers = [group_worker for group_worker in wanted if group_worker not in left.fenced]
            if (yield from self._try(group_workers, left)):
                break
            if left.was_cut_off:
                left.was_cut_off = False
                dirty, left.transfers = self.schedule.cut_down(dirty, left.transfers)
            yield Wait(RETRY_PAUSE_S) if attempt else GO_ON
        else:
            why = f"Kafka did not take it in {ATTEMPTS_MAX} tries" + (f": {left.failure}" if left.failure else "")
            for transfer in left.transfers:
                transfer.done.complete(TransactionRolledBackError(f"{transfer.about}: {why}"))
        if left.fenced:
            yield from self._put_back(dirty, left)

    def _put_back(self, dirty: Sequence[Participant], left: _Round) -> Steps:
        """Have what a fenced group worker could not take part in wait for its next turn."""
        for transfer in left.transfers:
            why = self._unrecorded.why(transfer.participants & left.fenced)
            if why is not None:
                transfer.done.complete(rolled_back(transfer.about, why))
        waiting = [t for t in left.transfers if not t.done.is_done and t.participants & left.fenced]
        fenced = [group_worker for group_worker in dirty if group_worker in left.fenced]
        if not waiting and not fenced:
            return
        yield Wait(FENCED_PAUSE_MS / 1000)
        self.schedule.put_back(fenced, waiting)

    def _try(self, group_workers: Collection[Participant], left: _Round) -> Generator[Wait, None, bool]:
        """One attempt; False: try again with what is left."""
        if left.transfers:
            self._roll_back_expired(left.transfers)
        transfers = [t for t in left.transfers if not t.participants & left.fenced and not t.done.is_done]
        checkpoint_id, begun_ms = self._writer.next_id(), self._clock.monotonic_ms()
        frozen = yield from _freeze_all(group_workers, transfers, checkpoint_id)
        refused = frozenset().union(*(part.refused for part in frozen))
        silent = frozenset(group_workers) - {part.participant for part in frozen} | {
            p.participant for p in frozen if p.group_metadata is None
        }
        for transfer in [transfer for transfer in transfers if transfer in refused]:
            transfer.done.complete(_taken(transfer))
        if refused or any(transfer.participants & silent for transfer in transfers):
            # Other group workers froze with what turned out to be impossible: freeze again without it.
            self._finish(frozen, durable=False)
            left.fenced |= silent
            self._backoff.fenced(silent)
            return False
        frozen = [part for part in frozen if part.channels]
        if not _recorded(frozen) and not any(transfer.sends for transfer in transfers):
            self._finish(frozen, durable=True)
            for transfer in transfers:
                transfer.done.complete()
            return True
        is_committed = yield from self._commit(frozen, transfers, checkpoint_id, left)
        if is_committed:
            self.seconds.note((self._clock.monotonic_ms() - begun_ms) / 1000)
        else:
            self.failures += 1
        return is_committed

    def _commit(
        self, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer], checkpoint_id: str, left: _Round
    ) -> Generator[Wait, None, bool]:
        recorded = _recorded(frozen)
        try:
            yield from self._writer.commit(recorded, transfers, checkpoint_id)
        except GroupFenced as error:
            left.failure = str(error)
            self._finish(frozen, durable=False)
            fenced = frozenset(part.participant for part in frozen if part.group.group_id == error.group)
            self._backoff.lines.refused(error.group, error, self._clock.monotonic_ms())
            left.fenced |= fenced
            self._backoff.fenced(fenced)
            return False
        except (TransactionAborted, RecordTooLarge) as error:
            left.failure = str(error)
            self._finish(frozen, durable=False)
            yield GO_ON
            left.fenced |= self._find_culprits(recorded, transfers, error, left)
            return False
        except AccessRefused as error:
            left.failure = str(error)
            self._finish(frozen, durable=False)
            self._writer.renew()
            left.fenced |= self._refuse_all(recorded, transfers, Refusal(error))
            return False
        except OutcomeUnknown as error:
            left.failure = str(error)
            level = self._level_of_unknown(checkpoint_id, is_fenced=error.is_fenced)
            log.log(level, "the outcome of checkpoint %s is not known (%s); finding out", checkpoint_id, error)
            participants = [part.participant for part in recorded]
            counts = yield from self._writer.find_out(
                recorded, checkpoint_id, lambda refusal: self._unrecorded.refused(participants, refusal)
            )
            said = "counts" if counts else "does not count"
            log.log(level, "the outcome of checkpoint %s is known: it %s", checkpoint_id, said)
            if not counts:
                self._finish(frozen, durable=False)
                left.was_cut_off = True
                return False
        except KafkaClientError as error:
            left.failure = str(error)
            log.warning("checkpoint %s failed: %s; it is tried again", checkpoint_id, error)
            self._finish(frozen, durable=False)
            self._writer.renew()
            return False
        except Exception:
            self._finish(frozen, durable=False)
            raise
        self.checkpoints += 1
        self._hanging.committed(recorded, checkpoint_id, self._writer.beside(recorded))
        self.schedule.grow()
        self._backoff.took_part(part.participant for part in frozen)
        self._unrecorded.took_part(part.participant for part in frozen)
        yield GO_ON
        self._writer.write_journal(recorded)
        yield GO_ON
        self._finish(frozen, durable=True)
        for transfer in transfers:
            _complete(
                transfer.done, [owner for owner, each in transfer.settlings if each.branch and not each.keeps_later]
            )
        return True

    def _roll_back_expired(self, transfers: Iterable[Transfer]) -> None:
        """Before each try, and not only the first: Kafka may have been away meanwhile (STATE-2)."""
        for transfer in transfers:
            if is_expired(transfer.expires_at_ms, self._clock.now_ms()):
                transfer.done.complete(expired_before_commit(transfer.expires_at_ms))

    def _finish(self, frozen: Sequence[FrozenGroup], *, durable: bool) -> None:
        for part in frozen:
            part.participant.notify_end(part, durable=durable)

    def _level_of_unknown(self, checkpoint_id: str, *, is_fenced: bool) -> int:
        """Return the level of the log lines; where another process takes the id again and again, a line says that
        instead."""
        now_ms = self._clock.monotonic_ms()
        if is_fenced:
            self._backoff.twin.fenced(checkpoint_id.partition(":")[0], now_ms)
        return logging.DEBUG if is_fenced and self._backoff.twin.is_logged(now_ms) else logging.INFO

    def _refuse_all(
        self, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer], refusal: Refusal
    ) -> frozenset[Participant]:
        """Fail all the transfers, and leave out all the group workers."""
        participants = frozenset(part.participant for part in frozen)
        self._unrecorded.refused(participants, refusal)
        self._backoff.refused(participants)
        for transfer in transfers:
            transfer.done.complete(_rolled_back(transfer, refusal))
        return participants

    def _find_culprits(
        self,
        frozen: Sequence[FrozenGroup],
        transfers: Sequence[Transfer],
        error: TransactionAborted | RecordTooLarge,
        left: _Round,
    ) -> frozenset[Participant]:
        """Fail the transfers and leave out the group workers that Kafka refused, by name, for want of a topic or of a
        right."""
        refusals = _refusals_of(error, self._writer.last_tokens())
        tokens = error.failed if isinstance(error, TransactionAborted) else refusals.keys()
        whole = refusals.get(None)
        missing = self._writer.missing_topics(frozen, transfers)
        denied = frozenset() if whole is None else self._writer.denied_topics(frozen, transfers)
        stuck = error.leaderless if isinstance(error, TransactionAborted) else frozenset()
        named = [
            t
            for t in transfers
            if t in tokens
            or any(r.topic in missing or r.topic in denied or (r.topic, r.partition) in stuck for r in t.sends)
        ]
        for transfer in named:
            self._writer.forget_topics(transfer)
            refusal = refusal_of(transfer, refusals, denied & {record.topic for record in transfer.sends})
            transfer.done.complete(_refused(transfer, error, missing, refusal))
        group_workers: set[Participant] = set()
        for part in frozen:
            lacking = sorted(missing & {part.group.topic, *(row.channel.changelog.topic for row in part.channels)})
            if lacking:
                log.warning("group %s: topic %s does not exist any more", part.group.group_id, ", ".join(lacking))
                if part.group.topic in lacking:
                    part.participant.topic_gone()
                elif self._backoff.pause_ms(part.participant) < UNMADE_PAUSE_MS:
                    part.participant.changelog_gone()
                else:
                    part.participant.give_up(_gone(lacking))
            denied_here = denied & self._writer.topics_of(part)
            refusal = refusal_of(part, refusals, denied_here, group=part.group.group_id)
            if refusal is not None:
                self._unrecorded.refused([part.participant], refusal)
            if lacking or part in tokens or refusal is not None:
                group_workers.add(part.participant)
        if whole is not None and not named and not group_workers:
            if self.schedule.is_cut_down:
                return self._refuse_all(frozen, transfers, whole)
            left.was_cut_off = True
        self._backoff.refused(group_workers)
        if not named and not refusals:
            log.warning("a checkpoint was aborted: %s; it is tried again", error)
        return frozenset(group_workers)


def _complete(done: Completion, owners: Sequence[Participant]) -> None:
    """`owners`: of whose messages a branch has some now. What its session has unread of their units goes back first, or
    it would receive that when the branch is rolled back, before what the branch had."""
    for number, owner in enumerate(owners):
        if owner.then(partial(_complete, done, owners[number + 1 :])):
            return
    done.complete()


def _freeze_all(
    participants: Collection[Participant], transfers: Sequence[Transfer], checkpoint_id: str
) -> Generator[Wait, None, list[FrozenGroup]]:
    """Ask all participants at once, wait for each; one that does not answer in time is left out."""
    requests: list[FreezeRequest] = []
    for participant in participants:
        request = FreezeRequest(
            checkpoint_id=checkpoint_id,
            transfers=[transfer for transfer in transfers if participant in transfer.participants],
        )
        requests.append(request)
        if not participant.ask(request):
            request.answer(FrozenGroup(participant, None, (), frozenset(request.transfers)))
    frozen: list[FrozenGroup] = []
    for request in requests:
        yield Wait(FREEZE_TIMEOUT_S, request.is_answered)
        reply = request.take_or_withdraw()
        if reply is not None:
            frozen.append(reply)
        else:
            log.warning(
                "a channel group did not answer within %g s; the checkpoint goes on without it", FREEZE_TIMEOUT_S
            )
    return frozen


def _recorded(frozen: Sequence[FrozenGroup]) -> Sequence[FrozenGroup]:
    """Return those of which something is written. The others live and end with them, in memory only."""
    return [part for part in frozen if part.group.is_recorded]


def _refusals_of(error: TransactionAborted | RecordTooLarge, tokens: Collection[object]) -> Mapping[object, Refusal]:
    """`tokens`: whose record it was that was refused on the spot."""
    if isinstance(error, TransactionAborted):
        return error.refusals
    return {token: Refusal(error) for token in tokens}


def _taken(transfer: Transfer) -> TransactionRolledBackError:
    return TransactionRolledBackError(
        f"{transfer.about}: rolled back: a partition of its messages moved to another process; they are delivered again"
    )


def _rolled_back(transfer: Transfer, refusal: Refusal) -> TransactionRolledBackError:
    values = {"topic": refusal.topic} if refusal.topic else {}
    return rolled_back(transfer.about, as_jms_error(refusal.cause, refusal.topic or "Kafka refuses it", **values))


def _refused(
    transfer: Transfer, error: KafkaClientError, missing: Collection[str], refusal: Refusal | None
) -> TransactionRolledBackError:
    leaderless = error.leaderless if isinstance(error, TransactionAborted) else frozenset()
    stuck = [record for record in transfer.sends if (record.topic, record.partition) in leaderless]
    if stuck:
        return without_leader(transfer.about, stuck)
    topic = next((record.topic for record in transfer.sends if record.topic in missing), None)
    if topic is None:
        if refusal is not None:
            return _rolled_back(transfer, refusal)
        return TransactionRolledBackError(f"{transfer.about}: rolled back: {error}", about=transfer.about)
    cause = gone(topic, about=f"{transfer.about}: rolled back")
    rolled_back = TransactionRolledBackError(str(cause), about=transfer.about, destination=topic)
    rolled_back.__cause__ = cause
    return rolled_back


def _stopped(transfer: Transfer) -> TransactionRolledBackError:
    return TransactionRolledBackError(f"{transfer.about}: rolled back: the sidecar is closed")


def _gone(topics: Sequence[str]) -> JMSError:
    return JMSError(
        f"its Kafka topic {', '.join(topics)} does not exist any more, so nothing can be recorded; create it again "
        f"or connect anew: what was not recorded is delivered again then"
    )
