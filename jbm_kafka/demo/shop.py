"""The shop's counter: sets up a run's queues, and sends the day's orders and cancellations as they arrive."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.core.destination import CHANGELOG_SUFFIX, Queue, Topic, with_namespace
from jbm_kafka.demo.bookstore import DEAD_LETTERS, Line, Names, address_settings, run_of
from jbm_kafka.demo.log import quiet_client
from jbm_kafka.jms.connection import Connection

KEEP = timedelta(minutes=10)
"""Queues of a run stay that long after it began, to be looked at; the next run then removes them."""

SESSION_TIMEOUT_MS = 2_000
USUAL_LEAST_MS = 6_000
"""Kafka's own default for the shortest session."""
TIMEOUT_S = 15.0


@contextlib.contextmanager
def open_shop(cluster: Cluster, names: Names) -> Iterator[Connection]:
    """A connection, with the run's destinations and the dead-letter queue made."""
    factory = factory_of(cluster, address_settings=address_settings())
    with factory.create_connection() as connection, connection.create_session() as session:
        for destination in (Queue(names.orders), Topic(names.journal), Queue(names.audit), Queue(DEAD_LETTERS)):
            session.create_producer(destination)
        yield connection


class Clerk(threading.Thread):
    """Sends the day, line by line, while the workers work."""

    def __init__(self, connection: Connection, names: Names, day: Sequence[Line]) -> None:
        super().__init__(name="bookstore-clerk", daemon=True)
        self._connection = connection
        self._queue = Queue(names.orders)
        self._day = day
        self.sent = 0
        self.failure: Exception | None = None
        """Why it ended early."""

    def run(self) -> None:
        """Each send returns when the broker has it; so a cancellation is never in the log before its order."""
        try:
            with self._connection.create_session() as session, session.create_producer(self._queue) as producer:
                for line in self._day:
                    region = {"region": line["region"]} if "region" in line else {}
                    producer.send(
                        json.dumps(line, ensure_ascii=False),
                        unit_of_order=line["customer"],
                        type=line["kind"],
                        properties=region,
                    )
                    self.sent += 1
        except Exception as error:  # the thread that shows the progress raises it
            self.failure = error


def session_timeout_ms(cluster: Cluster) -> int:
    """The shortest useful one that this broker allows: so long nobody notices that a worker was killed."""
    admin = AdminClient(quiet_client(cluster))
    brokers = admin.list_topics(timeout=TIMEOUT_S).brokers
    resource = ConfigResource(ResourceType.BROKER, str(next(iter(brokers))))
    try:
        config = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
    except KafkaException:  # not everybody may ask
        return USUAL_LEAST_MS
    least = config.get("group.min.session.timeout.ms")
    return max(SESSION_TIMEOUT_MS, int(least.value) if least is not None and least.value else 0)


def tidy(cluster: Cluster) -> None:
    """Remove the topics of runs that began some time ago, as far as they are of this namespace."""
    admin = AdminClient(quiet_client(cluster))
    oldest = (datetime.now(UTC) - KEEP).strftime("%Y%m%d-%H%M%S000")
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    changelog = re.compile(re.escape(with_namespace("", cluster.namespace)) + "(.+)" + re.escape(CHANGELOG_SUFFIX))
    queues = {topic: found[1] if (found := changelog.fullmatch(topic)) else topic for topic in topics}
    old = [topic for topic, queue in queues.items() if (run_of(queue) or oldest) < oldest]
    if old:
        for future in admin.delete_topics(old, operation_timeout=TIMEOUT_S).values():
            future.exception(TIMEOUT_S)  # another demo may remove them too
