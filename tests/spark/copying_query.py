"""A query from queue to queue in a process of its own, which a test may kill: `BOOTSTRAP SOURCE QUEUE CHECKPOINT`."""

import sys

from jbm_spark.messages import message_stream, write_stream
from jbm_spark.session import build_session

BATCH = {"maxOffsetsPerTrigger": "60"}


def main(bootstrap: str, source: str, queue: str, checkpoint: str) -> None:
    """Runs until it is killed."""
    spark = build_session("copying", starts_fast=True)
    frame = message_stream(spark, source, bootstrap=bootstrap, options=BATCH).drop("message_id")
    trigger = {"processingTime": "0 seconds"}
    write_stream(frame, queue, bootstrap=bootstrap, checkpoint=checkpoint, trigger=trigger).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
