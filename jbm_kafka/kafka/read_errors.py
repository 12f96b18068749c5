"""What the error events of a member's client mean: some are raised by its next call, others are logged or dropped."""

from collections.abc import Callable

from confluent_kafka import KafkaError, Message

from jbm_kafka.kafka.assigned_partitions import AssignedPartitions
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.translated_errors import DAMAGED, OUT_OF_RANGE, UNKNOWN_TOPIC, one_line, trouble
from jbm_kafka.ports import KafkaClientError, PartitionGone, PartitionUnreadable, PositionOutOfRange, SettingRefused

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


class ReadErrors:
    """Those of one member; each is raised once, in the order noted."""

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
        """What a caller sees of an error that is not a partition's."""
        if error.code() == KafkaError.INVALID_SESSION_TIMEOUT and self._refused_session_timeout is not None:
            return self._refused_session_timeout()
        return trouble(error, f"group {self._group} reading topic {self._topic}", self._bootstrap, group=self._group)

    def _unreadable(self, partition: int, offset: int | None, error: KafkaError) -> PartitionUnreadable:
        return PartitionUnreadable(
            f"{self._topic}[{partition}] offset {offset}: what is stored there cannot be read: {one_line(error)}. "
            f"Restore the partition from a sound replica, or delete its records up to there with "
            f"kafka-delete-records, then start its receivers again; nothing behind it is handed over or settled, "
            f"other partitions go on",
            partition=partition,
        )
