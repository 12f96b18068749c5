"""What an archive holds, as DataFrames."""

import os

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import DataFrame, SparkSession
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_spark.archiving.archive_event_rows import EVENTS_SCHEMA, event_rows
from jbm_spark.archiving.archive_files import read_rows
from jbm_spark.archiving.archive_folder import EVENTS, MESSAGES, archive_path
from jbm_spark.archiving.archive_rows import MESSAGES_SCHEMA, message_rows
from jbm_spark.archiving.archive_tables import archived_table
from jbm_spark.call_checks import check_session


def read_archive(spark: SparkSession, folder: str | os.PathLike[str]) -> DataFrame:
    """Every archived message, with the columns of `messages`, so that whatever takes those takes these.

    Of a queue that was made anew there are the messages of both; the column `topic_id` of the files tells them apart.

    Raises:
        ArchiveError: it is no archive, or batches of it are missing.
        SessionError: `spark` is no session, or one that was stopped.
    """
    return message_rows(archived_messages(spark, folder))


def read_archived_events(spark: SparkSession, folder: str | os.PathLike[str]) -> DataFrame:
    """What became of the archived messages, as far as it was archived, with the columns of `events`.

    Raises:
        ArchiveError, SessionError: as `read_archive`.
    """
    return event_rows(_rows(spark, folder, EVENTS, EVENTS_SCHEMA))


def archived_messages(spark: SparkSession, folder: str | os.PathLike[str]) -> DataFrame:
    """The rows as they stand in the files; raises as `read_archive`."""
    return _rows(spark, folder, MESSAGES, MESSAGES_SCHEMA)


def _rows(spark: SparkSession, folder: str | os.PathLike[str], name: str, schema: str) -> DataFrame:
    check_session(spark)
    data = archived_table(archive_path(folder), name)
    return read_rows(spark, data.files(), schema, base=data.path)
