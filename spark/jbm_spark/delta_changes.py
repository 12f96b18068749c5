"""The change feed of a Delta table as a stream of messages: one for each row that was inserted, updated or deleted.

The package `deltalake` reads it, in Spark's Python workers; no jar of Delta's has to fit the version of Spark. A place
in the stream is a version of the table, and a version never changes: so a batch that is repeated has the same rows.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
    from pyspark.sql.types import LongType, StringType, StructType, TimestampType
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.wrong_values import shown, wrong_value
from jbm_spark.call_checks import check_session, refuse_connect_session
from jbm_spark.errors import OptionRefusedError, QueryError

CHANGE_ORDER = "change_order"
"""The column to order a unit's messages by: by commits; within one, what was deleted first and inserted last."""
_FORMAT = "jbm_delta_changes"
_TYPE, _VERSION, _TIME = "_change_type", "_commit_version", "_commit_timestamp"
_KINDS = {"delete": "delete", "update_postimage": "update", "insert": "insert"}
"""Delta's word -> ours, in their order within a commit. A row before its update is no message."""
_ENABLED = "delta.enableChangeDataFeed"


def delta_changes(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    unit: str | None = None,
    starting: int = 0,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A stream for `write_stream`, with `order_by=CHANGE_ORDER`: a message for each change that the table's feed has.

    `body_text` is the row as a JSON object: after an insert or update, before a delete. The properties are `change`
    (`insert`, `update` or `delete`), `commit_version` and `commit_timestamp` (milliseconds since 1970).

    Args:
        unit: the column whose value is the unit of order, such as the table's key; None: no units, and no order.
        starting: the first version whose changes are sent by a query without a checkpoint.
        storage_options: those of `deltalake`; executors must reach the table, too.

    Raises:
        OptionRefusedError: no such table, it has no feed from that version on, or no such column.
        SessionError: `spark` is no session, was stopped, or is Spark Connect's.
    """
    check_session(spark)
    refuse_connect_session(spark, "delta_changes()")
    if isinstance(starting, bool) or not isinstance(starting, int) or starting < 0:
        raise wrong_value("starting", starting, "it is a version of the table, 0 or more")
    place = str(os.fspath(table))
    options = {"table": place if "://" in place else str(Path(place).absolute()), "starting": str(starting),
               "storage": json.dumps(dict(storage_options or {})),
               "tasks": str(spark.sparkContext.defaultParallelism)}  # fmt: skip
    names = _checked(options, starting).names
    if unit is not None and unit not in names:
        raise OptionRefusedError(f"unit is {shown(unit)}: the table {place} has the columns {', '.join(names)}")
    spark.dataSource.register(DeltaChangesSource)
    changes = spark.readStream.format(_FORMAT).options(**options).load()
    rank = F.array_position(F.array(*map(F.lit, _KINDS)), F.col(_TYPE))
    change = F.element_at(F.create_map(*(F.lit(each) for pair in _KINDS.items() for each in pair)), F.col(_TYPE))
    row = F.struct(*(F.col(_quoted(name)) for name in names))
    key = [] if unit is None else [F.col(_quoted(unit)).cast("string").alias("unit_of_order")]
    properties = F.struct(change.alias("change"), F.col(_VERSION).alias("commit_version"),
                          F.unix_millis(_TIME).alias("commit_timestamp"))  # fmt: skip
    return changes.where(F.col(_TYPE).isin(*_KINDS)).select(
        F.to_json(row, {"ignoreNullFields": "false"}).alias("body_text"),
        *key,
        properties.alias("properties"),
        F.struct(F.col(_VERSION), rank).alias(CHANGE_ORDER),
    )


class DeltaChangesSource(DataSource):
    """The feed as Spark asks for a data source: the table's columns, and Delta's three about the change."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def schema(self) -> StructType:
        fields = _schema(_table(self.options)).fields
        return StructType([*fields]).add(_TYPE, StringType()).add(_VERSION, LongType()).add(_TIME, TimestampType())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _ChangeReader(self.options, schema)


class _Versions(InputPartition):
    """Versions of the table, the end left out."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end


class _ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A place is the next version, with the table's id."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = dict(options)
        self._schema = schema
        self._target: int | None = None
        """Where a run that ends by itself ends."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"table": _table(self._options).metadata().id, "version": int(self._options["starting"])}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = _table(self._options).version() + 1

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Raises QueryError: the table was made anew."""
        there = self._same(start).version() + 1
        end = there if self._target is None else self._target
        return {**start, "version": max(end, start["version"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """As many runs of versions as there are tasks at once."""
        self._same(start)
        begin, left = start["version"], end["version"] - start["version"]
        tasks = max(1, min(left, int(self._options["tasks"])))
        return [_Versions(begin + left * at // tasks, begin + left * (at + 1) // tasks) for at in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raises QueryError: the changes of a version are gone, or the table's columns are others."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, _Versions), partition
        if partition.begin >= partition.end:
            return
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        try:
            found = _table(self._options).load_cdf(partition.begin, partition.end - 1)
            batches = pa.RecordBatchReader.from_stream(found)
            if more := sorted({*batches.schema.names} - {*wanted.names}):
                raise ValueError(f"it has the column {more[0]}, too")
            for batch in batches:
                yield batch.select(wanted.names).cast(wanted)
        except Exception as error:  # Delta's, Arrow's
            raise QueryError(
                f"versions {partition.begin} to {partition.end - 1} of {self._options['table']} cannot be read as they "
                f"were when the query was made: {failure_text(error)}; where its columns are others, start the query "
                "again; where they are gone, begin with a new checkpoint and starting=VERSION"
            ) from None

    def _same(self, start: Mapping[str, Any]) -> Any:
        table = _table(self._options)
        if table.metadata().id != start["table"]:
            raise QueryError(f"the table {self._options['table']} was made anew: begin with a new checkpoint")
        return table

    def commit(self, end: dict[str, Any]) -> None:
        """Reading changes nothing."""

    def stop(self) -> None:
        """Nothing is held."""


def _checked(options: Mapping[str, str], starting: int) -> StructType:
    """The table's columns, if it has a feed from the version on."""
    try:
        table = _table(options)
        enabled = table.metadata().configuration.get(_ENABLED) == "true"
        if enabled and starting <= table.version():
            table.load_cdf(starting, starting)
    except ModuleNotFoundError as error:
        raise OptionRefusedError(f"a Delta table needs {error.name}: pip install deltalake pyarrow") from None
    except Exception as error:
        raise OptionRefusedError(
            f"table {options['table']} from version {starting} on: {failure_text(error)}; name a table, and with "
            f"starting= a version since which {_ENABLED} is set"
        ) from None
    if not enabled:
        raise OptionRefusedError(
            f"table {options['table']} keeps no changes: set its property {_ENABLED} to true, and give starting= the "
            "version after"
        )
    return _schema(table)


def _table(options: Mapping[str, str]) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(options["table"], storage_options=json.loads(options["storage"]) or None)


def _schema(table: Any) -> StructType:
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
