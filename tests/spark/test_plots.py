"""The plots of docs/spark-events.md show what their queries counted."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jbm_spark import plots
from jbm_spark.errors import SparkJobError

pytestmark = pytest.mark.thorough


def test_each_plot_shows_the_rows_of_its_query(spark: SparkSession) -> None:
    axes: Any
    hours = spark.createDataFrame([(datetime(2026, 1, 1, hour), 5.0 + hour, 50.0) for hour in range(3)],  # noqa: DTZ001
                                  "hour timestamp, p50_ms double, p99_ms double")  # fmt: skip
    [axes] = plots.latency(hours).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[50.0, 50.0, 50.0], [5.0, 6.0, 7.0]]
    rows = [("joe", "delayed", 5), ("ann", "ready", 3)]
    units = spark.createDataFrame(rows, "unit_of_order string, head string, waiting int")
    [axes] = plots.waiting_units(units).axes
    assert [bar.get_width() for bar in axes.patches] == [5, 3]
    assert len({bar.get_facecolor() for bar in axes.patches}) == 2
    counts = spark.createDataFrame([(1, 1.0), (4, 0.5)], "partitions int, busiest_share double")
    [axes] = plots.busiest_partition(counts).axes
    assert [bar.get_height() for bar in axes.patches] == [1.0, 0.5]
    assert list(axes.lines[0].get_ydata()) == [1.0, 0.25]
    outcomes = spark.createDataFrame([("done", 5), ("missing", 1)], "outcome string, orders int")
    [axes] = plots.reconciliation(outcomes).axes
    assert [text.get_text() for text in axes.texts] == ["5", "1"]
    with pytest.raises(SparkJobError, match="the plot needs a column hour; there are outcome, orders"):
        plots.latency(outcomes)
