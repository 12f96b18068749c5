"""Files where Spark's own are: on any file system that its session knows."""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from jbm_spark.causes import cause_line


class HadoopFiles:
    """The files of the file system on which a folder is."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        self._text = jvm.org.apache.commons.io.IOUtils
        self._path = jvm.org.apache.hadoop.fs.Path
        self._files = self._path(folder).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def touch(self, path: str) -> None:
        """Make an empty file, and the folders above it."""
        self._files.create(self._path(path), True).close()

    def read(self, path: str) -> str:
        stream = self._files.open(self._path(path))
        try:
            return str(self._text.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        stream = self._files.create(self._path(path), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def delete(self, path: str) -> None:
        """With all that is in it; nothing, if it is not there."""
        self._files.delete(self._path(path), True)


class HadoopNote:
    """One small file; its errors are OSErrors."""

    def __init__(self, files: HadoopFiles, path: str) -> None:
        self._files = files
        self._place = path

    def read(self) -> str | None:
        """None: it is not there."""
        try:
            return self._files.read(self._place) if self._files.exists(self._place) else None
        except Py4JError as error:
            raise OSError(cause_line(error)) from None

    def write(self, text: str) -> None:
        """Returns when it is there, in place of an earlier one."""
        try:
            self._files.write(self._place, text)
        except Py4JError as error:
            raise OSError(cause_line(error)) from None
