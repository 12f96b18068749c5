"""A query from queue to queue that goes on until it is killed, and notes what Spark counts of each batch.

Its arguments are `BOOTSTRAP SOURCE QUEUE CHECKPOINT PROGRESS`; the last is a file of lines `BATCH ROWS`.
"""

import os
import sys

from pyspark.sql.streaming.listener import StreamingQueryProgress

from jbm_spark.messages import message_stream, write_stream
from jbm_spark.session import build_session


def main(bootstrap: str, source: str, queue: str, checkpoint: str, progress: str) -> None:
    """Exactly once, a batch a second."""
    told = os.open(progress, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(batch: StreamingQueryProgress) -> None:
        os.write(told, b"%d %d\n" % (batch.batchId, batch.observedMetrics["jbm"].rows))

    spark = build_session("counted", starts_fast=True)
    frame = message_stream(spark, source, bootstrap=bootstrap).drop("message_id")
    query = write_stream(frame, queue, bootstrap=bootstrap, checkpoint=checkpoint,
                         trigger={"processingTime": "1 second"}, on_progress=note)  # fmt: skip
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
