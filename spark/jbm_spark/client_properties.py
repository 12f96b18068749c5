"""Options of Spark's Kafka sink, which are Java's, for librdkafka, which writes in transactions where Java does not.

They must be those of both, so that a query that runs by one runs by the other."""

from collections.abc import Mapping

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.kafka.settings import check_client_settings
from jbm_spark.errors import OptionRefusedError
from jbm_spark.sink_options import checked_sink_options


def client_properties(kafka: Mapping[str, object] | None, options: Mapping[str, str] | None) -> dict[str, object]:
    """librdkafka's properties: those of `kafka`, and each option that has the same name in both clients.

    Raises:
        OptionRefusedError: an option that librdkafka does not have.
    """
    properties = dict(kafka or {})
    for option, value in checked_sink_options(options).items():
        name = option.partition(".")[2]
        try:
            check_client_settings({name: value})
        except InvalidSettingError as error:
            raise OptionRefusedError(
                f"option {option} is Java's, and librdkafka may write exactly once: name it in `kafka` as that does, "
                f"or write with exactly_once=False ({error})"
            ) from None
        properties[name] = value
    return properties
