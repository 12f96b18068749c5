"""Which Kafka topics a stream reads, and whether it would read what it writes."""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaClientError
from jbm_spark.errors import OptionRefusedError
from jbm_spark.topic_check import cluster_id, topic_ids

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamSource:
    """One Kafka source of a stream, as its options name it."""

    subscribe: str | None
    """A topic, as `message_stream` gives it; a user's own source may have several, with commas between."""
    pattern: str | None
    """A regular expression of topics, in a user's own source."""
    assign: str | None
    """Partitions by topic as JSON, in a user's own source."""
    bootstrap: str

    def named(self) -> list[str]:
        """The topics that it names, which are not those of a pattern."""
        named = [name.strip() for name in (self.subscribe or "").split(",") if name.strip()]
        return named if self.assign is None else [*named, *json.loads(self.assign)]

    def has(self, topic: str) -> bool:
        """Return True if the topic is among those that it reads."""
        return topic in self.named() or (self.pattern is not None and _is_match(self.pattern, topic))


def kafka_sources(frame: DataFrame) -> list[StreamSource] | None:
    """The Kafka sources of a stream; None when they are not to be seen, as with Spark Connect."""
    found: list[StreamSource] = []
    try:
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        for number in range(leaves.size()):
            leaf = leaves.apply(number)
            if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == "kafka":
                found.append(_source(leaf.extraOptions().get))
    except (PySparkException, Py4JError, AttributeError, TypeError):
        return None
    return found


def topics_read(frame: DataFrame) -> list[str] | None:
    """The Kafka topics that a stream reads; None when that is not to be seen."""
    return sorted({each.subscribe for each in kafka_sources(frame) or () if each.subscribe is not None}) or None


def ids_read(frame: DataFrame, *, bootstrap: str, kafka: Mapping[str, object]) -> dict[str, str]:
    """Kafka's ids of the topics that a stream names, as they are now; of another cluster's, where it lets us in.

    Raises:
        TopicError, JMSSecurityError: the brokers at `bootstrap` do not answer, or refuse us.
    """
    found: dict[str, set[str]] = {}
    for source in kafka_sources(frame) or ():
        try:
            ids = topic_ids(source.named(), about="read a stream", bootstrap=source.bootstrap, kafka=kafka)
        except JMSError as error:
            if source.bootstrap == bootstrap:
                raise
            log.warning("a topic at %s that is made anew will not be noticed: %s", source.bootstrap, error)
            continue
        for topic, topic_id in ids.items():
            found.setdefault(topic, set()).add(topic_id)
    return {topic: ",".join(sorted(ids)) for topic, ids in found.items()}


def refuse_a_circle(
    sources: Sequence[StreamSource] | None,
    destination: Destination,
    *,
    topic: str,
    bootstrap: str,
    kafka: Mapping[str, object],
) -> None:
    """Nothing, unless one of the sources is the topic that is written to.

    A topic of the same name in another cluster is another one, so brokers with other addresses are asked for their
    cluster's id. Those that do not answer count as another cluster.

    Raises:
        OptionRefusedError: the query would read its own messages.
    """
    for source in sources or ():
        if source.has(topic) and _is_same_cluster(source.bootstrap, bootstrap, kafka):
            kind = destination.kind
            raise OptionRefusedError(
                f"this query reads {destination} and writes to it, so it would never end: write to another {kind}"
            )


def _source(option: Callable[[str], Any]) -> StreamSource:
    return StreamSource(
        subscribe=option("subscribe"),
        pattern=option("subscribePattern"),
        assign=option("assign"),
        bootstrap=option("kafka.bootstrap.servers") or "",
    )


def _is_match(pattern: str, topic: str) -> bool:
    with suppress(re.error):  # Java's patterns can do what ours cannot
        return re.fullmatch(pattern, topic) is not None
    return False


def _is_same_cluster(one: str, other: str, kafka: Mapping[str, object]) -> bool:
    if _addresses(one) & _addresses(other):
        return True
    try:
        return cluster_id(one, kafka) == cluster_id(other, kafka)
    except KafkaClientError:
        return False


def _addresses(bootstrap: str) -> set[str]:
    return {each.strip() for each in bootstrap.split(",")}
