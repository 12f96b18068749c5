"""Carries a retry out: takes dead letters out of their queue and sends them, a transaction a batch (REDELIVER-9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from jbm_kafka.admin.cluster.admin_core import patiently
from jbm_kafka.admin.dead_letters.letters import DeadLetter, KeptLetter, RetryReport
from jbm_kafka.admin.dead_letters.retry_plan import RetryPlan, passed_over
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.selective_receive import SelectiveReceive
from jbm_kafka.jms.session import Session
from jbm_kafka.ports import KafkaClientError, KafkaRecord, Outgoing
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.provider import Seen

BATCH = 500
BATCH_BYTES = 8 * 2**20
TRIES = 3
"""How often a letter is sent on its own before it is left where it is: a rebalance may refuse one that is all right."""
LOOK_TIMEOUT_S = 5.0
STOPPED = "it was stopped before its turn"
GATHER_S = 0.0
"""All that is there goes at once; a batch waits for nothing."""


def _never() -> bool:
    return False


def carry_out(
    connection: Connection,
    source: Queue,
    letters: Sequence[DeadLetter],
    outgoing: Callable[[DeadLetter, KafkaRecord], Outgoing],
    timeout_s: float,
    rate: float | None,
    stop: Callable[[], bool] = _never,
) -> LetterRetry:
    """Send the letters over a connection of their own, so many a second at most; the retry that was made, ended.

    Raises as `LetterRetry.run` does.
    """
    with connection, connection.create_session(AcknowledgeMode.TRANSACTED) as session:
        retry = LetterRetry(session, source, letters, outgoing, stop)
        retry.run(timeout_s, rate)
    return retry


def retried_report(
    done: LetterRetry, plan: RetryPlan, still_there: Callable[[], Iterable[Seen]], timeout_s: float
) -> RetryReport:
    """Return what became of a retry that has ended; `still_there`: what its queue holds now."""
    left, taken = patiently(lambda: sort_out(done, still_there(), timeout_s)) if done.wanted else ([], [])
    stayed = [*done.kept, *left]
    return RetryReport(
        source=done.source,
        is_dry_run=False,
        letters=done.sent,
        kept=[*plan.kept, *stayed],
        taken=taken,
        warnings=[*plan.warnings, *passed_over(done.source, done.sent, [row.letter for row in stayed])],
    )


def sort_out(
    retry: LetterRetry, still_there: Iterable[Seen], timeout_s: float
) -> tuple[list[KeptLetter], list[DeadLetter]]:
    """Return what did not come: letters that are still in their queue, and why, and those that somebody else took."""
    seen_by_place = {(each.record.partition(), each.record.offset()): each for each in still_there}
    kept: list[KeptLetter] = []
    taken: list[DeadLetter] = []
    for place, letter in retry.wanted.items():
        seen = seen_by_place.get(place)
        if seen is None:
            taken.append(letter)
            continue
        if retry.is_stopped:
            why = STOPPED
        elif letter.partition not in retry.partitions:
            why = (
                f"partition {letter.partition} of {retry.source.name} is with another receiver or retry: when that has "
                f"ended, retry again"
            )
        elif seen.due_at_ms >= FOREVER_MS:
            why = "it is held for an operator there (on_dead_letter='hold')"
        elif seen.due_at_ms:
            why = f"it is held back until {_when(seen.due_at_ms)}"
        else:
            why = f"it did not come within {timeout_s:g} s: another receiver had it in hand; retry again"
        kept.append(KeptLetter(letter, why))
    return kept, taken


def _when(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # a delay may be as long as 64 bits tell
        return f"{at_ms} ms since 1970"


class LetterRetry:
    """One retry over a session, which must not be used for anything else."""

    def __init__(
        self,
        session: Session,
        source: Queue,
        letters: Sequence[DeadLetter],
        outgoing: Callable[[DeadLetter, KafkaRecord], Outgoing],
        stop: Callable[[], bool] = _never,
    ) -> None:
        """`outgoing`: the record that sends a letter again, or raises JMSError; `stop`: send no more."""
        self._session = session
        self.source = source
        self._outgoing = outgoing
        self._stop = stop
        self.is_stopped = False
        """It ended because somebody asked for it."""
        self.wanted = {letter.place: letter for letter in letters}
        """Not sent yet, and not found to be impossible."""
        self.sent: list[DeadLetter] = []
        self.kept: list[KeptLetter] = []
        self.partitions: frozenset[int] = frozenset()
        """The partitions of the dead-letter queue that this process had when it ended."""
        self._batch_max = self._limit = BATCH
        self._refusals: Counter[DeadLetter] = Counter()

    def run(self, timeout_s: float, rate: float | None = None) -> None:
        """Send all that come; ends when for so many seconds none came.

        Raises:
            TransactionInDoubtError: nobody knows what became of the last batch; it was sent whole or not at all.
        """
        with (
            SelectiveReceive(
                self._session, self.source, self._is_wanted, wanted="the dead letters to be sent"
            ) as queue,
            queue.in_use(),
        ):
            if rate is not None:
                self._batch_max = min(BATCH, max(int(rate), 1))
                self._limit = self._batch_max
            while self.wanted:
                if self._stop():
                    self.is_stopped = True
                    return
                batch = self._gather(queue, timeout_s)
                if not batch:
                    self.partitions = queue.partitions(LOOK_TIMEOUT_S)
                    return
                self._send(queue, batch)
                if rate is not None and self.wanted:
                    queue.rest(len(batch) / rate, is_over=self._stop)

    def _is_wanted(self, delivery: Delivery) -> bool:
        return delivery.place in self.wanted

    def _gather(self, queue: SelectiveReceive, timeout_s: float) -> list[tuple[Delivery, Outgoing]]:
        """The next letters, as many as are there; none when the time is up."""
        batch: list[tuple[Delivery, Outgoing]] = []
        size = 0
        while len(batch) < min(self._limit, len(self.wanted)) and size < BATCH_BYTES:
            delivery = queue.next_wanted(GATHER_S if batch else timeout_s)
            if delivery is None:
                break
            letter = self.wanted[delivery.place]
            try:
                record = self._outgoing(letter, delivery.reference.record)  # type: ignore[arg-type]
            except (JMSError, KafkaClientError) as error:
                queue.pass_over(delivery)
                self._keep(letter, str(error))
                continue
            batch.append((delivery, record))
            size += len(record.value or b"")
        return batch

    def _send(self, queue: SelectiveReceive, batch: Sequence[tuple[Delivery, Outgoing]]) -> None:
        taken = [delivery for delivery, _ in batch]
        about = f"{len(batch)} dead letters of {self.source}"
        try:
            queue.replace(about, taken, [record for _, record in batch])
        except TransactionRolledBackError as error:
            self._rolled_back([self.wanted[delivery.place] for delivery in taken], error)
            return
        self.sent += [self.wanted.pop(delivery.place) for delivery in taken]
        self._limit = min(self._limit * 2, self._batch_max)

    def _rolled_back(self, letters: Sequence[DeadLetter], error: JMSError) -> None:
        """They come again. In smaller batches, so that one that is refused keeps no other."""
        self._limit = max(len(letters) // 8, 1)
        if len(letters) == 1:
            self._refusals.update(letters)
            if self._refusals[letters[0]] >= TRIES:
                self._keep(letters[0], str(error))

    def _keep(self, letter: DeadLetter, why: str) -> None:
        del self.wanted[letter.place]
        self.kept.append(KeptLetter(letter, why))
