"""Partitions without a leader: where nothing can be written until a broker comes back that has a replica (UNIT-11)."""

from confluent_kafka import KafkaException, Producer

ASK_TIMEOUT_S = 1.0
"""For a broker to say so. Where none answers, that is what is wrong, and the sends that fail need not wait longer."""


class MissingLeaders:
    """Asked about sends that nobody confirmed, all at one time: of each topic once. One thread."""

    def __init__(self) -> None:
        self._missing: dict[str, frozenset[int]] = {}
        self._is_silent = False
        """No broker answered."""

    def has(self, producer: Producer, topic: str, partition: int) -> bool:
        """Whether a broker says now that the partition has no leader."""
        if topic not in self._missing and not self._is_silent:
            try:
                found = producer.list_topics(topic, timeout=ASK_TIMEOUT_S).topics[topic].partitions
            except KafkaException:
                self._is_silent = True
            else:
                self._missing[topic] = frozenset(each.id for each in found.values() if each.leader < 0)
        return partition in self._missing.get(topic, ())
