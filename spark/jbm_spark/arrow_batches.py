"""A function of ours over Arrow's batches, some three times as fast as row by row.

The executors of a Connect server have Python and our package, and perhaps no pyarrow: nothing is sent there from here.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def faults(fault: Callable[[str | None, bytes | None], str | None], kind: Column, value: Column) -> Column:
    """Return what `fault` says of each body that is asked about, whose kind is not null."""

    def of_bodies(kinds: pa.Array, values: pa.Array) -> pa.Array:
        if kinds.null_count == len(kinds):  # as nearly always
            return pa.nulls(len(kinds), pa.string())
        return pa.array(map(fault, kinds.to_pylist(), values.to_pylist()), pa.string())

    found: Column = F.arrow_udf(of_bodies, "string")(kind, value)  # type: ignore[attr-defined]  # not in the stubs
    return found
