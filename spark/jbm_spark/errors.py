"""The errors that can come before or during a Spark job, each with the remedy in its message."""

from jbm_kafka.core.jms_errors import JMSError


class SparkJobError(JMSError):
    """A job could not be done. The message is one line that says why and what to do."""


class JarsError(SparkJobError):
    """The jars folder is not what jars.sha256 lists, or does not fit the installed PySpark."""


class PySparkMissingError(SparkJobError, ModuleNotFoundError):
    """A module that needs PySpark was imported, and PySpark is not installed."""


class SessionError(SparkJobError):
    """No Spark session could be started in this process."""


class OptionRefusedError(SparkJobError, ValueError):
    """A Kafka source option that would break order or safety, or that means nothing here."""


class FrameRefusedError(SparkJobError, ValueError):
    """A frame whose columns are no messages to write, or that has no order to write them in."""


class WriteError(SparkJobError):
    """Spark failed while it wrote: a row that is no message, or Kafka. Some rows may be written."""


class CheckpointError(SparkJobError):
    """The checkpoint of a query is in use by another one, or its folder cannot be written."""


class QueryError(SparkJobError):
    """A running query failed. Started again with its checkpoint it goes on where it was."""


class ArchiveError(SparkJobError):
    """An archive cannot be read or gone on with, or messages that it should have are gone."""


class TopicError(SparkJobError):
    """No broker answers."""


class RegistryError(SparkJobError):
    """A schema registry does not answer, or has no schema to read bodies by."""


class ColumnsIgnoredWarning(UserWarning):
    """A frame to write has columns that no message has."""
