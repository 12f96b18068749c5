"""A member of a consumer group (classic protocol, cooperative-sticky) whose positions are given by its listener.

Everything runs on the thread that calls: librdkafka serves one caller at a time, and a second thread would starve.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jbm_kafka.kafka.assigned_partitions import AssignedPartitions
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
    freed_memory,
)

_BROKEN = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
"""A connection was lost, or every one."""
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


class _Heard:
    """A client's reports of its connections; that its session timed out it says in its log alone."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._tell_error = settings["error_cb"]
        self._log = settings["logger"]
        self.breaks = 0
        self.has_timed_out = False

    def error(self, error: KafkaError) -> None:
        if error.code() in _BROKEN:
            self.breaks += 1
        self._tell_error(error)

    def log(self, level: int, message: str, *values: object) -> None:
        if (message % values if values else message).startswith("SESSTMOUT"):
            self.has_timed_out = True
        self._log.log(level, message, *values)


class _ReadErrors:
    """Sorts the error events of a member's client: some are raised by its next call, others dropped."""

    def __init__(
        self, *, group: str, topic: str, bootstrap: str, refused_session_timeout: Callable[[], SettingRefused] | None
    ) -> None:
        self._group = group
        self._topic = topic
        self._bootstrap = bootstrap
        self._refused_session_timeout = refused_session_timeout
        self._noted: list[BaseException] = []

    def note(self, error: BaseException) -> None:
        """Have it raised."""
        self._noted.append(error)

    def raise_next(self) -> None:
        """Raise the first that nobody has heard of yet, if there is one."""
        if self._noted:
            raise self._noted.pop(0)

    def note_event(self, record: Message, partitions: AssignedPartitions) -> None:
        """Keep, log or drop an error event; it is never a record."""
        error = record.error()
        partition = record.partition()
        assert error is not None
        if partition in partitions.damaged:
            return
        if partition in partitions.owned and error.code() in DAMAGED:
            partitions.stop_before_damage(partition)
            self.note(self._unreadable(partition, record.offset(), error))
            return
        if error.code() == KafkaError._PARTITION_EOF:
            if partition is not None:
                partitions.note_end(partition, record.offset() or 0)
            return
        if error.code() in OUT_OF_RANGE and partition is not None:
            if partitions.note_out_of_range(partition):
                text = f"{self._topic}[{partition}]: position {record.offset()} is outside the log: {one_line(error)}"
                self.note(PositionOutOfRange(text, partition=partition))
        elif error.code() == KafkaError._UNKNOWN_PARTITION and partition in partitions.owned:
            text = f"{self._topic}[{partition}]: the topic was made anew with fewer partitions"
            self.note(PartitionGone(text, partition=partition))
        elif error.fatal() or error.code() in _LASTING:
            self.note(self.translated(error))
        else:
            LOG.info("group %s reading topic %s: %s; it keeps trying", self._group, self._topic, one_line(error))

    def translated(self, error: KafkaError) -> KafkaClientError:
        """Return what a caller sees of an error that is not a partition's."""
        if error.code() == KafkaError.INVALID_SESSION_TIMEOUT and self._refused_session_timeout is not None:
            return self._refused_session_timeout()
        is_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        right = f"Read on group {self._group}" if is_group else f"Read on topic {self._topic}"
        about = f"group {self._group} reading topic {self._topic}"
        return trouble(error, about, self._bootstrap, group=self._group, right=right)

    def _unreadable(self, partition: int, offset: int | None, error: KafkaError) -> PartitionUnreadable:
        return PartitionUnreadable(
            f"{self._topic}[{partition}] offset {offset}: what is stored there cannot be read: {one_line(error)}. "
            f"Restore the partition from a sound replica, or delete its records up to there with "
            f"kafka-delete-records, then start its receivers again; nothing behind it is handed over or settled, "
            f"other partitions go on",
            partition=partition,
        )


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
        self._errors = _ReadErrors(
            group=group, topic=topic, bootstrap=bootstrap, refused_session_timeout=refused_session_timeout
        )
        self._revocations = 0
        self._joined = False
        self._is_open = True
        self._has_left = False
        """The client is closed; not before the callbacks inside `close` have ended, which still write."""
        self._kept: list[Message] = []
        """Records read by a call that had to raise; the next call returns them."""
        heard = self._heard = _Heard(settings)
        client = Consumer({**settings, "error_cb": heard.error, "logger": heard})
        self._partitions = AssignedPartitions(client, topic, bootstrap)
        self._consumer = client
        client.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    # -- reading ---------------------------------------------------------------------------------------------------

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        assert self._is_open, f"group {self._group}: consume after close"
        try:
            self._kept += self._fetch(count_max - len(self._kept), 0 if self._kept else timeout_s)
        except KafkaException as error:
            raise self._errors.translated(cause(error)) from None
        if self._partitions.seeks:
            self._partitions.retry_seeks()
        self._errors.raise_next()
        records, self._kept = self._kept[:count_max], self._kept[count_max:]
        return cast("Sequence[KafkaRecord]", records)

    def wake(self) -> None:
        """librdkafka has nothing for it: a call that waits ends with a record or its time."""

    def _fetch(self, count_max: int, timeout_s: float) -> list[Message]:
        if count_max < 1:
            return []
        # consume(n, t) waits in steps of 200 ms even when something is there; poll returns with the first record.
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        partitions = self._partitions
        revocations = self._revocations
        records = [first]
        if count_max > 1:
            records += self._consumer.consume(count_max - 1, 0)
        if revocations != self._revocations:
            records = [record for record in records if record.partition() in partitions.owned]
        if any(map(Message.error, records)):  # asked of each without a step of the interpreter
            sound: list[Message] = []
            for record in records:
                if record.error() is not None:
                    self._errors.note_event(record, partitions)
                elif record.partition() not in partitions.damaged:
                    sound.append(record)
            records = sound
        elif partitions.damaged:
            records = [record for record in records if record.partition() not in partitions.damaged]
        if partitions.waiting:
            records = [record for record in records if record.partition() not in partitions.waiting]
        mend_headers(records)
        return records

    # -- positions -------------------------------------------------------------------------------------------------

    def pause(self, partitions: Sequence[int]) -> None:
        self._partitions.pause(partitions)

    def resume(self, partitions: Sequence[int]) -> None:
        self._partitions.resume(partitions)

    def seek(self, partition: int, position: int) -> None:
        if partition not in self._partitions.owned:
            raise KafkaClientError(f"{self._topic}[{partition}] is not assigned to this member of group {self._group}")
        self._drop_kept([partition])
        self._partitions.seek(partition, position)

    def ends_reached(self) -> Mapping[int, int]:
        if not self._kept:
            return self._partitions.ends
        kept = {record.partition() for record in self._kept}
        return {partition: end for partition, end in self._partitions.ends.items() if partition not in kept}

    def known_ends(self) -> Mapping[int, int]:
        return self._partitions.known_ends()

    def _drop_kept(self, partitions: Sequence[int]) -> None:
        self._kept = [record for record in self._kept if record.partition() not in partitions]

    # -- membership ------------------------------------------------------------------------------------------------

    def assignment(self) -> frozenset[int]:
        return frozenset(self._partitions.owned)

    def breaks(self) -> int:
        return self._heard.breaks

    def timed_out(self) -> bool:
        return self._heard.has_timed_out

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
        self._partitions.owned.clear()
        self._errors.raise_next()

    def __del__(self) -> None:
        # librdkafka's destructor waits for ever for a rebalance callback, with the interpreter's lock held; close()
        # serves it. The listener is not called: nobody is there to call.
        if getattr(self, "_consumer", None) is not None and self._is_open:
            LOG.warning("a member of group %s was dropped without close; it leaves the group", self._group)
            self._partitions.owned.clear()
            self._consumer.close()

    # -- callbacks, inside poll, consume or close --------------------------------------------------------------------

    def _on_assign(self, _: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places]
        self._heard.has_timed_out = False
        self._partitions.add(partitions)
        self._drop_kept(partitions)
        starts: dict[int, int] = {}
        if partitions:
            self._guarded(lambda: starts.update(self._listener.on_assigned(partitions)))
        self._partitions.start(partitions, starts)
        self._joined = True  # last: other threads take it as "the listener was called"

    def _on_revoke(self, _: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places if place.partition in self._partitions.owned]
        if partitions:
            self._guarded(lambda: self._listener.on_revoked(partitions))
        self._release(places)

    def _on_lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        partitions = [place.partition for place in places if place.partition in self._partitions.owned]
        if partitions:
            self._guarded(lambda: self._listener.on_lost(partitions))
        self._release(places)

    def _release(self, places: list[TopicPartition]) -> None:
        self._revocations += 1
        self._drop_kept([place.partition for place in places])
        self._partitions.release(places)
        freed_memory.trim()  # what was fetched, held and known of them lies between what stays

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run the listener; what it raises comes out of `consume` or `close` once librdkafka has been answered."""
        try:
            call()
        except BaseException as error:
            self._errors.note(error)
