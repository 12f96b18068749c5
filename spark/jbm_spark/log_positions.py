"""Where the logs of many topics begin and end, asked for all at once. No Spark needed."""

import time
from collections.abc import Mapping, Sequence

from jbm_kafka.ports import AccessRefused, KafkaAdmin, LeaderMissing, LogPlace, UnknownTopic
from jbm_spark.errors import SparkJobError

OF_ONE_TOPIC = (AccessRefused, LeaderMissing, UnknownTopic)
"""Errors by which brokers tell of one topic, and nothing of the others."""

OPEN_MAX_S = 60.0
"""How long an open transaction may keep what is committed behind it from being read; one of ours ends after ten."""
OF_A_QUEUE_S = 400.0
"""The same of a queue, to which a task of a batch of the format "jbm" may write for 300 s."""
_LOOK_S = 0.2


def log_positions(admin: KafkaAdmin, partitions: Mapping[str, int], at: LogPlace) -> Mapping[str, Mapping[int, int]]:
    """Return the positions by topic and partition; `partitions`: how many each topic has.

    Raises:
        KafkaClientError: no answer, or of one of them nothing is known: those of OF_ONE_TOPIC are about one alone.
    """
    found = dict(admin.positions(partitions, at))
    for topic in partitions.keys() - found.keys():  # asked alone they wait, or say why not
        numbers = range(partitions[topic])
        if at is LogPlace.BEGIN:
            found[topic] = admin.begin_positions(topic, numbers)
        else:
            found[topic] = admin.end_positions(topic, numbers, stable=at is LogPlace.STABLE_END)
    return found


def whole_ends(
    admin: KafkaAdmin, topic: str, parts: Sequence[int], *, patience_s: float = OPEN_MAX_S
) -> Mapping[int, int]:
    """Return the ends that the log has now, when all transactions below them have ended.

    Raises:
        SparkJobError: one goes on and on.
    """
    heads = admin.end_positions(topic, parts, stable=False)
    deadline = time.monotonic() + patience_s
    while True:
        stable = admin.end_positions(topic, parts, stable=True)
        if all(stable[part] >= heads[part] for part in parts):
            return heads
        if time.monotonic() > deadline:
            raise SparkJobError(
                f"a transaction is open in {topic} for more than {patience_s:.0f} s, and what comes behind it cannot "
                "be read: end it (jbm-kafka docs topics, 'A transaction that never ends'), and start again"
            )
        time.sleep(_LOOK_S)
