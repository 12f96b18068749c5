"""What to install, told in one line where PySpark is missing. Needs no PySpark, and imports nothing of it."""

from jbm_spark.errors import PySparkMissingError

INSTALL_HINT = "pip install 'jbm-kafka[spark]'"


def pyspark_missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """What to raise instead; the same error when something else is missing."""
    if error.name is None or error.name.partition(".")[0] != "pyspark":
        return error
    missing = PySparkMissingError(f"PySpark is not installed: {INSTALL_HINT}")
    missing.name = "pyspark"
    return missing
