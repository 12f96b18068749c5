"""Where the committed part of a log ends, asked by every receive that finds nothing."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from jbm_kafka.kafka.bounded_call import bounded
from jbm_kafka.kafka.questions import Deadline
from jbm_kafka.kafka.translated_errors import UNKNOWN_TOPIC, cause


class StableEnds:
    """Any thread. Not asked of the admin client, which has to describe the topic first: two requests instead of one."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are those of a consumer."""
        self._settings = dict(settings)
        self._lock = threading.Lock()
        self._reader: Consumer | None = None
        self._calls = 0
        """Under way in the reader; some longer than anybody waits."""

    def ask(self, topic: str, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
        """The last stable offset of each; KafkaException "timed out" as soon as the deadline is over.

        librdkafka keeps to a time limit while its connection stands. While it finds out what a broker speaks that has
        stopped answering, it was seen to return after 11 s, whatever its timeout.
        """
        if not partitions:
            return {}
        found: dict[int, int] = {}
        bounded(lambda: found.update(self._answer(topic, partitions, deadline)), deadline.remaining_s())
        return found

    def close(self) -> None:
        """A call that nobody waits for keeps the reader: it ends with the last of them."""
        with self._lock:
            reader, self._reader = self._reader, None
            if reader is not None and not self._calls:
                reader.close()

    def _answer(self, topic: str, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
        with self._lock:
            self._calls += 1
        try:
            return self._looked_up(topic, partitions, deadline)
        finally:
            with self._lock:
                self._calls -= 1

    def _looked_up(self, topic: str, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
        reader = self._connected(topic, deadline)
        places = [TopicPartition(topic, partition, OFFSET_END) for partition in partitions]
        try:
            answers = reader.offsets_for_times(places, timeout=deadline.remaining_s())
            for place in answers:
                if place.error is not None:
                    raise KafkaException(place.error)
        except KafkaException as raised:
            # The client's own opinion: of an answer that may have named no topics, from a broker that came back; or
            # of the topic as it was before it was made anew. Or a leader's, that has not heard yet of a new topic.
            if cause(raised).code() in UNKNOWN_TOPIC and _names(reader, topic, places, deadline):
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
            raise
        if min(place.offset for place in answers) < 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return {place.partition: place.offset for place in answers}

    def _connected(self, topic: str, deadline: Deadline) -> Consumer:
        """It joins nothing and reads nothing; for a read_committed client a log ends at its last stable offset."""
        with self._lock:
            reader = self._reader
        if reader is None:
            reader = Consumer(self._settings)
            reader.list_topics(topic, timeout=deadline.remaining_s())  # waits for a connection
            with self._lock:
                reader = self._reader = self._reader or reader
        return reader


def _names(reader: Consumer, topic: str, places: Sequence[TopicPartition], deadline: Deadline) -> bool:
    """Return True if the brokers know the partitions when they are asked anew."""
    found = reader.list_topics(topic, timeout=deadline.remaining_s()).topics.get(topic)
    return found is not None and all(place.partition in found.partitions for place in places)
