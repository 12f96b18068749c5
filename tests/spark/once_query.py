"""A query from queue to queue in a process of its own, at default settings: `BOOTSTRAP SOURCE QUEUE CHECKPOINT`."""

import sys

from jbm_spark.messages import message_stream, wait_until_done, write_stream
from jbm_spark.session import build_session


def main(bootstrap: str, source: str, queue: str, checkpoint: str) -> None:
    """Until all is written that was there at the start."""
    spark = build_session("once", starts_fast=True)
    frame = message_stream(spark, source, bootstrap=bootstrap).drop("message_id")
    wait_until_done(write_stream(frame, queue, bootstrap=bootstrap, checkpoint=checkpoint))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
