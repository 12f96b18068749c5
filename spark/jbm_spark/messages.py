"""A queue's or topic's messages as a DataFrame, straight from its Kafka topic."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from jbm_kafka.core.destination import Destination, Queue
from jbm_spark.columns import message_columns
from jbm_spark.errors import OptionRefusedError
from jbm_spark.options import Position, checked, ending_options, starting_options


def messages(
    spark: SparkSession,
    destination: str | Destination,
    *,
    bootstrap: str,
    namespace: str = "",
    starting: Position = "earliest",
    ending: Position = "latest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Everything committed that the topic holds between the two positions, settled or not, one row a message.

    Nothing is read or checked before an action, and every action reads anew (an `ending` of "latest" may then be
    later): `cache()` what two results must agree on. Within a partition rows come in offset order.
    Spark's own options may be given (`groupIdPrefix`, `kafka.security.protocol`, ...).

    Raises:
        InvalidDestinationError: no legal name for a queue or topic.
        OptionRefusedError: an option or position that would break order or safety; the message says why.
    """
    if spark.conf.get("spark.sql.mapKeyDedupPolicy") != "LAST_WIN":
        raise OptionRefusedError(
            "this session fails at a record that has a header name twice: "
            "use build_session(), or set spark.sql.mapKeyDedupPolicy to LAST_WIN"
        )
    named = Queue(destination) if isinstance(destination, str) else destination
    topic = named.kafka_topic(namespace)
    reader = spark.read.format("kafka").options(**checked(options))
    reader = reader.options(**starting_options(topic, starting)).options(**ending_options(topic, ending))
    reader = reader.options(**{
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    })  # fmt: skip
    return message_columns(reader.load())
