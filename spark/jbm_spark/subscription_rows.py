"""Which messages of a topic a subscription has, as a Spark expression over the columns of `messages`."""

from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, Row
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.browsing.intake import what_it_has
from jbm_kafka.codec.scan import SUBSCRIPTION_HEADER
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import Headers


@dataclass(frozen=True, slots=True)
class RowRecord:
    """A row's record as Kafka's client would show it, without its body."""

    row: Row
    """`topic partition offset timestamp_ms key headers`."""

    def topic(self) -> str:
        return str(self.row["topic"])

    def partition(self) -> int:
        return int(self.row["partition"])

    def offset(self) -> int:
        return int(self.row["offset"])

    def key(self) -> bytes | None:
        return None if self.row["key"] is None else bytes(self.row["key"])

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Headers:
        found = self.row["headers"] or []
        return [(each["key"], None if each["value"] is None else bytes(each["value"])) for each in found]

    def timestamp(self) -> tuple[int, int]:
        return 1, int(self.row["timestamp_ms"])


def is_for(subscription: Subscription) -> Column:
    """Return whether the row's message is the subscription's."""
    # try_: a record without such a header must not end the query.
    addresses = F.filter("kafka.headers", lambda each: (each["key"] == SUBSCRIPTION_HEADER) & each["value"].isNotNull())
    address = F.try_element_at(addresses, F.lit(-1))["value"].cast("string")
    is_meant = address.isNull() | address.isin(subscription.group_id(), subscription.former_name)
    if what_it_has(subscription) is None:
        return is_meant
    # The language of selectors and their three-valued logic are Python's here.
    has = F.udf(partial(_has, subscription), "boolean", useArrow=False)
    record = ("topic", "partition", "offset", "key", "headers")
    return is_meant & has(
        F.struct(
            *(F.col(f"kafka.{name}").alias(name) for name in record),
            F.unix_millis("kafka.timestamp").alias("timestamp_ms"),
        )
    )


def _has(subscription: Subscription, row: Row) -> bool:
    has = what_it_has(subscription)
    record = RowRecord(row)
    return has is None or has(Reference(record.offset(), record.key(), 4, 0, 0, record, None))
