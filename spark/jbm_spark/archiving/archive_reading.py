"""The contents of an archive, as DataFrames."""

import os
from collections.abc import Collection

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_spark.archiving.archive_event_rows import EVENTS_SCHEMA, event_rows
from jbm_spark.archiving.archive_files import read_rows
from jbm_spark.archiving.archive_folder import DESTINATION, EVENTS, MESSAGES, archive_path, read_identity
from jbm_spark.archiving.archive_rows import MESSAGES_SCHEMA, message_rows
from jbm_spark.archiving.archive_tables import archived_table
from jbm_spark.call_checks import check_session
from jbm_spark.raw_columns import shown


def read_archive(spark: SparkSession, folder: str | os.PathLike[str], *, raw: bool = False) -> DataFrame:
    """Every archived message, with the columns of `messages`, so that whatever takes those takes these.

    Of a queue that was made anew there are the messages of both; the column `topic_id` tells them apart. It, `day` and,
    of an archive of many queues, `destination` are not shown by `*`, and can be named: a condition on the latter two
    reads the files of these days and queues alone.

    Raises:
        ArchiveError: it is no archive, or batches of it are missing.
        SessionError: `spark` is no session, or one that was stopped.
    """
    rows = archived_messages(spark, folder)
    more = [name for name in ("topic_id", "day", DESTINATION) if name in rows.columns]
    return shown(message_rows(rows, *more), *more, raw=raw)


def read_archived_events(spark: SparkSession, folder: str | os.PathLike[str]) -> DataFrame:
    """Return what became of the archived messages, as far as it was archived, with the columns of `events`.

    Raises:
        ArchiveError, SessionError: as `read_archive`.
    """
    return event_rows(_rows(spark, folder, EVENTS, EVENTS_SCHEMA))


def archived_messages(
    spark: SparkSession, folder: str | os.PathLike[str], queues: Collection[str] | None = None
) -> DataFrame:
    """The rows as they stand in the files; raises as `read_archive`.

    `queues`: of an archive of many the names of those whose files are read; None: of all.
    """
    return _rows(spark, folder, MESSAGES, MESSAGES_SCHEMA, queues)


def _rows(
    spark: SparkSession, folder: str | os.PathLike[str], name: str, schema: str, queues: Collection[str] | None = None
) -> DataFrame:
    check_session(spark)
    path = archive_path(folder)
    data = archived_table(path, name)
    rows = read_rows(spark, data.files(), schema, base=data.path)
    if queues is None or not read_identity(path).is_of_many or DESTINATION not in rows.columns:
        return rows
    return rows.where(F.col(DESTINATION).isin(*(f"queue:{each}" for each in queues)))
