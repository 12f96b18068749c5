"""Asks the broker, before a JVM is started for it, whether the topics to read are there."""

from collections.abc import Iterable, Mapping
from contextlib import closing

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.kafka.connection_faults import IN_KAFKA
from jbm_kafka.ports import KafkaClientError
from jbm_spark.errors import TopicError


def check_topics(
    bootstrap: str, names: Iterable[str], *, kafka: Mapping[str, object] | None = None, timeout_ms: int = 5_000
) -> None:
    """Nothing, if the broker answers, lets us in and has every topic. `kafka` are librdkafka's properties.

    Raises:
        TopicError: it does not answer in time, or refuses us, or the first topic it does not have.
        InvalidSettingError: a property that cannot be.
    """
    wanted = list(names)
    try:
        with closing(ConfluentKafka(bootstrap, kafka, admin_timeout_s=timeout_ms / 1000).admin()) as admin:
            admin.cluster_id()  # tells at once what can be known at once
            existing = admin.describe(wanted)
    except KafkaClientError as error:
        # Who runs a job tells the properties elsewhere than in code.
        raise TopicError(f"no answer from Kafka at {bootstrap}: {error}".replace(f" {IN_KAFKA}", "")) from None
    for name in wanted:
        if name not in existing:
            raise TopicError(f"there is no topic {name!r} at {bootstrap}: create it (jbm-kafka create {name}), "
                             "or name another one")  # fmt: skip
