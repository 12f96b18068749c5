"""One transactional id over librdkafka, its errors sorted: abort, redo without a group, or look what happened."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from jbm_kafka.kafka.bounded_call import bounded
from jbm_kafka.kafka.leaked_references import Unheeded
from jbm_kafka.kafka.missing_leaders import partitions_without_leader
from jbm_kafka.kafka.profiles import BATCH_BYTES
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.stale_metadata import is_metadata_stale
from jbm_kafka.kafka.translated_errors import (
    FENCED,
    LASTING,
    NOT_ALLOWED,
    OUTLIVED,
    TOO_LARGE,
    UNREACHABLE,
    cause,
    one_line,
    trouble,
)
from jbm_kafka.ports import (
    CommittedOffset,
    GroupFenced,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    RecordTooLarge,
    Refusal,
    TransactionAborted,
)

_CONNECT_S = 0.5
_CLOSE_TIMEOUT_S = 2.0
_SETTLE_S = 0.5
_OFFSETS_TIMEOUT_S = 3.0
"""How long one group's offsets may hold up what others want recorded; as long as one record may.

librdkafka keeps to it when somebody answers. A coordinator that is gone costs `socket.timeout.ms`, which for a
transactional producer is the transaction's timeout.
"""
_RETURN_S = 1.0
"""For librdkafka to say that the time is up."""
_STEP_S = 0.1
"""A call that lets callbacks run lasts so long at most. To confluent-kafka a fatal error is an exception in a callback,
which the next call raises once more. A flush of 0.2 s and more goes on after it and runs the next callbacks with the
exception still set: that is a SystemError, and the report is lost. Shorter calls end at it."""
_COMMIT_STEP_S = 1.0
"""A commit waits until all that is queued is reported, also where a refused record has failed the transaction meanwhile
and what is queued behind it will never leave. The next call says so at once, and otherwise goes on where it was."""
_BATCH_FRAME_BYTES = 61
_RECORD_FRAME_BYTES = 32
_HEADER_FRAME_BYTES = 10
_UTF8_BYTES_MAX = 4
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""What an end that others brought about swept away: nothing was wrong with the record itself."""


class _Heard:
    """What reports said of the records of one transaction."""

    __slots__ = ("bootstrap", "failed", "offsets", "refusals", "swept_away", "unanswered", "written")

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.failed: dict[object, str] = {}
        """Tokens of records that were refused, with the reason."""
        self.unanswered: set[object] = set()
        """Those of them that no broker refused: no answer came in time."""
        self.refusals: dict[object, Refusal] = {}
        """Those of them that are refused again whenever they are tried again."""
        self.written: dict[tuple[str, int], int] = {}
        """One past the last offset, by topic and partition."""
        self.swept_away = False
        """Some were, by an end that something else brought about."""
        self.offsets: dict[object, int] = {}
        """Where the last record of each token was written."""

    def refused(self, token: object, place: str, topic: str, error: KafkaError) -> None:
        """The first says why: those queued behind it may wait until their own time is up."""
        self.failed.setdefault(token, f"{place}: {one_line(error)}")
        if error.code() in UNREACHABLE:
            self.unanswered.add(token)
        elif error.code() in LASTING:
            self.refusals.setdefault(token, Refusal(trouble(error, place, self.bootstrap), topic=topic))


class _Report:
    """What becomes of a token's records, as the callback of each; one object, because a transaction makes thousands."""

    __slots__ = ("heard", "token")

    def __init__(self, heard: "_Heard", token: object) -> None:
        self.heard = heard
        self.token = token

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None:
            if error.code() in PURGED:
                self.heard.swept_away = True
                return
            self.heard.refused(self.token, f"{topic}[{partition}]", str(topic), error)
        elif offset is not None and offset >= 0:
            # Reports of a partition come in order. One that was retried may not know its offset.
            self.heard.written[topic, partition] = offset + 1  # type: ignore[index]  # of what is written both are known
            if self.token is not None:
                self.heard.offsets[self.token] = offset


class _SmallBatches:
    """Keeps the batches for a topic that takes only small ones within what it takes, by what was queued since a flush.

    librdkafka fills batches to one size for all topics, and a broker refuses a batch that is larger than its topic's
    `max.message.bytes`, though each record in it would fit. The producer's thread only.
    """

    def __init__(self) -> None:
        self._queued_bytes: dict[tuple[str, int], int] = {}

    def count(self, record: Outgoing) -> bool:
        """A record about to be queued; True: flush first, for with what is queued for its partition it is too much."""
        limit_bytes = record.batch_bytes_max
        if not 0 < limit_bytes < BATCH_BYTES:
            return False
        place = (record.topic, record.partition)
        size = _bytes_at_most(record)
        queued_bytes = self._queued_bytes.get(place, 0)
        is_too_much = queued_bytes > 0 and _BATCH_FRAME_BYTES + queued_bytes + size > limit_bytes
        if is_too_much:
            self._queued_bytes.clear()
            queued_bytes = 0
        self._queued_bytes[place] = queued_bytes + size
        return is_too_much

    def clear(self) -> None:
        """Nothing is queued."""
        self._queued_bytes.clear()


class _Brokers:
    """Whether a client has lost all of them. Not of the class that has the client, which would then hold itself."""

    __slots__ = ("_tell", "were_lost")

    def __init__(self, tell: Callable[[KafkaError], object]) -> None:
        self._tell = tell
        self.were_lost = False
        """Since it was initialised."""

    def __call__(self, error: KafkaError) -> None:
        self.were_lost |= error.code() == KafkaError._ALL_BROKERS_DOWN
        self._tell(error)


class ConfluentTransactionalProducer:
    """Implements `ports.TransactionalProducer`."""

    def __init__(self, settings: dict[str, Any], *, bootstrap: str, is_contended: bool = False) -> None:
        self._is_contended = is_contended
        self._brokers = _Brokers(settings["error_cb"])
        self._settings = {**settings, "error_cb": self._brokers}
        self._producer = Producer(self._settings)
        self._bootstrap = bootstrap
        self._id = str(settings["transactional.id"])
        self._timeout_s = settings["transaction.timeout.ms"] / 1000
        self._small_batches = _SmallBatches()
        self._in_transaction = False
        """It is open, and ours to end."""
        self._heard = _Heard(bootstrap)
        """In this transaction."""
        self._report = _Report(self._heard, None)
        """Of all records without a token."""
        self._memberless: dict[str, object] = {}

    def initialise(self, timeout_s: float, *, known_topic: str | None = None) -> None:
        if known_topic is not None:
            self._connect(known_topic)
        self._steps(self._producer.init_transactions, timeout_s, "initialise", self._initialise_trouble)
        _hear_some(self._producer, 0)  # of an outage before, of which nobody has asked it yet
        self._brokers.were_lost = False

    def begin(self) -> None:
        _hear_some(self._producer, 0)
        if self._brokers.were_lost:
            if self._is_contended:  # initialised here it would take the id over again, and its user would not know
                raise TransactionAborted(f"transactional id {self._id}: the brokers were lost after it was initialised")
            # After an outage of a minute the first offsets of each that was there before had no answer for as long as
            # a transaction may take, 11 s, while a new one's had at once.
            self._let_go()
            self._producer = Producer(self._settings)
            self.initialise(self._timeout_s)
        self._heard = _Heard(self._bootstrap)
        self._report = _Report(self._heard, None)
        self._small_batches.clear()
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._trouble(cause(error), "begin") from None
        self._in_transaction = True

    def produce(self, record: Outgoing, token: object = None) -> None:
        deadline = time.monotonic() + self._timeout_s
        report = self._report if token is None else _Report(self._heard, token)
        is_retry = False
        if self._small_batches.count(record):
            _hear_all(self._producer, self._timeout_s)
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=report,
                    timestamp=record.timestamp_ms or 0,
                    headers=list(record.headers),
                )
            except BufferError:
                if time.monotonic() > deadline:
                    text = f"transactional id {self._id}: the queue of records stayed full for {self._timeout_s:g} s"
                    raise TransactionAborted(text, failed=frozenset(self._heard.failed)) from None
                _hear_some(self._producer, 0.01)
            except KafkaException as raised:
                error = cause(raised)
                if not is_retry and is_metadata_stale(error, self._producer, record.topic, record.partition):
                    is_retry = True
                    continue
                raise self._produce_trouble(error, record, token) from None
            else:
                return

    def produce_all(self, records: Iterable[Outgoing]) -> int:
        """Queue them one after the other, as `produce` without a token; how many they were."""
        queue, report, count = self._producer.produce, self._report, 0
        for count, record in enumerate(records, 1):  # noqa: B007  (it is returned)
            if 0 < record.batch_bytes_max < BATCH_BYTES:
                self.produce(record)
                continue
            try:
                queue(record.topic, record.value, record.key, record.partition, report, headers=list(record.headers))
            except (BufferError, KafkaException):
                self.produce(record)  # nothing was queued: it waits for room, or tells what is wrong
        return count

    def offsets_written(self, timeout_s: float) -> Mapping[object, int]:
        _hear_all(self._producer, timeout_s)
        if self._heard.failed:
            raise self._refused("offsets written")
        if self._heard.swept_away:  # a partition could not be added to the transaction: no record's report says so
            raise self._trouble(self._why_it_failed(KafkaError(KafkaError._STATE)), "offsets written")
        if len(self._producer):
            raise TransactionAborted(f"transactional id {self._id}: not all was confirmed within {timeout_s:g} s")
        return self._heard.offsets

    def send_offsets(
        self, group_metadata: object | None, group: str, topic: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        if group_metadata is None:
            group_metadata = self._without_member(group)
        places = [TopicPartition(topic, p, o.position, o.metadata) for p, o in offsets.items()]

        def send(timeout_s: float) -> None:
            # After a broker's crash it was seen not to return for minutes: tests/chaos/test_broker_kills.py.
            limit_s = self._timeout_s + _RETURN_S
            bounded(lambda: self._producer.send_offsets_to_transaction(places, group_metadata, timeout_s), limit_s)

        def sort(error: KafkaError, step: str) -> KafkaClientError:
            if error.code() in FENCED and not error.fatal():
                return GroupFenced(f"transactional id {self._id}: group {group}: {one_line(error)}", group=group)
            if error.code() in UNREACHABLE:
                return self._unknown(error, step)
            if error.code() == KafkaError._STATE or error.txn_requires_abort():  # maybe of a record before
                self._hear_reports()
                error = self._why_it_failed(error)
            return self._trouble(error, step, group if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else "")

        self._steps(send, min(self._timeout_s, _OFFSETS_TIMEOUT_S), f"offsets of group {group}", sort)

    def commit(self, timeout_s: float) -> Mapping[tuple[str, int], int]:
        if self._heard.failed:
            # A record that never got into the queue does not make librdkafka's transaction fail; to us it does.
            raise self._refused("commit")

        def sort(error: KafkaError, step: str) -> KafkaClientError:
            if error.retriable():  # out of time: the coordinator may have heard us
                return self._unknown(error, step)
            self._hear_reports()
            return self._trouble(error, step)

        def step(remaining_s: float) -> None:
            self._producer.commit_transaction(min(remaining_s, _COMMIT_STEP_S))

        self._steps(step, timeout_s, "commit", sort)
        self._in_transaction = False
        return self._heard.written

    def abort(self, timeout_s: float) -> None:
        if not self._in_transaction:
            return
        if self._heard.unanswered:
            # A record that went out before a broker's crash may have been counted by librdkafka and not by the broker:
            # after an abort the same producer's next records were refused as out of order. A new producer counts anew.
            self._in_transaction = False
            text = f"transactional id {self._id} at {self._bootstrap}: abort: records got no answer: for a new producer"
            raise OutcomeUnknown(text)
        # While the coordinator does not know of the first partition yet, it refuses to abort what it does not know,
        # and librdkafka takes that for fatal. A record that arrived is past that point; what cannot arrive is purged.
        _hear_all(self._producer, min(timeout_s, _SETTLE_S))
        self._steps(self._producer.abort_transaction, timeout_s, "abort", self._unknown)
        self._in_transaction = False

    def close(self) -> None:
        if self._in_transaction:
            # Left open it would hold back readers of its partitions until its timeout.
            try:
                self.abort(_CLOSE_TIMEOUT_S)
            except KafkaClientError as error:
                LOG.info("closing: %s; the broker ends the transaction at its timeout", error)
        self._in_transaction = False
        self._let_go()

    def _let_go(self) -> None:
        with Unheeded():  # a producer that failed for good says so once more
            self._producer.purge()
        _hear_some(self._producer, 0)

    def _without_member(self, group: str) -> object:
        """The metadata with which a process that is not a member writes a group's offsets."""
        metadata = self._memberless.get(group)
        if metadata is None:
            # Only a consumer makes it; without brokers to connect to, for nobody is asked.
            consumer = Consumer({"group.id": group})
            metadata = self._memberless[group] = consumer.consumer_group_metadata()
            consumer.close()
        return metadata

    def _connect(self, known_topic: str) -> None:
        """While it has no connection librdkafka leaves out the search for the coordinator, for half a second."""
        with Unheeded():  # then the search fails too, and raises it
            # The first answer may come over the connection to the bootstrap address, which ends when it turns out to be
            # that of a broker; the second one over the broker's own.
            for _ in range(2):
                self._producer.list_topics(known_topic, timeout=_CONNECT_S)

    # -- errors ----------------------------------------------------------------------------------------------------

    def _steps(
        self,
        call: Callable[[float], object],
        timeout_s: float,
        step: str,
        sort: Callable[[KafkaError, str], KafkaClientError],
    ) -> None:
        """Call until it succeeds, fails for good, or the time is up; `sort` names the failure."""
        deadline = time.monotonic() + timeout_s
        while True:
            remaining_s = deadline - time.monotonic()
            try:
                call(max(0.001, remaining_s))
            except KafkaException as raised:
                error = cause(raised)
                if error.retriable() and time.monotonic() < deadline:
                    # librdkafka says "retry" at once when it cannot reach anyone: give it a moment.
                    _hear_some(self._producer, 0.005)
                    continue
                raise sort(error, step) from None
            return

    def _hear_reports(self) -> None:
        """librdkafka may say that the transaction failed before it reports the record that failed it."""
        if not self._heard.failed:
            _hear_all(self._producer, _SETTLE_S)

    def _text(self, error: KafkaError, step: str) -> str:
        return f"transactional id {self._id} at {self._bootstrap}: {step}: {one_line(error)}"

    def _unknown(self, error: KafkaError, step: str) -> OutcomeUnknown:
        # Nor is it aborted at close: that would overtake what the coordinator has not answered yet. Whoever uses the
        # id next ends it, after everything that this producer was heard to say.
        self._in_transaction = False
        unknown = OutcomeUnknown(self._text(error, step))
        unknown.is_fenced = error.code() in OUTLIVED
        return unknown

    def _trouble(self, error: KafkaError, step: str, group: str = "") -> KafkaClientError:
        """`group`: whose offsets it is about."""
        if error.fatal() or error.code() in (KafkaError._FENCED, KafkaError._FATAL):
            return self._unknown(error, step)
        if self._heard.failed:
            return self._refused(step)
        refusals: dict[object, Refusal] = {}
        if error.code() in LASTING:  # a coordinator that may not add a partition: only librdkafka's log says which
            refusals[None] = Refusal(trouble(error, f"transactional id {self._id}", self._bootstrap), group=group)
        return TransactionAborted(self._text(error, step), refusals=refusals)

    def _refused(self, step: str) -> TransactionAborted:
        heard = self._heard
        reasons = "; ".join(sorted(set(heard.failed.values())))
        text = f"transactional id {self._id} at {self._bootstrap}: {step}: records refused: {reasons}"
        leaderless = partitions_without_leader(self._producer) if heard.unanswered else frozenset()
        return TransactionAborted(
            text, failed=frozenset(heard.failed), leaderless=leaderless, refusals=dict(heard.refusals)
        )

    def _initialise_trouble(self, error: KafkaError, step: str) -> KafkaClientError:
        # To librdkafka a missing right is fatal too; but nothing was begun, so there is no outcome to find out.
        if error.fatal() and error.code() not in NOT_ALLOWED:
            return self._unknown(error, step)
        about, right = f"transactional id {self._id}: {step}", f"Write on transactional id {self._id}"
        return trouble(error, about, self._bootstrap, right=right)

    def _why_it_failed(self, refusal: KafkaError) -> KafkaError:
        """A refused step says only that the state is wrong; the next `begin` raises what failed."""
        if refusal.fatal() or refusal.code() != KafkaError._STATE:
            return refusal
        try:
            self._producer.begin_transaction()
        except KafkaException as raised:
            return cause(raised)
        return refusal

    def _produce_trouble(self, error: KafkaError, record: Outgoing, token: object) -> KafkaClientError:
        place = f"{record.topic}[{record.partition}]"
        if error.code() in TOO_LARGE:
            return RecordTooLarge(f"{place}: {one_line(error)}")
        if error.code() in (KafkaError._STATE, KafkaError._FATAL, KafkaError._FENCED) or error.fatal():
            # librdkafka refuses records once the transaction has failed.
            return self._trouble(self._why_it_failed(error), f"produce to {place}")
        self._heard.refused(token, place, record.topic, error)
        return self._trouble(error, f"produce to {place}")


def _bytes_at_most(record: Outgoing) -> int:
    size = _RECORD_FRAME_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size += _HEADER_FRAME_BYTES + _UTF8_BYTES_MAX * len(name) + len(content or b"")
    return size


def _hear_some(producer: Producer, timeout_s: float) -> None:
    """Serve the callbacks that are due; if there are none, wait for one so long."""
    with Unheeded():
        producer.poll(min(timeout_s, _STEP_S))


def _hear_all(producer: Producer, timeout_s: float) -> None:
    """Until nothing is left to be reported; at most so long."""
    deadline = time.monotonic() + timeout_s
    while len(producer) and (remaining_s := deadline - time.monotonic()) > 0:
        with Unheeded():
            producer.flush(min(remaining_s, _STEP_S))
