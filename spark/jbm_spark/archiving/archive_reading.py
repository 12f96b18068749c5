"""What an archive holds, as DataFrames."""

import os

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import DataFrame, SparkSession
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_spark.archiving.archive_files import read_rows
from jbm_spark.archiving.archive_folder import MESSAGES, archive_path, read_identity
from jbm_spark.archiving.archive_rows import MESSAGES_SCHEMA, message_rows
from jbm_spark.archiving.data_folder import DataFolder
from jbm_spark.call_checks import check_session


def read_archive(spark: SparkSession, folder: str | os.PathLike[str]) -> DataFrame:
    """Every archived message, with the columns of `messages`, so that whatever takes those takes these.

    Of a queue that was made anew there are the messages of both; the column `topic_id` of the files tells them apart.

    Raises:
        ArchiveError: it is no archive, or batches of it are missing.
        SessionError: `spark` is no session, or one that was stopped.
    """
    return message_rows(archived_messages(spark, folder))


def archived_messages(spark: SparkSession, folder: str | os.PathLike[str]) -> DataFrame:
    """The rows as they stand in the files; raises as `read_archive`."""
    check_session(spark)
    path = archive_path(folder)
    read_identity(path)
    data = DataFolder(path, MESSAGES)
    data.manifests()
    return read_rows(spark, data.path, MESSAGES_SCHEMA)
