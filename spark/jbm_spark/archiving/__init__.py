"""An archive of a queue or topic: a folder of Parquet files that any reader of such files reads alike (decision 63)."""

from jbm_spark.archiving.archive_reading import read_archive, read_archived_events
from jbm_spark.archiving.erasure import erase, erasures

__all__ = ["erase", "erasures", "read_archive", "read_archived_events"]
