"""Bodies of a schema registry's serializers as one typed column: each read by the schema that wrote it, as another.

Spark's own functions read them, without a Python worker, in batches, streams and archives. Before `from_avro` a method
of Java looks whether lengths and counts can be, for `from_avro` takes them on trust (AvroBodies.java). No body ends a
query: it is null, and a column says why.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jbm_spark.extra import pyspark_missing

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.types import StringType, StructType
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec.schema_registry import ID_HEADER
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.wrong_values import shown
from jbm_spark.call_checks import refuse_connect
from jbm_spark.columns import last_header
from jbm_spark.errors import FrameRefusedError, RegistryError, SessionError
from jbm_spark.java_calls import AVRO_BODIES, called, has_class
from jbm_spark.json_schema_types import struct_of
from jbm_spark.raw_columns import headers_of
from jbm_spark.subject_schemas import JSON, SubjectSchemas, WriterSchema, subject_schemas

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_NUMBER, _UUID = 5, 17
"""How long a magic byte and an id are."""
_BYTES_MAX = 2**31 - 1
_HELD, _SPOILT = "found_typed_body", "jbm_spoilt"


def with_typed_bodies(
    frame: DataFrame, registry: SchemaRegistryClient, subject: str, *, reader: str | None = None
) -> DataFrame:
    """The frame of `messages` and the like with a column `typed_body`, and `typed_body_error`: why there is none.

    The bodies are those that a registry's serializers wrote by any schema of the subject, Avro or JSON Schema; all are
    read as the latest one has them, by Avro's rules of resolution. The registry is asked now, and not by executors: a
    schema that is registered later is not known to the frame, and its bodies are null with that reason.

    Args:
        registry: the client of confluent_kafka, with its address and login.
        subject: such as `orders-value`.
        reader: a schema of yours to read by, as JSON, in the place of the latest.

    Raises:
        RegistryError: the registry does not answer, has no such subject, or a schema to read by cannot be one.
        SessionError: the session has not our jar, or is Spark Connect's.
        FrameRefusedError: the frame has no bodies.
    """
    refuse_connect(frame, "with_typed_bodies()")
    if not {"body_text", "body_bytes"} <= {*frame.columns}:
        raise FrameRefusedError("with_typed_bodies() takes what messages(), message_stream() and read_archive() give")
    if not has_class(AVRO_BODIES):
        raise SessionError(
            "with_typed_bodies() needs jbm-spark.jar in the session: make it by build_session(), or name the jar that "
            "lies beside the package jbm_spark in spark.jars"
        )
    schemas = subject_schemas(registry, subject, reader)
    headers = headers_of(frame)
    told = F.when(F.array_contains(headers["key"], F.lit(ID_HEADER)), last_header(headers, ID_HEADER))
    # In steps, or Spark would work the first ones out again for each place that uses them.
    step = frame.withColumn(_HELD, _framed(told))
    step = step.withColumn(_HELD, _with_fault(schemas, subject))
    try:
        step = step.withColumn(_HELD, F.struct(F.col(_HELD)["fault"].alias("fault"), _read(schemas).alias("read")))
    except (PySparkException, Py4JError) as error:  # such as one that is within itself
        raise RegistryError(f"subject {shown(subject)}: Spark has no type for the schema to read by, so name one with "
                            f"reader=: {failure_text(error)}") from None  # fmt: skip
    read, fault = F.col(_HELD)["read"], F.col(_HELD)["fault"]
    unlike = F.when(read.isNull(), F.lit("it does not fit the schema that it is read by"))
    return step.withColumns({"typed_body": read, "typed_body_error": F.coalesce(fault, unlike)}).drop(_HELD)


def _framed(told: Column) -> Column:
    """The beginning that names the schema, and the data behind it. The registry's header wins: then the body is the
    data alone."""
    body = F.col("body_bytes")
    frame = F.coalesce(told, body)
    size = F.when(F.substring(frame, 1, 1) == F.lit(b"\1"), _UUID).otherwise(_NUMBER)
    start = F.substring(frame, F.lit(1), size)
    data = F.when(told.isNotNull(), body).otherwise(F.substring(body, size + 1, F.lit(_BYTES_MAX)))
    return F.struct(start.alias("start"), data.alias("data"))


def _is_of(schema: WriterSchema) -> Column:
    return F.col(_HELD)["start"].isin(*(F.lit(each) for each in schema.frames))


def _with_fault(schemas: SubjectSchemas, subject: str) -> Column:
    """The same with the reason for which the data cannot be read."""
    start, data = F.col(_HELD)["start"], F.col(_HELD)["data"]
    is_number = (F.substring(start, 1, 1) == F.lit(b"\0")) & (F.length(start) == _NUMBER)
    number = F.conv(F.hex(F.substring(start, 2, _NUMBER)), 16, 10)
    of = F.lit(f" is none that {subject} had when the query was made")
    is_uuid = (F.substring(start, 1, 1) == F.lit(b"\1")) & (F.length(start) == _UUID)
    fault = F.when(F.col("body_text").isNotNull(), F.lit("it is a text, and no serializer's"))
    fault = fault.when(data.isNull() | start.isNull(), F.lit("there is no body"))
    for each in schemas.writers:
        fault = fault.when(_is_of(each), _fault(each, schemas, data))
    fault = fault.when(is_number, F.concat(F.lit("schema "), number, of))
    fault = fault.when(is_uuid, F.concat(F.lit("schema "), F.lower(F.hex(F.substring(start, 2, _UUID))), of))
    fault = fault.otherwise(F.lit("it begins with no id of a schema"))
    return F.struct(start.alias("start"), data.alias("data"), fault.alias("fault"))


def _fault(schema: WriterSchema, schemas: SubjectSchemas, data: Column) -> Column:
    if schema.fault is not None or schema.kind != schemas.kind:
        told = schema.fault or f"schema {schema.id} is {schema.kind}, and the one that it is read by {schemas.kind}"
        return F.lit(told)
    if schemas.kind == JSON:
        return F.when(~F.is_valid_utf8(data.cast("string")), F.lit("it is no UTF-8"))
    why = called(AVRO_BODIES, "fault", "string", [data, F.lit(_alone(schema.text))], takes_null=False)
    return F.concat(F.lit(f"it does not fit schema {schema.id}: "), why)


def _read(schemas: SubjectSchemas) -> Column:
    """Return a column with the body as the reader's schema has it: null where it has a fault or no usable schema."""
    data = F.when(F.col(_HELD)["fault"].isNull(), F.col(_HELD)["data"])
    if schemas.kind == JSON:
        return _read_json(schemas, data)
    usable = [each for each in schemas.writers if each.kind == schemas.kind and each.fault is None]
    options = {"mode": "PERMISSIVE", "avroSchema": _alone(schemas.reader)}
    return F.coalesce(*(F.when(_is_of(each), from_avro(data, _alone(each.text), options)["body"]) for each in usable))


def _alone(schema: str) -> str:
    """A record of the value alone, which has the same bytes: where Spark cannot read the value, it is null there."""
    return json.dumps(
        {"type": "record", "name": "JbmTypedBody", "fields": [{"name": "body", "type": json.loads(schema)}]}
    )


def _read_json(schemas: SubjectSchemas, data: Column) -> Column:
    try:
        struct = struct_of(schemas.reader)
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"the schema to read by: {error}") from None
    names = struct.names
    with_spoilt = StructType([*struct.fields]).add(_SPOILT, StringType())
    found = F.from_json(data.cast("string"), with_spoilt, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _SPOILT})
    value = F.struct(*(found[name].alias(name) for name in names))
    return F.when(found.isNotNull() & found[_SPOILT].isNull(), value)
