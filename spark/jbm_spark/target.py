"""The queue to write to, as senders see it: there, and routing its units by as many partitions as its topic has."""

from collections.abc import Mapping

from jbm_kafka.core.destination import Destination, with_namespace
from jbm_kafka.jms.routing import other_count
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.registry import Registry
from jbm_kafka.sidecar.topics import Topics
from jbm_spark.topics import TIMEOUT_S, told


def target(
    destination: Destination, *, bootstrap: str, namespace: str = "", kafka: Mapping[str, object] | None = None
) -> TopicInfo:
    """What the cluster says of the queue now; the count that routes is recorded if nobody did (decision 13).

    Raises:
        InvalidDestinationError: there is no such queue.
        OrderError: its topic has another count of partitions than its units are routed by.
        TopicError: the brokers do not answer.
        JMSSecurityError: they refuse us.
    """
    client = ConfluentKafka(bootstrap, kafka, admin_timeout_s=TIMEOUT_S)
    admin = client.admin()
    topics = Topics(
        admin, namespace=namespace, registry=Registry(client, admin, with_namespace("jbm.registry", namespace))
    )
    try:
        with told(f"write to {destination}"):
            admin.cluster_id()  # tells at once what can be known at once
            info = topics.ensure(destination, create=False, partitions=0)
    finally:
        topics.close()
        admin.close()
    if info.partitions != info.unit_partitions:
        raise other_count(info)
    return info
