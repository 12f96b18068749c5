"""Avro values in single-object encoding as Spark expressions: what `jbm_kafka.codec.schemas` reads, in the JVM."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from jbm_kafka.codec.schemas import schemas_by_start

_BYTES_MAX = 2**31 - 1


def decoded(value: Column, name: str) -> Column:
    """The value of a record as today's schema has it, whichever of its schemas wrote it.

    Null, or a struct of nulls, where the bytes are damaged or a newer version's: no value ends a query.
    """
    known = schemas_by_start(name)
    [*_, today] = known.values()
    start, data = F.substring(value, 1, 10), F.substring(value, 11, _BYTES_MAX)
    read = {
        begin: from_avro(data, schema, {"mode": "PERMISSIVE", "avroSchema": today}) for begin, schema in known.items()
    }
    return F.coalesce(*(F.when(start == F.lit(begin), column) for begin, column in read.items()))
