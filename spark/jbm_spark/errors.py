"""What can go wrong before or during a Spark job, each with the remedy in its message."""


class SparkJobError(Exception):
    """A job could not be done. The message is one line that says why and what to do."""


class JarsError(SparkJobError):
    """The jars folder is not what jars.sha256 lists, or does not fit the installed PySpark."""


class SessionError(SparkJobError):
    """No Spark session could be started in this process."""


class OptionRefusedError(SparkJobError, ValueError):
    """A Kafka source option that would break order or safety, or that means nothing here."""


class TopicError(SparkJobError):
    """The broker does not answer, or a topic to read does not exist."""
