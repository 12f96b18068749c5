"""The rows of files as messages of a queue."""

from jbm_spark.jobs.load.loading import Loaded, run

__all__ = ["Loaded", "run"]
