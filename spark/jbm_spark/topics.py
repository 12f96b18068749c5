"""Asks the broker, before a JVM is started for it, whether the topics to read are there."""

from collections.abc import Iterable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from jbm_spark.errors import TopicError


def check_topics(bootstrap: str, names: Iterable[str], *, timeout_ms: int = 5_000) -> None:
    """Nothing, if the broker answers and has every topic.

    Raises:
        TopicError: it does not answer in time, or the first topic it does not have.
    """
    try:
        # Else librdkafka writes every refused connection to stderr; the exception tells it once.
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        existing = admin.list_topics(timeout=timeout_ms / 1000).topics
    except KafkaException as error:
        reason = error.args[0].str()
        raise TopicError(f"no answer from Kafka at {bootstrap} ({reason}): is it running there?") from None
    for name in names:
        if name not in existing:
            raise TopicError(f"there is no topic {name!r} at {bootstrap}: create it (jbm-kafka create {name}), "
                             "or name another one")  # fmt: skip
