"""Partitions without a leader: where nothing can be written until a broker comes back that has a replica (UNIT-11)."""

from confluent_kafka import Producer

from jbm_kafka.kafka.leaked_references import Unheeded

ASK_TIMEOUT_S = 1.0
"""For a broker to say so. Where none answers, that is what is wrong, and the sends that fail need not wait longer."""


def partitions_without_leader(producer: Producer) -> frozenset[tuple[str, int]]:
    """Topic and partition of each, as a broker says it now; empty when none answers.

    Not to be asked in a callback of the producer: a question there ends the process by a signal at the next callback.
    """
    with Unheeded():
        topics = producer.list_topics(timeout=ASK_TIMEOUT_S).topics
        return frozenset(
            (name, each.id) for name, topic in topics.items() for each in topic.partitions.values() if each.leader < 0
        )
    return frozenset()
