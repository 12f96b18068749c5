"""Where the logs of many topics begin and end, asked for all at once. No Spark needed."""

from collections.abc import Mapping

from jbm_kafka.ports import AccessRefused, KafkaAdmin, LeaderMissing, LogPlace, UnknownTopic

OF_ONE_TOPIC = (AccessRefused, LeaderMissing, UnknownTopic)
"""Errors by which brokers tell of one topic, and nothing of the others."""


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
