"""Calls of `jbm_spark` that are given no cluster take that of the configuration."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_spark.changelog import held
from jbm_spark.cluster_in_use import ClusterInUse, cluster_in_use
from jbm_spark.errors import OptionRefusedError
from jbm_spark.letters import letters
from jbm_spark.messages import messages, write_messages
from pyspark_jbm.format_options import read_options, write_options
from tests.spark.conftest import Topics
from tests.spark.records import Record


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "jbm-kafka.toml"
    monkeypatch.setenv("JBM_CONFIG", str(path))
    return path


def test_arguments_win_and_read_no_file(file: Path) -> None:
    """Of CONF-1 and CONF-6."""
    assert cluster_in_use("a:1", "", None) == ClusterInUse("a:1", "", None)  # the file is not there
    file.write_text('bootstrap = "b:1"\nnamespace = "of-file"\nkafka.client.id = "of-file"\n')
    assert cluster_in_use(None, "", None) == ClusterInUse("b:1", "of-file", {"client.id": "of-file"})
    mine = {"client.id": "mine"}
    assert cluster_in_use(None, "shop", mine) == ClusterInUse("b:1", "shop", mine)


def test_messages_are_read_and_written_where_the_file_says(spark: SparkSession, topics: Topics, file: Path) -> None:
    """Of CONF-1."""
    topic = topics.create()
    topics.write(topic, [Record(value=b"one")])
    file.write_text(f'bootstrap = "{topics.bootstrap}"\n')
    assert [bytes(row.body_bytes) for row in messages(spark, topic).collect()] == [b"one"]
    write_messages(spark.createDataFrame([("two",)], "body_text string"), topic)
    assert messages(spark, topic).count() == 2
    assert letters(spark, topic).count() == 2
    assert held(spark, topic).count() == 2


def test_the_format_takes_what_the_file_says_where_no_option_names_a_cluster(file: Path) -> None:
    """Of CONF-1 and CONF-6. It said that the option bootstrap was missing."""
    given = {"destination": "orders", "kafka.client.id": "mine", "namespace": "shop"}
    named = read_options({**given, "bootstrap": "a:1"})  # the file is not there
    assert (named.bootstrap, named.namespace, named.kafka) == ("a:1", "shop", {"client.id": "mine"})
    file.write_text('bootstrap = "b:1"\nnamespace = "of-file"\n[kafka]\nlinger.ms = 5\nclient.id = "of-file"\n')
    found = read_options(given)
    assert (found.bootstrap, found.namespace) == ("b:1", "shop")
    assert {name: str(value) for name, value in found.kafka.items()} == {"linger.ms": "5", "client.id": "mine"}
    assert write_options({"destination": "orders"}, overwrite=False).namespace == "of-file"
    with pytest.raises(OptionRefusedError, match="option bootstrap is missing"):
        read_options({**given, "bootstrap": ""})
