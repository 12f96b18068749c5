"""Functions of ours over Arrow's batches, some three times as fast as row by row.

The executors of a Connect server have Python and our package, and perhaps no pyarrow: nothing is sent there from here.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.murmur2 import partition_for


def partitions(key: Column, partition_count: int) -> Column:
    """The partition of each key, 0 of null; each key of a batch is hashed once."""

    def of_keys(keys: pa.Array) -> pa.Array:
        found = keys.dictionary_encode()
        known = [partition_for(each, partition_count) for each in found.dictionary.to_pylist()]
        return pa.array(known, pa.int32()).take(found.indices).fill_null(0)

    return _over(of_keys, "int", key)


def faults(fault: Callable[[str | None, bytes | None], str | None], kind: Column, value: Column) -> Column:
    """What `fault` says of each body that is asked about, whose kind is not null."""

    def of_bodies(kinds: pa.Array, values: pa.Array) -> pa.Array:
        if kinds.null_count == len(kinds):  # as nearly always
            return pa.nulls(len(kinds), pa.string())
        return pa.array(map(fault, kinds.to_pylist(), values.to_pylist()), pa.string())

    return _over(of_bodies, "string", kind, value)


def _over(function: Callable[..., pa.Array], result: str, *columns: Column) -> Column:
    found: Column = F.arrow_udf(function, result)(*columns)  # type: ignore[attr-defined]  # not in PySpark's stubs
    return found
