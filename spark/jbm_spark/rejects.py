"""Keeps the rows that are no messages, each with its reason, as JSON: `FOLDER/job=<job>/batch=<number>/*.json`.

The folder of a batch is written anew when the batch is repeated. So each row is there once, and none is there that was
written after its query was mended.
"""

import logging
from urllib.parse import quote

from pyspark.sql import DataFrame

from jbm_spark.hadoop_files import HadoopFiles

log = logging.getLogger(__name__)


def save_rejects(rejected: DataFrame, folder: str, *, job: str, batch: int) -> None:
    """`rejected` has the columns reason and row, is computed twice, and may be empty. Returns when they are kept."""
    place = f"{folder}/job={quote(job, safe='')}/batch={batch}"
    count = rejected.count()
    if not count:
        HadoopFiles(rejected.sparkSession, folder).delete(place)
        return
    rejected.write.mode("overwrite").json(place)
    log.warning("%d rows are no messages and were not written: see %s", count, place)
