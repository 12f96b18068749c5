"""Checks before writing that a body is what its kind says: receivers would get bytes, with the reason.

A message that goes on under the kind that its record has is not looked at: what another producer wrote stays as it is.
"""

from collections.abc import Set as AbstractSet

from pyspark.sql import Column, is_remote
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.bodies import BODY_HEADER, decode_value
from jbm_spark.java_calls import TEXTS, called, has_class

CAME_AS = "out_came_as"
"""The column of `kind_of_record`."""
WRITTEN_BY_US = ("map", "stream", "object")
"""Kinds whose bytes have a form; that of text is asked of Spark itself."""
NOT_LOOKED_AT = "this body has to be looked at"
"""The error of a row of another kind than its record where nobody looks: its batch is begun again, with a look."""


def names_its_kind(columns: AbstractSet[str]) -> Column:
    """Return whether `body_kind` says something else than the record that the row came from, if it came from one
    (CAME_AS)."""
    if "body_kind" not in columns:
        return F.lit(False)
    said = F.col("body_kind")
    if "kafka" not in columns:
        return said.isNotNull()
    return said.isNotNull() & ~F.col(CAME_AS).eqNullSafe(said)


def kind_of_record(keys: Column) -> Column:
    """The kind that the record says that the row came from, whose headers have these keys."""
    from jbm_spark.columns import last_header  # not where an executor loads this module for `body_fault`

    return last_header(F.col("kafka.headers"), BODY_HEADER, keys).cast("string")


def unreadable_body(kind: Column, value: Column, columns: AbstractSet[str], *, looks: bool) -> Column:
    """Why the value is no body of the kind, or null. Each look carries all rows to Python and back; where it `looks` at
    none, a row that needs one ends the query with NOT_LOOKED_AT."""
    is_text = F.coalesce(_is_utf8(value), F.lit(True))
    told = "the body is no UTF-8, as that of a text is: give its bytes with body_kind 'bytes'"
    of_text = F.when((kind == "text") & ~is_text, F.lit(told))
    if "body_kind" not in columns:
        return of_text
    is_asked = names_its_kind(columns) & kind.isin(*WRITTEN_BY_US)
    if not looks:
        return F.coalesce(of_text, F.when(is_asked, F.raise_error(F.lit(NOT_LOOKED_AT)).cast("string")))
    # Others are not carried to Python and back.
    asked = F.when(is_asked, kind), F.when(is_asked, value)
    if is_remote():
        return F.coalesce(of_text, F.udf(body_fault, "string", useArrow=False)(*asked))
    from jbm_spark.arrow_batches import faults

    return F.coalesce(of_text, faults(body_fault, *asked))


def _is_utf8(value: Column) -> Column:
    if has_class(TEXTS):
        return called(TEXTS, "areUtf8", "boolean", [value], takes_null=False)
    return F.is_valid_utf8(value.cast("string"))


def body_fault(kind: str | None, value: bytes | bytearray | None) -> str | None:
    """Return what is wrong with the bytes of a body of that kind, in one line, as a receiver would see it."""
    if kind is None:
        return None
    _, _, fault = decode_value(kind.encode(), b"" if value is None else bytes(value))
    return None if fault is None else f"body_kind is '{kind}': {' '.join(fault.split())}"
