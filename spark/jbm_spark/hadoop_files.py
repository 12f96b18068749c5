"""Files where Spark's own are: on any file system that its session knows."""

from typing import Any

from pyspark.sql import SparkSession


class HadoopFiles:
    """The files of the file system on which a folder is."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files = self._path(folder).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def touch(self, path: str) -> None:
        """Make an empty file, and the folders above it."""
        self._files.create(self._path(path), True).close()

    def delete(self, path: str) -> None:
        """With all that is in it; nothing, if it is not there."""
        self._files.delete(self._path(path), True)
