"""Writes a large batch of a stream in slices, and remembers which of them Kafka has.

A queue delivers messages of one `duplicate_id` once, as long as it remembers the id: each partition has the latest
10,000. A batch that is repeated after a crash may have many more, and its first ids would be forgotten before they come
again. So a batch is cut into slices that are smaller than that, which follow each other in the order of the units; and
each leaves a mark in the checkpoint's folder, by which it is not repeated.

A mark is an empty file whose name tells the batch, the slice and a digest of its rows: it is there or not on every file
system, and rows that are others than at the first time are written.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.hadoop_files import HadoopFiles

FOLDER = "jbm-slices"


def slice_rows(duplicate_window: int) -> int:
    """How many rows for one partition a slice has. Half of what is remembered: others send meanwhile."""
    return max(duplicate_window // 2, 1)


def rows_by_id(placed: DataFrame) -> int:
    """The most rows with a duplicate id that one partition gets."""
    counted = placed.groupBy("partition").agg(F.count("out_duplicate").alias("rows"))
    return int(counted.agg(F.max("rows")).head()[0] or 0)  # type: ignore[index]


def write_slices(
    placed: DataFrame,
    save: Callable[[DataFrame], None],
    *,
    rows: int,
    order: Sequence[Column],
    checkpoint: str,
    batch: int,
) -> None:
    """Calls `save` with each slice that has no mark yet. `order` is that of a partition's rows; those that have it in
    common are in one slice."""
    rank = F.rank().over(Window.partitionBy("partition").orderBy(*order))
    cut = placed.withColumn("out_slice", F.floor((rank - 1) / rows)).persist()
    try:
        digest = F.bit_xor(F.xxhash64("partition", "out_id"))
        slices = cut.groupBy("out_slice").agg(F.count("*").alias("count"), digest.alias("digest")).sort("out_slice")
        marks = _Marks(placed, checkpoint, batch)
        is_repeated = True
        for each in slices.collect():
            mark = f"{each.out_slice}-of-{rows}-rows-{each['count']}-{each.digest}"
            is_repeated = is_repeated and marks.has(mark)
            if not is_repeated:
                # Spark may have sorted anew for the ranks, and by less.
                slice_ = cut.where(F.col("out_slice") == each.out_slice)
                save(slice_.sortWithinPartitions(*order, "out_row"))
                marks.add(mark)
    finally:
        cut.unpersist()


class _Marks:
    """The marks of one batch; those of earlier ones are removed."""

    def __init__(self, frame: DataFrame, checkpoint: str, batch: int) -> None:
        self._files = HadoopFiles(frame.sparkSession, checkpoint)
        root = f"{checkpoint}/{FOLDER}"
        self._folder = f"{root}/{batch}"
        if not self._files.exists(self._folder):
            self._files.delete(root)

    def has(self, name: str) -> bool:
        return self._files.exists(f"{self._folder}/{name}")

    def add(self, name: str) -> None:
        self._files.touch(f"{self._folder}/{name}")
