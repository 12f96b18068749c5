"""Writes what becomes of a branch, as the only one who may: decision 72.

A branch names its decider, a transactional id. Who initialises that id fences whoever used it before, and then reads
all that was committed until then. So of two that decide at once the first durable decision is the one that counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jbm_kafka.codec.branch_records import decode_branch, decode_sends, encode_branch, state_key
from jbm_kafka.core.channel.branch import BranchRecord, BranchState
from jbm_kafka.core.jms_errors import IllegalStateError, TransactionInDoubtError
from jbm_kafka.ports import (
    Clock,
    Kafka,
    KafkaClientError,
    Outgoing,
    TransactionalProducer,
)
from jbm_kafka.registry.registry_log import RegistryLog, Values

log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000
TIMEOUT_S = 10.0
DECIDE_TIMEOUT_MS = 45_000
PAUSE_S = 0.1


class Decider:
    """Decides branches of this process, and of others by taking their deciders over. Any thread; one at a time."""

    def __init__(
        self,
        kafka: Kafka,
        records: RegistryLog,
        clock: Clock,
        *,
        own_id: str,
        route: Callable[[Sequence[Outgoing]], None],
        pause: Callable[[float], None],
    ) -> None:
        """`route`: lets records go where their units are now; KafkaClientError when that is not to be known."""
        self._kafka = kafka
        self._records = records
        self._clock = clock
        self.own_id = own_id
        self._route = route
        self._pause = pause
        self._producer: TransactionalProducer | None = None
        """Of our own id, while nobody has taken that over, as far as we know."""
        self._lock = threading.Lock()
        self.decided: dict[str, BranchState] = {}
        """By us, which what was read of the topic may not say yet."""
        self._prepared: dict[str, tuple[BranchRecord, Sequence[Outgoing]]] = {}
        """Here, with what they send, since our producer was initialised: who decides them else fences it."""

    def note_prepared(self, branch: str, record: BranchRecord, sends: Sequence[Outgoing]) -> None:
        """It is about to be prepared by us, so that nothing need be read to decide it."""
        self._prepared[branch] = record, sends

    def forget(self, branch: str) -> None:
        """It was not prepared after all, or is carried out everywhere."""
        self._prepared.pop(branch, None)
        self.decided.pop(branch, None)

    def has_prepared(self, branch: str) -> bool:
        """It was prepared here, and is not decided."""
        return branch in self._prepared

    def decide(self, branch: str, wanted: BranchState) -> BranchState:
        """As `decide_all`, of one."""
        return self.decide_all([branch], wanted)

    def decide_all(self, branches: Sequence[str], wanted: BranchState, sends: Sequence[Outgoing] = ()) -> BranchState:
        """Return what is decided durably of branches that have one decider: as wanted, unless one was decided before.

        `sends`: beside those that are recorded of them, with the decision to commit.

        Raises:
            IllegalStateError: nothing is recorded of one any more.
            TransactionInDoubtError: Kafka did not take a decision in time. They stay prepared, or are decided.
        """
        deadline_ms = self._clock.monotonic_ms() + DECIDE_TIMEOUT_MS
        trouble: Exception | None = None
        with self._lock:
            while True:
                try:
                    found = self._try(branches, wanted, sends)
                    for branch in branches:
                        self.decided[branch] = found
                        self._prepared.pop(branch, None)
                    return found
                except KafkaClientError as error:
                    trouble = error
                    self._let_go()
                    log.info("branch %s: not decided yet, and tried again: %s", branches[0], error)
                if self._clock.monotonic_ms() > deadline_ms:
                    raise TransactionInDoubtError(
                        f"the branch is not known to be {wanted.value} in {self._records.topic}: {trouble}; it stays "
                        f"prepared unless it is: call again, or see tpc_recover()",
                        branch=branches[0],
                    )
                self._pause(PAUSE_S)

    def close(self) -> None:
        """Decide nothing more."""
        with self._lock:
            self._let_go()

    def _try(self, branches: Sequence[str], wanted: BranchState, sends: Sequence[Outgoing]) -> BranchState:
        """Return what is decided; somebody else may have taken the decider over, or Kafka refuses, which is raised."""
        if branches[0] in self.decided:
            return self.decided[branches[0]]
        prepared = {} if self._producer is None else {each: self._prepared.get(each) for each in branches}
        known = {branch: found for branch, found in prepared.items() if found is not None}
        is_known = len(known) == len(branches)
        values = {} if is_known else self._values_with(branches)
        decider = known[branches[0]][0].decider if is_known else _record_of(branches[0], values).decider
        is_own = decider == self.own_id
        producer = self._producer if is_own else None
        if producer is None:
            producer, values = self._initialised(decider, is_own=is_own)
        try:
            records = {each: known[each][0] if is_known else _record_of(each, values) for each in branches}
            decided = [each.state for each in records.values() if each.state is not BranchState.PREPARED]
            state = decided[0] if decided else wanted
            records = {name: each for name, each in records.items() if each.state is BranchState.PREPARED}
            if not records:
                return state
            sent = list(sends) if state is BranchState.COMMITTED else []
            for branch, record in records.items() if state is BranchState.COMMITTED else ():
                sent += known[branch][1] if is_known else decode_sends(branch, record, values)
            self._route(sent)
            now_ms = self._clock.now_ms()
            decisions = {name: replace(each, state=state, decided_at_ms=now_ms) for name, each in records.items()}
            self._write(producer, decisions, sent)
            return state
        except BaseException:  # what is written then shows at the next try
            self._let_go()
            raise
        finally:
            if not is_own:
                producer.close()

    def _values_with(self, branches: Sequence[str]) -> Values:
        values = self._records.values()
        is_there = all(state_key(each) in values for each in branches)
        return values if is_there else self._records.refresh_marked()

    def _initialised(self, decider: str, *, is_own: bool) -> tuple[TransactionalProducer, Values]:
        """And what is recorded now: who reads it another time may meet a reading that begins anew."""
        producer = self._kafka.transactional_producer(
            decider, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, is_contended=True
        )
        try:
            producer.initialise(TIMEOUT_S, known_topic=self._records.topic)
            # What others decided by this id has its marks now, and they can write nothing more.
            values = self._records.refresh_marked()
        except BaseException:
            producer.close()
            raise
        if is_own:
            self._prepared.clear()  # whoever had the id meanwhile may have decided them
            self._producer = producer
        return producer, values

    def _write(
        self, producer: TransactionalProducer, decisions: Mapping[str, BranchRecord], sends: Sequence[Outgoing]
    ) -> None:
        producer.begin()
        for branch, decided in decisions.items():
            producer.produce(Outgoing(self._records.topic, 0, state_key(branch), encode_branch(decided)))
        for each in sends:
            producer.produce(each)
        producer.commit(TIMEOUT_S)

    def _let_go(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()


def _record_of(branch: str, values: Values) -> BranchRecord:
    value = values.get(state_key(branch))
    if value is None:
        raise IllegalStateError(
            "the branch was decided by another, and is carried out everywhere: nothing is recorded of it any more",
            branch=branch,
        )
    return decode_branch(value)
