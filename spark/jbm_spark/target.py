"""The queue to write to, as senders see it: there, and routing its units by as many partitions as its topic has."""

from collections.abc import Mapping
from dataclasses import dataclass

from jbm_kafka.client.partition_choice import other_count
from jbm_kafka.core.destination import Destination, with_namespace
from jbm_kafka.core.jms_errors import InvalidDestinationError, OrderError
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.live_settings import LiveSettings
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.topics import NOT_MADE, Topics
from jbm_spark.topic_check import TIMEOUT_S, one_line_errors


@dataclass(frozen=True, slots=True)
class Target:
    """A queue, or topic, as it is now."""

    info: TopicInfo
    duplicate_window: int | None
    """How many ids a partition remembers, as the registry says, else by default; None: all."""


def target(
    destination: Destination, *, bootstrap: str, namespace: str = "", kafka: Mapping[str, object] | None = None
) -> Target:
    """Return what the cluster says of the queue now; the count that routes is recorded if nobody did (decision 13).

    Raises:
        InvalidDestinationError: there is no such queue.
        OrderError: its topic has another count of partitions than its units are routed by; or some are being admitted,
            or units keep theirs by paths.
        TopicError: the brokers do not answer.
        JMSSecurityError: they refuse us.
    """
    client = ConfluentKafka(bootstrap, kafka, namespace=namespace, admin_timeout_s=TIMEOUT_S)
    admin = client.admin()
    registry = Registry(client, admin, with_namespace("jbm.registry", namespace))
    topics = Topics(admin, namespace=namespace, registry=registry)
    try:
        with one_line_errors(f"write to {destination}"):
            admin.cluster_id()  # tells at once what can be known at once
            info = topics.ensure(destination, create=False, partitions=0)
            settings = LiveSettings(registry.log, {})
            settings.load()
    except InvalidDestinationError as error:  # a connection's reason is not one here
        raise InvalidDestinationError(str(error).removesuffix(NOT_MADE), **error.values) from None
    finally:
        topics.close()
        admin.close()
    if info.partitions != info.unit_partitions:
        raise other_count(info)
    places = info.places
    if places is not None and (places.next_partitions or places.paths):
        raise OrderError(
            f"{destination} gets partitions, or has got some and {len(places.paths)} units keep theirs until nothing "
            f"of them is left, and Spark would not notice a change while it writes. Write when that is over: "
            f"jbm-kafka admit-partitions {destination.name}, and when those units are received: "
            f"jbm-kafka end-paths {destination.name}",
            destination=destination.name,
        )
    return Target(info, settings.resolve(destination.name).duplicate_window_count)
