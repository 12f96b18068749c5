"""The producer's settings of a frame that Java writes, plainly or once. No Spark is started."""

import pytest

from jbm_spark.errors import OptionRefusedError
from jbm_spark.java_writer import plain_settings, transactional_settings
from jbm_spark.record_transaction import BatchTarget
from jbm_spark.sink_options import all_sink_options, checked_sink_options


def test_options_count_in_any_case_as_with_spark_s_own_sink() -> None:
    """Compression in another case was left out in silence, and a record that needs it was refused by the brokers."""
    options = checked_sink_options({"kafka.Compression.Type": "gzip", "KAFKA.linger.ms": "5"})
    settings = plain_settings({**options, "topic": "t"}, max_message_bytes=50_000)
    assert settings == {"compression.type": "gzip", "linger.ms": "5", "batch.size": "50000"}


def test_a_size_that_is_no_number_is_refused_in_a_line() -> None:
    """It was a ValueError of Python's int()."""
    with pytest.raises(OptionRefusedError, match=r"^option kafka.batch.size=64k: it is a number of bytes$"):
        plain_settings({"kafka.batch.size": "64k"}, max_message_bytes=50_000)


def test_a_message_that_the_topic_takes_has_room_in_the_client_s_memory() -> None:
    """SPARK-3: it is 32 MB by default, and for a larger message there never was room; more that a user gives stays."""

    def memory(**options: str) -> str:
        given = checked_sink_options(options)
        return all_sink_options(given, bootstrap="b:1", topic="t", max_message_bytes=40_000_000)["kafka.buffer.memory"]

    assert memory() == "80000000"
    assert memory(**{"kafka.Buffer.Memory": "99000000"}) == "99000000"


def test_a_writer_of_each_once_has_the_memory_that_an_option_gives_its_client() -> None:
    """SPARK-3: the option was left out in silence; less than a message that the topic takes it may not be."""

    def memory(**options: str) -> str:
        target = BatchTarget("b:1", {}, "", "t", 5_000_000, "query", 0)
        return transactional_settings(checked_sink_options(options), target)[1]["buffer.memory"]

    assert memory() == "16777216"
    assert memory(**{"kafka.buffer.memory": "99000000"}) == "99000000"
    assert memory(**{"kafka.buffer.memory": "1"}) == "10000000"
