"""Passes over the messages of each partition in the order of its log, by our classes of Java.

A unit, and all that is known of a message, is of one partition. So nothing has to be sorted or sent to another task.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.java_calls import has_class, of_java
from jbm_spark.jobs.audit.audit_checks import FATE, LETTER

_RECORDS, _BESIDE, _UNIT_ORDER = "jbm.spark.KafkaRecords", "jbm.spark.BesideMessages", "jbm.spark.UnitOrder"
_GREATEST, _AT = "_greatest", "_at"


class Place(NamedTuple):
    """What one task reads."""

    topic: str
    partition: int


def in_order(records: DataFrame) -> DataFrame:
    """Return records of `records_of_topics`, where Java is there, as `places_of` knows them, up to the ends of now.

    They are the same by the same consumers, but Spark copies each record, though most is not looked at.
    """
    found = of_java(_RECORDS).of(records._jdf) if has_class(_RECORDS) else None
    return records if found is None else DataFrame(found, records.sparkSession)


def places_of(messages: DataFrame) -> list[Place] | None:
    """Return one partition of Kafka's for each of the frame's, or None where it was not made of records `in_order`."""
    if not has_class(_BESIDE):
        return None
    found = of_java(_BESIDE).places(messages._jdf)
    return None if found is None else [Place(topic, part) for topic, part in found]


def with_known(messages: DataFrame, beside: DataFrame, topics: Mapping[str, tuple[str, str]]) -> DataFrame:
    """Return the messages with `queue` and `topic_id` of their topics, `is_settled`, `fates` in order, and `letters`.

    Args:
        messages: topic and offset are its first columns.
        beside: `first` and `last`, the offsets that it is about, and of `fate`, `letter` and `mark` (that settles them,
            or excepts them) one; partition by partition as the messages, sorted by `first`.
    """
    schema = _wider(messages, {"queue": "string", "topic_id": "string", "is_settled": "boolean",
                               "fates": f"array<{FATE}>", "letters": f"array<{LETTER}>"})  # fmt: skip
    names = {topic: list(told) for topic, told in topics.items()}
    return DataFrame(of_java(_BESIDE).walk(messages._jdf, beside._jdf, names, schema), messages.sparkSession)


def with_unit_order(stories: DataFrame, values: Sequence[str], units_max: int) -> DataFrame:
    """Return the stories with `is_told` and, for each value, `before_NAME`: the greatest that came before in the unit,
    and the latest `offset` that has it. Null values do not count. False: the partition has more than `units_max` units.

    Args:
        stories: a partition of one log each, in its order; offset, key and the values are its first columns.
    """
    told = {name: "bigint" for value in values for name in (value + _GREATEST, value + _AT)}
    schema = _wider(stories, {"is_told": "boolean", **told})
    walked = of_java(_UNIT_ORDER).walk(stories._jdf, len(values), units_max, schema)
    return DataFrame(walked, stories.sparkSession).withColumns({
        f"before_{value}": F.when(
            F.col(value + _AT).isNotNull(),
            F.struct(F.col(value + _GREATEST).alias(value), F.col(value + _AT).alias("offset")),
        )
        for value in values
    })  # fmt: skip


def _wider(frame: DataFrame, columns: Mapping[str, str]) -> object:
    schema = frame._jdf.schema()
    for name, kind in columns.items():
        schema = schema.add(name, of_java("org.apache.spark.sql.types.DataType").fromDDL(kind))
    return schema
