"""The one-line error that says what to install where PySpark is missing. Imports nothing of PySpark."""

from jbm_kafka.pyspark_hint import install_hint
from jbm_spark.errors import PySparkMissingError


def pyspark_missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return what to raise instead; the same error when something else is missing."""
    if error.name is None or error.name.partition(".")[0] != "pyspark":
        return error
    missing = PySparkMissingError(f"PySpark is not installed: {install_hint()}")
    missing.name = "pyspark"
    return missing
