"""The format as Spark asks for a data source. Light to import: Spark imports it in each session that uses any Python
source."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Format "jbm": the messages of a queue or topic."""

    @classmethod
    def name(cls) -> str:
        return "jbm"

    def schema(self) -> StructType:
        """The columns of `messages`."""
        from pyspark_jbm.message_batches import SCHEMA

        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises OptionRefusedError, InvalidDestinationError or TopicError."""
        from pyspark_jbm.format_options import read_options
        from pyspark_jbm.message_readers import MessageReader

        return MessageReader(read_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Raises as `reader`."""
        from pyspark_jbm.format_options import read_options
        from pyspark_jbm.message_readers import MessageStreamReader

        return MessageStreamReader(read_options(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raises OptionRefusedError, FrameRefusedError, InvalidDestinationError, OrderError or TopicError."""
        from pyspark_jbm.format_options import write_options
        from pyspark_jbm.message_writers import MessageWriter

        return MessageWriter(write_options(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Raises as `writer`."""
        from pyspark_jbm.format_options import write_options
        from pyspark_jbm.message_writers import MessageStreamWriter

        return MessageStreamWriter(write_options(self.options, overwrite=overwrite), schema)
