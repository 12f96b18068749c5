"""Why a row can be no message: one line that names column and value, or null. Spark expressions that never fail."""

from collections.abc import Set as AbstractSet

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.headers import REPLY_TO_HEADER
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER
from jbm_kafka.core.selectors.tokens import KEYWORDS
from jbm_spark.body_check import CAME_AS, names_its_kind
from jbm_spark.columns import BODY_KINDS, is_property_name
from jbm_spark.frame_check import INSTANT_COLUMNS

_DESTINATION = (
    r"^(queue|topic):(?!jbm[.])(?![.]{1,2}$)(?!.*[.]jbm-changelog$)[A-Za-z0-9._-]{1,200}$"
    r"|^temporary-(queue|topic):.+$"
)
_NO_NAME = (
    "properties: '%s' is no name of a property: use letters, digits, '_' and '$', no digit first, no word of the "
    "selector language, and no 'JMS' in front"
)
_PLAIN_NAME = rf"(?!JMS|(?i:{'|'.join(sorted(KEYWORDS))})(?:,|\z))[A-Za-z_$][A-Za-z0-9_$]*+"
_PLAIN_NAMES = rf"^{_PLAIN_NAME}(?:,{_PLAIN_NAME})*+\z"
"""The names that nearly all rows have; other names are looked at one by one."""
_ONLY_BYTES = (
    "the message is a text, which body_text has, and the frame has body_bytes alone: keep body_text, or drop the "
    "column kafka to write a message without a body"
)
_NO_TEXT = "body_kind is '%s', and the row has a text: give its bytes as body_bytes, or leave body_kind out for a text"


def row_fault(columns: AbstractSet[str]) -> Column:
    """The first fault of the columns' values, but for names of properties. `columns` are those of a message."""
    faults: list[Column] = []

    def expect(name: str, is_good: Column, text: str, *, value: Column | None = None) -> None:
        shown = F.col(name) if value is None else value
        faults.append(F.when(shown.isNotNull() & ~is_good, F.format_string(text, shown.cast("string"))))

    if "unit_of_order" in columns:
        unit = F.col("unit_of_order")
        expect("unit_of_order", unit != "", "unit_of_order is '%s': a unit has a name; null means no unit")
    if "body_kind" in columns:
        kinds = f"body_kind is '%s': it is one of {', '.join(BODY_KINDS)}"
        expect("body_kind", F.col("body_kind").isin(*BODY_KINDS), kinds)
        if "body_text" in columns:
            is_of_text = F.col("body_text").isNotNull() & is_of_kind_alone(columns, "map", "stream")
            expect("body_kind", ~is_of_text, _NO_TEXT)
    if {"body_bytes", "kafka"} <= columns and "body_text" not in columns:
        stays_text = F.col("body_kind") == "text" if "body_kind" in columns else F.lit(True)
        is_lost = (F.col(CAME_AS) == "text") & stays_text & F.col("body_bytes").isNull()
        faults.append(F.when(is_lost, F.lit(_ONLY_BYTES)))
    if "delivery_mode" in columns:
        modes = "delivery_mode is '%s': it is PERSISTENT or NON_PERSISTENT"
        expect("delivery_mode", F.col("delivery_mode").isin("PERSISTENT", "NON_PERSISTENT"), modes)
    if "priority" in columns:
        expect("priority", F.col("priority").between(0, 9), "priority is '%s': it is an int from 0 to 9")
    if "reply_to" in columns:
        expect("reply_to", _is_reply_to(columns), "reply_to is '%s': write queue:<name> or topic:<name>")
    for name in INSTANT_COLUMNS:
        if name in columns:
            instant = F.unix_millis(F.col(name))
            expect(name, instant > 0, f"{name} is '%s' ms from 1970 on: it is later, or null for none", value=instant)
    if "message_id" in columns:
        is_none = F.coalesce(F.col("message_id"), F.lit("")) == ""
        text = "message_id is null or empty: give every row one, or leave the column out to have ids made"
        faults.append(F.when(is_none, F.lit(text)))
    return F.coalesce(*faults, F.lit(None).cast("string"))


def is_of_kind_alone(columns: AbstractSet[str], *kinds: str) -> Column:
    """The row says that it is of one of the kinds, which its record is not, and has no bytes."""
    has_bytes = F.col("body_bytes").isNotNull() if "body_bytes" in columns else F.lit(False)
    return names_its_kind(columns) & ~has_bytes & F.col("body_kind").isin(*kinds)


def _is_reply_to(columns: AbstractSet[str]) -> Column:
    """Also in a form that only somebody else can read, if the message came so."""
    given = F.col("reply_to")
    is_good = given.rlike(_DESTINATION)
    if "kafka" not in columns:
        return is_good
    as_it_came = F.struct(F.lit(REPLY_TO_HEADER).alias("key"), given.cast("binary").alias("value"))
    same = F.array_contains(F.col("kafka.headers"), as_it_came)
    return is_good | F.coalesce(same, F.lit(False))


def name_fault(names: Column) -> Column:
    """Return the fault in names of properties that the message did not come with."""
    bad = F.filter(names, lambda name: name.isin(*TOLD_BY_PROVIDER) | ~is_property_name(name))
    first = F.try_element_at(bad, F.lit(1))
    read_only = F.format_string("property '%s' is read-only: leave it out", first)
    told = F.when(first.isin(*TOLD_BY_PROVIDER), read_only).otherwise(F.format_string(_NO_NAME, first))
    joined = F.array_join(names, ",")
    commas = F.length(joined) - F.length(F.replace(joined, F.lit(","), F.lit("")))
    are_plain = (F.size(names) == 0) | ((F.size(names) == commas + 1) & joined.rlike(_PLAIN_NAMES))
    return F.when(~are_plain, F.when(first.isNotNull(), told))
