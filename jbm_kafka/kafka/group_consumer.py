"""A member of a consumer group (classic protocol, cooperative-sticky) whose positions are given by its listener.

Everything runs on the thread that calls: librdkafka serves one caller at a time, and a second thread would starve.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jbm_kafka.kafka.header_names import mend_headers
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.translated_errors import DAMAGED, OUT_OF_RANGE, UNKNOWN_TOPIC, cause, one_line, trouble
from jbm_kafka.ports import (
    GroupFenced,
    GroupListener,
    KafkaClientError,
    KafkaRecord,
    PartitionGone,
    PartitionUnreadable,
    PositionOutOfRange,
    SettingRefused,
)

_LASTING = UNKNOWN_TOPIC | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.GROUP_MAX_SIZE_REACHED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
"""Errors that stay until somebody changes something. All others are librdkafka's to get over."""

_BROKEN = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
"""A connection was lost, or every one."""

_SEEK_TRIES = 20
"""Calls of `consume` in which a seek refused as too early is tried again before the partition is reassigned."""


_WAKE_S = 0.001
"""How long to wait for the answer to the question that wakes a broker's thread. Nobody wants it, and it comes behind
that to the fetch which waits for messages: with 50 ms a member stood still for 400 when its 8 partitions started."""


class ConfluentGroupConsumer:
    """Implements `ports.GroupConsumer`."""

    def __init__(
        self,
        settings: dict[str, Any],
        *,
        group: str,
        topic: str,
        listener: GroupListener,
        bootstrap: str,
        refused_session_timeout: Callable[[], SettingRefused] | None = None,
    ) -> None:
        self._group = group
        self._topic = topic
        self._listener = listener
        self._bootstrap = bootstrap
        self._refused_session_timeout = refused_session_timeout
        self._owned: set[int] = set()
        self._paused: set[int] = set()
        self._waiting: set[int] = set()
        """Owned, but without a position yet: assigned and paused, so that `seek` can start them."""
        self._stopped: set[int] = set()
        """librdkafka stopped fetching after a position out of range; only a new assignment starts it again."""
        self._damaged: set[int] = set()
        """Stopped before records that cannot be read, until they are assigned anew."""
        self._seeks: dict[int, tuple[int, int]] = {}
        """Positions that a partition could not take yet, with the tries left."""
        self._ends: dict[int, int] = {}
        """Where a partition had nothing more, when it was last found so."""
        self._revocations = 0
        self._joined = False
        self._is_open = True
        self._has_left = False
        """The client is closed; not before the callbacks inside `close` have ended, which still write."""
        self._errors: list[BaseException] = []
        self._kept: list[Message] = []
        """Records read by a call that had to raise; the next call returns them."""
        self._breaks = 0
        tell_error = settings["error_cb"]

        def note_error(error: KafkaError) -> None:
            if error.code() in _BROKEN:
                self._breaks += 1
            tell_error(error)

        self._consumer = Consumer({**settings, "error_cb": note_error})
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    # -- reading ---------------------------------------------------------------------------------------------------

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        assert self._is_open, f"group {self._group}: consume after close"
        try:
            self._kept += self._fetch(count_max - len(self._kept), 0 if self._kept else timeout_s)
        except KafkaException as error:
            raise self._translated(cause(error)) from None
        if self._seeks:
            self._retry_seeks()
        if self._errors:
            raise self._errors.pop(0)
        records, self._kept = self._kept[:count_max], self._kept[count_max:]
        return cast("Sequence[KafkaRecord]", records)

    def _fetch(self, count_max: int, timeout_s: float) -> list[Message]:
        if count_max < 1:
            return []
        # consume(n, t) waits in steps of 200 ms even when something is there; poll returns with the first record.
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        revocations = self._revocations
        records = [first]
        if count_max > 1:
            records += self._consumer.consume(count_max - 1, 0)
        if revocations != self._revocations:
            records = [record for record in records if record.partition() in self._owned]
        if any(map(Message.error, records)):  # asked of each without a step of the interpreter
            sound: list[Message] = []
            for record in records:
                if record.error() is not None:
                    self._note_error(record)
                elif record.partition() not in self._damaged:
                    sound.append(record)
            records = sound
        elif self._damaged:
            records = [record for record in records if record.partition() not in self._damaged]
        if self._waiting:
            records = [record for record in records if record.partition() not in self._waiting]
        mend_headers(records)
        return records

    def _note_error(self, record: Message) -> None:
        """Keep, log or drop an error event; it is never a record."""
        error = record.error()
        partition = record.partition()
        assert error is not None
        if partition in self._damaged:
            return
        if partition in self._owned and error.code() in DAMAGED:
            self._stop_damaged(partition, record.offset(), error)
            return
        if error.code() == KafkaError._PARTITION_EOF:
            if partition is not None and partition not in self._waiting:
                self._ends[partition] = record.offset() or 0
            return
        if error.code() in OUT_OF_RANGE and partition is not None:
            if partition in self._owned:
                self._stopped.add(partition)
            if partition in self._owned and partition not in self._waiting:
                text = f"{self._topic}[{partition}]: position {record.offset()} is outside the log: {one_line(error)}"
                self._errors.append(PositionOutOfRange(text, partition=partition))
        elif error.code() == KafkaError._UNKNOWN_PARTITION and partition in self._owned:
            text = f"{self._topic}[{partition}]: the topic was made anew with fewer partitions"
            self._errors.append(PartitionGone(text, partition=partition))
        elif error.fatal() or error.code() in _LASTING:
            self._errors.append(self._translated(error))
        else:
            LOG.info("group %s reading topic %s: %s; it keeps trying", self._group, self._topic, one_line(error))

    def _stop_damaged(self, partition: int, offset: int | None, error: KafkaError) -> None:
        self._damaged.add(partition)
        self._consumer.pause(self._places([partition]))
        self._errors.append(
            PartitionUnreadable(
                f"{self._topic}[{partition}] offset {offset}: what is stored there cannot be read: {one_line(error)}. "
                f"Restore the partition from a sound replica, or delete its records up to there with "
                f"kafka-delete-records, then start its receivers again; nothing behind it is handed over or settled, "
                f"other partitions go on",
                partition=partition,
            )
        )

    def _translated(self, error: KafkaError) -> KafkaClientError:
        if error.code() == KafkaError.INVALID_SESSION_TIMEOUT and self._refused_session_timeout is not None:
            return self._refused_session_timeout()
        return trouble(error, f"group {self._group} reading topic {self._topic}", self._bootstrap, group=self._group)

    # -- positions -------------------------------------------------------------------------------------------------

    def pause(self, partitions: Sequence[int]) -> None:
        wanted = [partition for partition in partitions if partition in self._owned]
        self._paused.update(wanted)
        self._consumer.pause(self._places(wanted))

    def resume(self, partitions: Sequence[int]) -> None:
        self._paused.difference_update(partitions)
        ready = [p for p in partitions if p in self._owned and not self._must_rest(p)]
        self._consumer.resume(self._places(ready))
        for partition in ready:
            self._wake_fetcher(partition)

    def _must_rest(self, partition: int) -> bool:
        return partition in self._waiting or partition in self._seeks or partition in self._damaged

    def seek(self, partition: int, position: int) -> None:
        if partition not in self._owned:
            raise KafkaClientError(f"{self._topic}[{partition}] is not assigned to this member of group {self._group}")
        self._kept = [record for record in self._kept if record.partition() != partition]
        self._ends.pop(partition, None)
        self._seeks[partition] = (position, 0 if partition in self._stopped else _SEEK_TRIES)
        if partition not in self._stopped:
            self._try_seek(partition)

    def _retry_seeks(self) -> None:
        for partition, (position, tries) in list(self._seeks.items()):
            if tries:
                self._seeks[partition] = (position, tries - 1)
                self._try_seek(partition)
            else:
                self._reassign(partition, position)

    def _try_seek(self, partition: int) -> None:
        position = self._seeks[partition][0]
        try:
            self._consumer.seek(TopicPartition(self._topic, partition, position))
        except KafkaException as error:
            # A partition whose fetching has not begun cannot seek; that is a matter of microseconds.
            if cause(error).code() != KafkaError._STATE:
                raise trouble(cause(error), f"seek {self._topic}[{partition}]", self._bootstrap) from None
        else:
            self._started(partition)

    def _reassign(self, partition: int, position: int) -> None:
        # Only here, right after poll served what was pending: librdkafka takes any unassign call while a revocation
        # waits for its callback as the answer to it, and would give the partitions away before on_revoked ran.
        self._consumer.incremental_unassign(self._places([partition]))
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, position)])
        self._stopped.discard(partition)
        self._started(partition)

    def _started(self, partition: int) -> None:
        self._seeks.pop(partition, None)
        if partition in self._waiting:
            self._waiting.discard(partition)
            if partition not in self._paused:
                self._consumer.resume(self._places([partition]))
                self._wake_fetcher(partition)

    def _wake_fetcher(self, partition: int) -> None:
        """librdkafka's thread for a broker notices a resumed partition at its next wake-up, up to a second later."""
        with suppress(KafkaException):  # the answer is not wanted, and a broker that is away is asked again anyway
            self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_WAKE_S)

    def _places(self, partitions: Sequence[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]

    # -- membership ------------------------------------------------------------------------------------------------

    def assignment(self) -> frozenset[int]:
        return frozenset(self._owned)

    def ends_reached(self) -> Mapping[int, int]:
        return dict(self._ends)

    def breaks(self) -> int:
        return self._breaks

    def joined(self) -> bool:
        return self._joined

    def group_metadata(self) -> object:
        # A member that was thrown out has no id; metadata without one would pass as an administrator's.
        if not self._has_left and (before := self._consumer.memberid()):
            metadata = self._consumer.consumer_group_metadata()
            if before == self._consumer.memberid():
                return metadata
        raise GroupFenced(f"group {self._group}: not a member at present", group=self._group)

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._consumer.close()
        self._has_left = True
        self._owned.clear()
        if self._errors:
            raise self._errors.pop(0)

    def __del__(self) -> None:
        # librdkafka's destructor waits for ever for a rebalance callback, with the interpreter's lock held; close()
        # serves it. The listener is left alone: whoever dropped us is not there to be told.
        if getattr(self, "_consumer", None) is not None and self._is_open:
            LOG.warning("a member of group %s was dropped without close; it leaves the group", self._group)
            self._owned.clear()
            self._consumer.close()

    # -- callbacks, inside poll, consume or close --------------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places]
        self._forget(partitions)
        self._owned.update(partitions)
        starts: dict[int, int] = {}
        if partitions:
            self._guarded(lambda: starts.update(self._listener.on_assigned(partitions)))
        waiting = [partition for partition in partitions if partition not in starts]
        # Paused at 0 they ask the broker for nothing.
        consumer.incremental_assign([TopicPartition(self._topic, p, starts.get(p, 0)) for p in partitions])
        self._waiting.update(waiting)
        consumer.pause(self._places(waiting))
        # A pause from before a revocation outlives it.
        consumer.resume(self._places(list(starts)))
        self._joined = True  # last: other threads take it as "the listener has been told"

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places if place.partition in self._owned]
        if partitions:
            self._guarded(lambda: self._listener.on_revoked(partitions))
        self._release(consumer, places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places if place.partition in self._owned]
        if partitions:
            self._guarded(lambda: self._listener.on_lost(partitions))
        self._release(consumer, places)

    def _release(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._revocations += 1
        partitions = [place.partition for place in places]
        self._owned.difference_update(partitions)
        self._forget(partitions)
        consumer.incremental_unassign(places)

    def _forget(self, partitions: Sequence[int]) -> None:
        self._paused.difference_update(partitions)
        self._waiting.difference_update(partitions)
        self._stopped.difference_update(partitions)
        self._damaged.difference_update(partitions)
        for partition in partitions:
            self._seeks.pop(partition, None)
            self._ends.pop(partition, None)
        self._kept = [record for record in self._kept if record.partition() not in partitions]

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run the listener; what it raises comes out of `consume` or `close` once librdkafka has been answered."""
        try:
            call()
        except BaseException as error:
            self._errors.append(error)
