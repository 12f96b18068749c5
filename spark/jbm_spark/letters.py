"""Dead letters and expired messages as a DataFrame, with where each of them was before."""

from collections.abc import Mapping

from jbm_spark.call_sites import without_call_sites
from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import DataFrame, SparkSession
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec import dead_letter as names
from jbm_kafka.core.destination import Destination
from jbm_spark.columns import PropertyType, property_column, time_of
from jbm_spark.dead_letter_queue import dead_letter_queue
from jbm_spark.messages import messages
from jbm_spark.options import Position

_ORIGIN: dict[str, tuple[str, PropertyType]] = {
    "origin_destination": (names.ORIG_DESTINATION, "string"),
    "origin_namespace": (names.ORIG_NAMESPACE, "string"),
    "origin_topic_id": (names.ORIG_TOPIC_ID, "string"),
    "origin_subscription": (names.ORIG_SUBSCRIPTION, "string"),
    "origin_subscription_kind": (names.ORIG_SUBSCRIPTION_KIND, "string"),
    "origin_partition": (names.ORIG_PARTITION, "int"),
    "origin_offset": (names.ORIG_OFFSET, "long"),
    "origin_message_id": (names.ORIG_MESSAGE_ID, "string"),
    "delivery_count": (names.DELIVERY_COUNT, "int"),
    "reason": (names.DEAD_LETTER_REASON, "string"),
    "last_error": (names.LAST_ERROR, "string"),
    "expired_at_ms": (names.ACTUAL_EXPIRY, "long"),
}


@without_call_sites()
def letters(
    spark: SparkSession,
    destination: str | Destination | None = None,
    *,
    bootstrap: str | None = None,
    namespace: str = "",
    starting: Position = "earliest",
    ending: Position = "latest",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
    raw: bool = False,
) -> DataFrame:
    """Return what the topic of a dead-letter or expiry address holds: the columns of `messages`, and where each came
    from.

    Without a destination it is the namespace's dead-letter queue.

    Also those that were received or sent again since. Arguments and errors are those of `messages`.
    """
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    destination = destination or dead_letter_queue(bootstrap, namespace, kafka)
    found = messages(spark, destination, bootstrap=bootstrap, namespace=namespace, starting=starting, ending=ending,
                     kafka=kafka, options=options, raw=raw)  # fmt: skip
    return letter_columns(found)


def letter_columns(found: DataFrame) -> DataFrame:
    """The rows of `messages` and, as typed columns, what tells of their last hop; null in what is no letter."""
    columns = {name: property_column(of, type_name) for name, (of, type_name) in _ORIGIN.items()}
    return found.withColumns({**columns, "expired_at": time_of(property_column(names.ACTUAL_EXPIRY, "long"))})
