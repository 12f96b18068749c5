"""The frames of a queue as views in SQL, by one call."""

from collections.abc import Mapping

from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_spark.changelog import held
from jbm_spark.columns import message_columns
from jbm_spark.committed import no_records
from jbm_spark.events import events
from jbm_spark.letters import letter_columns, letters
from jbm_spark.messages import messages

VIEWS = ("messages", "held", "events", "letters")
"""Their names, behind the prefix."""


def create_views(
    spark: SparkSession,
    destination: str | Queue | Topic,
    *,
    bootstrap: str | None = None,
    subscription: str | None = None,
    client_id: str = "",
    dead_letters: str | Destination | None = None,
    prefix: str = "",
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Make the temporary views `messages`, `held`, `events` and `letters` of a queue, or of a topic's subscription.

    Each has the columns of the function of its name: `messages` what the topic has, `held` what waits, `events` what
    became of its messages, `letters` what its dead-letter address got from it (none where that is not there yet).
    Views of these names are replaced; `prefix` stands before each name. Every query reads anew.

    Raises:
        InvalidDestinationError: no such queue, topic or subscription.
        The rest as `messages` and `held`.
    """
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    still = held(spark, destination, bootstrap=bootstrap, subscription=subscription, client_id=client_id,
                 namespace=namespace, kafka=kafka, options=options)  # fmt: skip
    source = Topic(destination) if subscription is not None and isinstance(destination, str) else destination
    source = Queue(source) if isinstance(source, str) else source
    given_up = letters_there(spark, dead_letters, bootstrap, namespace, kafka, options)
    sent = messages(spark, source, bootstrap=bootstrap, namespace=namespace, kafka=kafka, options=options)
    fates = events(spark, bootstrap=bootstrap, namespace=namespace, kafka=kafka, options=options)
    frames = {
        "messages": sent,
        "held": still,
        "events": fates.where(F.col("topic") == source.kafka_topic(namespace)),
        "letters": given_up.where(F.col("origin_destination") == str(source)),
    }
    for name in VIEWS:
        frames[name].createOrReplaceTempView(prefix + name)


def letters_there(
    spark: SparkSession, dead_letters: str | Destination | None, bootstrap: str, namespace: str,
    kafka: Mapping[str, object] | None, options: Mapping[str, str] | None,
) -> DataFrame:  # fmt: skip
    """Return the letters of that address, none where it is not there yet."""
    try:
        return letters(spark, dead_letters, bootstrap=bootstrap, namespace=namespace, kafka=kafka, options=options)
    except InvalidDestinationError:
        return letter_columns(message_columns(no_records(spark)))
