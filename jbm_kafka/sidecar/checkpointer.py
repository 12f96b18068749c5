"""The checkpoint thread: one Kafka transaction for everything since the last, group commit for all who wait.

Lanes freeze what is dirty, transfers bring sends; both go out together, then the journal, then whoever waited is told.
What harms a transaction is left out of the next try: a fenced group, a refused record; the others go on.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbm_kafka.core.errors import JMSError, TransactionRolledBackError
from jbm_kafka.ports import Clock, GroupFenced, KafkaTrouble, OutcomeUnknown, RecordTooLarge, TransactionAborted
from jbm_kafka.sidecar.checkpoint_part import FreezeRequest, FrozenLane
from jbm_kafka.sidecar.steps import GO_ON, Steps, Wait, Worker, Workers
from jbm_kafka.sidecar.transaction import TransactionWriter
from jbm_kafka.sidecar.transfer import Transfer

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane

log = logging.getLogger(__name__)

FREEZE_TIMEOUT_S = 5.0
"""A lane answers within milliseconds, unless its Kafka client blocks; then the checkpoint goes on without it."""
FENCED_PAUSE_MS = 100
"""A fenced lane is left out for this long: its group tells it what it still owns meanwhile."""
RETRY_PAUSE_S = 0.1
BUG_PAUSE_S = 1.0
"""Before the next checkpoint after one that failed by a bug: it will again, and each time writes a traceback."""
ATTEMPTS_MAX = 8
"""Tries of one round before its transfers are given up; what lanes have dirty is tried again for ever."""


@dataclass(slots=True)
class _Round:
    """One checkpoint on its way: what may still be left out of it."""

    transfers: list[Transfer]
    fenced: frozenset[Lane] = frozenset()


class Checkpointer:
    """Runs from `start` to `stop`."""

    def __init__(self, *, writer: TransactionWriter, clock: Clock, interval_ms: int, workers: Workers) -> None:
        self._writer = writer
        self._clock = clock
        self._interval_ms = interval_ms
        self._workers = workers
        self._lock = threading.Lock()
        self._wake = threading.Event()
        """Set after every change that may be work; cleared before looking for some."""
        self._dirty: dict[Lane, None] = {}
        """In the order told, so that one history always comes to the same end."""
        self._is_awaited = False
        self._transfers: deque[Transfer] = deque()
        self._fenced_until_ms: dict[Lane, int] = {}
        self._is_stopping = False
        self._worker: Worker | None = None
        self.checkpoints = 0
        """How many were committed."""

    # -- any thread ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._worker = self._workers.start("jbm-checkpoint", self._run())

    def note_dirty(self, lane: Lane, is_awaited: bool) -> None:
        """A lane has something to record; `is_awaited`: somebody waits for it."""
        if lane in self._dirty and (self._is_awaited or not is_awaited):
            return
        with self._lock:
            self._dirty[lane] = None
            self._is_awaited = self._is_awaited or is_awaited
        self._wake.set()

    def submit(self, transfer: Transfer) -> None:
        """Commit a transfer with the next checkpoint; its completion tells."""
        with self._lock:
            is_late = self._is_stopping
            if not is_late:
                self._transfers.append(transfer)
        if is_late:
            transfer.done.complete(_stopped(transfer))
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Finish what is submitted, then end."""
        with self._lock:
            self._is_stopping = True
        self._wake.set()
        if self._worker is not None:
            self._worker.wait_end(timeout_s)
        self._writer.close()

    # -- the checkpoint thread -----------------------------------------------------------------------------------

    def _run(self) -> Steps:
        # A restart ends the transaction in which its past was killed now, instead of waiting for its timeout while
        # channels recover: their changelogs cannot be read beyond it.
        self._writer.prepare()
        yield GO_ON
        last_ms = 0
        while True:
            self._wake.clear()
            wait = self._wait_for_work(last_ms)
            if wait is not None:
                if self._is_stopping:
                    return
                yield wait
                continue
            lanes, transfers = self._take_work()
            last_ms = self._clock.monotonic_ms()
            try:
                yield from self._checkpoint(lanes, transfers)
            except Exception as error:  # a bug: the transfers' callers must not wait for ever
                log.exception("a checkpoint failed; what it held stays owed and is tried again")
                for transfer in transfers:
                    transfer.done.complete(JMSError(f"{transfer.about}: the checkpoint failed: {error}"))
                yield Wait(BUG_PAUSE_S)

    def _wait_for_work(self, last_ms: int) -> Wait | None:
        """None when there is some: at once when somebody waits, else when the interval is over."""
        with self._lock:
            wait_ms = last_ms + self._interval_ms - self._clock.monotonic_ms()
            if self._transfers or (self._dirty and (self._is_awaited or wait_ms <= 0)):
                return None
            return Wait(wait_ms / 1000 if self._dirty else None, self._wake)

    def _take_work(self) -> tuple[list[Lane], list[Transfer]]:
        """Who is dirty and what is to commit."""
        with self._lock:
            lanes, transfers = list(self._dirty), list(self._transfers)
            self._dirty.clear()
            self._transfers.clear()
            self._is_awaited = False
            return lanes, transfers

    def _checkpoint(self, dirty: Sequence[Lane], transfers: list[Transfer]) -> Steps:
        """Try until it is committed or nothing is left to commit."""
        now_ms = self._clock.monotonic_ms()
        self._fenced_until_ms = {lane: ms for lane, ms in self._fenced_until_ms.items() if ms > now_ms}
        left = _Round(transfers=transfers, fenced=frozenset(self._fenced_until_ms))
        for attempt in range(ATTEMPTS_MAX):
            wanted = dict.fromkeys([*dirty, *(lane for transfer in left.transfers for lane, _ in transfer.settlings)])
            lanes = [lane for lane in wanted if lane not in left.fenced]
            if (yield from self._try(lanes, left)):
                break
            yield Wait(RETRY_PAUSE_S) if attempt else GO_ON
        else:
            for transfer in left.transfers:
                transfer.done.complete(
                    TransactionRolledBackError(f"{transfer.about}: Kafka did not take it in {ATTEMPTS_MAX} tries")
                )
        yield from self._put_back(dirty, left)

    def _put_back(self, dirty: Sequence[Lane], left: _Round) -> Steps:
        """What a fenced lane could not take part in waits for its next turn."""
        waiting = [t for t in left.transfers if not t.done.is_done and t.lanes & left.fenced]
        fenced = [lane for lane in dirty if lane in left.fenced]
        if not waiting and not fenced:
            return
        yield Wait(FENCED_PAUSE_MS / 1000)
        with self._lock:
            self._transfers.extendleft(reversed(waiting))
            self._dirty.update(dict.fromkeys(fenced))

    def _try(self, lanes: Collection[Lane], left: _Round) -> Generator[Wait, None, bool]:
        """One attempt; False: try again with what is left."""
        transfers = [t for t in left.transfers if not t.lanes & left.fenced and not t.done.is_done]
        checkpoint_id = self._writer.next_id()
        frozen = yield from _freeze(lanes, transfers, checkpoint_id)
        refused = frozenset().union(*(part.refused for part in frozen))
        silent = frozenset(lanes) - {part.lane for part in frozen} | {
            p.lane for p in frozen if p.group_metadata is None
        }
        for transfer in [transfer for transfer in transfers if transfer in refused]:
            transfer.done.complete(_taken(transfer))
        if refused or any(transfer.lanes & silent for transfer in transfers):
            # Other lanes froze with what turned out to be impossible: freeze again without it.
            self._finish(frozen, durable=False)
            left.fenced |= silent
            self._leave_out(silent)
            return False
        frozen = [part for part in frozen if part.channels]
        if not frozen and not any(transfer.sends for transfer in transfers):
            for transfer in transfers:
                transfer.done.complete()
            return True
        return (yield from self._commit(frozen, transfers, checkpoint_id, left))

    def _commit(
        self, frozen: Sequence[FrozenLane], transfers: Sequence[Transfer], checkpoint_id: str, left: _Round
    ) -> Generator[Wait, None, bool]:
        try:
            yield from self._writer.commit(frozen, transfers, checkpoint_id)
        except GroupFenced as error:
            self._finish(frozen, durable=False)
            fenced = frozenset(part.lane for part in frozen if part.lane.group == error.group)
            log.info("checkpoint without group %s for now: %s", error.group, error)
            left.fenced |= fenced
            self._leave_out(fenced)
            return False
        except (TransactionAborted, RecordTooLarge) as error:
            self._finish(frozen, durable=False)
            self._fail_named(transfers, error)
            return False
        except OutcomeUnknown as error:
            log.warning("the outcome of checkpoint %s is not known (%s); finding out", checkpoint_id, error)
            if not (yield from self._writer.find_out(frozen, checkpoint_id)):
                self._finish(frozen, durable=False)
                return False
        except KafkaTrouble as error:
            log.warning("checkpoint %s failed: %s; it is tried again", checkpoint_id, error)
            self._finish(frozen, durable=False)
            self._writer.renew()
            return False
        except Exception:
            self._finish(frozen, durable=False)
            raise
        self.checkpoints += 1
        yield GO_ON
        self._writer.write_journal(frozen)
        yield GO_ON
        self._finish(frozen, durable=True)
        for transfer in transfers:
            transfer.done.complete()
        return True

    def _finish(self, frozen: Sequence[FrozenLane], *, durable: bool) -> None:
        for part in frozen:
            lane_part = part
            part.lane.post(lambda p=lane_part: p.lane.checkpoint_part.finish(p, durable=durable))  # type: ignore[misc]

    def _leave_out(self, lanes: Collection[Lane]) -> None:
        until_ms = self._clock.monotonic_ms() + FENCED_PAUSE_MS
        self._fenced_until_ms.update((lane, until_ms) for lane in lanes)

    def _fail_named(self, transfers: Sequence[Transfer], error: TransactionAborted | RecordTooLarge) -> None:
        failed = error.failed if isinstance(error, TransactionAborted) else self._writer.last_tokens()
        named = [transfer for transfer in transfers if transfer in failed]
        for transfer in named:
            transfer.done.complete(
                TransactionRolledBackError(f"{transfer.about}: rolled back: {error}", about=transfer.about)
            )
        if not named:
            log.warning("a checkpoint was aborted: %s; it is tried again", error)


def _freeze(
    lanes: Collection[Lane], transfers: Sequence[Transfer], checkpoint_id: str
) -> Generator[Wait, None, list[FrozenLane]]:
    """Ask all lanes at once, wait for each; one that does not answer in time is left out."""
    requests: list[FreezeRequest] = []
    for lane in lanes:
        request = FreezeRequest(
            checkpoint_id=checkpoint_id, transfers=[transfer for transfer in transfers if lane in transfer.lanes]
        )
        requests.append(request)
        if lane.is_alive:
            lane.post(lambda asked=request, at=lane: at.checkpoint_part.freeze(asked))  # type: ignore[misc]
        else:
            request.answer(FrozenLane(lane, None, (), frozenset(request.transfers)))
    frozen: list[FrozenLane] = []
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


def _taken(transfer: Transfer) -> TransactionRolledBackError:
    return TransactionRolledBackError(
        f"{transfer.about}: rolled back: a partition of its messages moved to another process; they are delivered again"
    )


def _stopped(transfer: Transfer) -> TransactionRolledBackError:
    return TransactionRolledBackError(f"{transfer.about}: rolled back: the sidecar is closed")
