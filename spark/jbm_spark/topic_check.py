"""Asks the brokers, before Spark does, whether the topics are there: Spark would tell with a Java trace, and late."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSSecurityError
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import AccessRefused, KafkaClientError
from jbm_kafka.registry.topics import Topics
from jbm_spark.errors import TopicError

TIMEOUT_S = 30.0
"""For a broker that is slow, but there; an address without a broker fails in two seconds."""


def check_topics(
    destinations: Iterable[Destination],
    *,
    about: str,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
) -> list[int]:
    """How many partitions each has, if a broker answers, lets us in and has all. `kafka` are librdkafka's properties.

    Raises:
        InvalidDestinationError: the first that has no topic; the text names what makes it.
        TopicError: nobody answers. `about` says what was to be done.
        JMSSecurityError: they refuse us.
        InvalidSettingError: a property that cannot be.
    """
    with one_line_errors(about), closing(ConfluentKafka(bootstrap, kafka, admin_timeout_s=TIMEOUT_S).admin()) as admin:
        admin.cluster_id()  # tells at once what can be known at once
        topics = Topics(admin, namespace=namespace)
        return [topics.partitions_of(destination) for destination in destinations]


def end_offsets(
    topic: str, wanted: Iterable[int], *, about: str, bootstrap: str, kafka: Mapping[str, object] | None = None
) -> Mapping[int, int]:
    """One past the last offset of each of these partitions; those that the topic has not are left out.

    Raises:
        TopicError, JMSSecurityError, InvalidSettingError: as `check_topics`.
    """
    with one_line_errors(about), closing(ConfluentKafka(bootstrap, kafka, admin_timeout_s=TIMEOUT_S).admin()) as admin:
        found = admin.describe([topic]).get(topic)
        there = [each for each in wanted if found is not None and each < found.partitions]
        return admin.end_positions(topic, there, stable=False)


def topic_ids(
    topics: Sequence[str],
    *,
    about: str,
    bootstrap: str,
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """The Kafka ids of those of the topics that are there; `?` of each where only Spark's own options let us in.

    Raises:
        TopicError, JMSSecurityError, InvalidSettingError: as `check_topics`.
    """
    if not can_look(kafka, options):
        return dict.fromkeys(topics, "?")
    with one_line_errors(about), closing(ConfluentKafka(bootstrap, kafka, admin_timeout_s=TIMEOUT_S).admin()) as admin:
        admin.cluster_id()
        return {name: found.topic_id for name, found in admin.describe(topics).items()}


def cluster_id(bootstrap: str, kafka: Mapping[str, object] | None) -> str:
    """The name that the brokers there have for their cluster.

    Raises:
        KafkaClientError: nobody answers, or they refuse us.
    """
    with closing(ConfluentKafka(bootstrap, kafka, admin_timeout_s=TIMEOUT_S).admin()) as admin:
        return admin.cluster_id()


@contextmanager
def one_line_errors(about: str) -> Iterator[None]:
    """A block in which what Kafka's client raises is one line for the caller."""
    try:
        yield
    except AccessRefused as error:
        raise JMSSecurityError(f"{about}: {error}") from None
    except KafkaClientError as error:
        raise TopicError(f"{about}: {error}") from None


def can_look(kafka: Mapping[str, object] | None, options: Mapping[str, str] | None) -> bool:
    """Return True if we get in as Spark does: not where only Spark's own options say how."""
    ours = any(name.startswith(("security.", "sasl.", "ssl.")) for name in kafka or {})
    sparks = any(name.lower().startswith(("kafka.security.", "kafka.sasl.", "kafka.ssl.")) for name in options or {})
    return ours or not sparks
