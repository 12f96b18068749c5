"""The format "jbm" in a declarative pipeline, which is a program of Spark Connect as well."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.house.sources import ROOT
from tests.spark.cluster import SPARK_HOME
from tests.spark.conftest import Topics
from tests.spark.records import Record

SPEC = """
name: packets
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
MARK = "<!-- not run: spark-pipelines runs it -->\n```python\n"


def program_of_the_page(topic: str, bootstrap: str) -> str:
    """With another queue and address."""
    page = (ROOT / "docs" / "spark-format.md").read_text(encoding="utf-8")
    program = page.partition(MARK)[2].partition("```")[0]
    assert program.count('"packets"') == program.count('"localhost:9092"') == 1
    return program.replace('"packets"', f'"{topic}"').replace('"localhost:9092"', f'"{bootstrap}"')


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_pages_pipeline_makes_its_view_of_a_queue(topics: Topics, tmp_path: Path) -> None:
    """SPARK-1"""
    queue = topics.create(2)
    topics.write(queue, [Record(key=b"joe" if number % 3 else b"ann", value=b"x") for number in range(30)])
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "packets.py").write_text(program_of_the_page(queue, topics.bootstrap))
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(SPARK_HOME / "bin" / "spark-pipelines"), "run", "--spec", str(tmp_path / "spark-pipeline.yml")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
                          timeout=800)  # fmt: skip
    assert done.returncode == 0, done.stdout
    rows = ds.dataset(tmp_path / "spark-warehouse" / "packets_by_unit", format="parquet").to_table().to_pylist()
    assert sorted((row["unit_of_order"], row["count"]) for row in rows) == [("ann", 10), ("joe", 20)]
