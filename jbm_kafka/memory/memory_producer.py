"""A transactional producer of the in-memory Kafka."""

from collections.abc import Mapping

from jbm_kafka.memory.memory_cluster import CommitFault, TransactionalId
from jbm_kafka.memory.memory_groups import GroupMetadata
from jbm_kafka.memory.memory_log import MemoryTransaction, TransactionOutcome
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import (
    AccessRefused,
    CommittedOffset,
    GroupFenced,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    Refusal,
    TransactionAborted,
)


class MemoryTransactionalProducer:
    """Implements `ports.TransactionalProducer`. Every call takes effect at once, so timeouts are never waited for."""

    def __init__(self, process: Process, transactional_id: str, *, transaction_timeout_ms: int) -> None:
        self._process = process
        self._cluster = process.cluster
        self._id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._epoch = 0
        self._in_transaction = False
        self._transaction: MemoryTransaction | None = None
        """The coordinator's knowledge of it: nothing before the first record or offset."""
        self._failed: dict[object, str] = {}
        self._refusals: dict[object, Refusal] = {}
        self._is_unanswered = False
        """Records got no answer, and only a new producer may end the transaction."""
        self._written: dict[tuple[str, int], int] = {}
        self._offsets: dict[object, int] = {}
        self._must_abort: str | None = None

    def initialise(self, timeout_s: float, *, known_topic: str | None = None) -> None:
        with self._cluster.changed:
            self._enter("initialise")
            self._check_allowed()
            self._epoch = self._cluster.initialise(self._id, self._timeout_ms)

    def begin(self) -> None:
        with self._cluster.changed:
            self._enter("begin")
            self._check_allowed()
            if self._epoch == 0 or self._in_transaction:
                raise TransactionAborted(self._text("begin: Operation not valid in the current state"))
            self._in_transaction = True
            self._transaction = None
            self._failed, self._refusals = {}, {}
            self._is_unanswered = False
            self._written = {}
            self._offsets = {}
            self._must_abort = None

    def produce(self, record: Outgoing, token: object = None) -> None:
        with self._cluster.changed:
            self._enter("produce")
            if not self._in_transaction:
                raise TransactionAborted(self._text("produce: Operation not valid in the current state"))
            state = self._cluster.transactional(self._id)
            if state.epoch != self._epoch:
                return  # the next step raises it: a client produces into its own queue
            if record.topic in self._cluster.faults.denied:
                self._must_abort = "Topic authorization failed"
                self._refusals.setdefault(None, Refusal(AccessRefused(self._text(self._must_abort))))
                return
            transaction = self._opened(state)
            if (record.topic, record.partition) in self._cluster.faults.leaderless:
                self._failed[token] = f"{record.topic}[{record.partition}]: Message timed out"
                self._is_unanswered = True
                return
            answer = self._cluster.append(record, transaction)
            if isinstance(answer, int):
                self._written[record.topic, record.partition] = answer + 1
                self._offsets[token] = answer
            else:
                self._failed[token] = f"{record.topic}[{record.partition}]: {answer}"
                if self._cluster.refuses_for_good(record):
                    refusal = Refusal(KafkaClientError(self._failed[token]), topic=record.topic)
                    self._refusals.setdefault(token, refusal)

    def offsets_written(self, timeout_s: float) -> Mapping[object, int]:
        with self._cluster.changed:
            self._enter("offsets written")
            self._current("offsets written")
        return self._offsets

    def send_offsets(
        self, group_metadata: object | None, group: str, topic: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        if group_metadata is not None:
            assert isinstance(group_metadata, GroupMetadata), group_metadata
            assert group_metadata.group == group, (group_metadata, group)
        with self._cluster.changed:
            self._enter("send_offsets")
            state = self._current("send_offsets")
            reason = None if group_metadata is None else self._cluster.group(group).refusal(group_metadata)
            if reason is not None:
                self._must_abort = f"group {group}: {reason}"
                raise GroupFenced(self._text(self._must_abort), group=group)
            if group in self._cluster.faults.denied:
                self._must_abort = f"group {group}: Group authorization failed"
                self._refusals[None] = Refusal(AccessRefused(self._text(self._must_abort)), group=group)
                self._current("send_offsets")  # which raises it
            self._cluster.add_offsets(self._opened(state), group, topic, offsets)

    def commit(self, timeout_s: float) -> Mapping[tuple[str, int], int]:
        with self._cluster.changed:
            self._enter("commit")
            state = self._current("commit")
            faults = self._cluster.faults.commits
            fault = faults.popleft() if faults else None
            if fault is not CommitFault.NOT_HEARD and state.transaction is not None:
                self._cluster.end(state, TransactionOutcome.COMMITTED)
            self._in_transaction = False
            if fault is not None:
                raise OutcomeUnknown(self._text("commit: Timed out"))
        self._step("committed")
        return self._written

    def abort(self, timeout_s: float) -> None:
        with self._cluster.changed:
            self._enter("abort")
            if not self._in_transaction:
                return
            if self._is_unanswered:
                self._in_transaction = False
                raise OutcomeUnknown(self._text("abort: records got no answer: for a new producer"))
            state = self._cluster.transactional(self._id)
            if state.epoch != self._epoch:
                raise self._fenced("abort")
            if state.transaction is not None:
                self._cluster.end(state, TransactionOutcome.ABORTED)
            self._in_transaction = False

    def close(self) -> None:
        with self._cluster.changed:
            self._process.check()
            state = self._cluster.transactional(self._id) if self._in_transaction else None
            if state is not None and state.epoch == self._epoch and state.transaction is not None:
                self._cluster.end(state, TransactionOutcome.ABORTED)
            self._in_transaction = False

    def _fenced(self, step: str) -> OutcomeUnknown:
        fenced = OutcomeUnknown(self._text(f"{step}: This instance has been fenced by a newer instance"))
        fenced.is_fenced = True
        return fenced

    def _check_allowed(self) -> None:
        if self._id in self._cluster.faults.denied:
            raise AccessRefused(self._text("Transactional Id authorization failed"))

    def _enter(self, step: str) -> None:
        self._process.check()
        self._step(step)
        self._cluster.tick()

    def _step(self, step: str) -> None:
        if self._cluster.faults.step is not None:
            self._cluster.faults.step(self._id, step)

    def _current(self, step: str) -> TransactionalId:
        """The coordinator's state of a transaction that can go on."""
        state = self._cluster.transactional(self._id)
        if state.epoch != self._epoch:
            raise self._fenced(step)
        if not self._in_transaction:
            raise TransactionAborted(self._text(f"{step}: Operation not valid in the current state"))
        if self._failed:
            reasons = "; ".join(sorted(set(self._failed.values())))
            leaderless = self._cluster.faults.leaderless if self._is_unanswered else frozenset()
            text = self._text(f"{step}: records refused: {reasons}")
            refusals = {token: refusal for token, refusal in self._refusals.items() if token in self._failed}
            raise TransactionAborted(text, failed=frozenset(self._failed), leaderless=leaderless, refusals=refusals)
        if self._must_abort is not None:
            raise TransactionAborted(self._text(f"{step}: {self._must_abort}"), refusals=self._refusals)
        return state

    def _opened(self, state: TransactionalId) -> MemoryTransaction:
        if self._transaction is None:
            if state.unmarked is not None:
                # "Concurrent transactions", and the client tries again until they are written.
                self._cluster.waited_for_marks += 1
                self._cluster.write_marks(state)
            self._transaction = MemoryTransaction(self._cluster.clock.monotonic_ms())
            state.transaction = self._transaction
        return self._transaction

    def _text(self, text: str) -> str:
        return f"transactional id {self._id}: {text}"
