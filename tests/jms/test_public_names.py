"""What `jbm_kafka` exports is there, and is loaded only when asked for."""

import subprocess
import sys

import pytest

import jbm_kafka


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(jbm_kafka, name) is not None for name in jbm_kafka.__all__)
    with pytest.raises(AttributeError, match="'NoSuchName'"):
        _ = jbm_kafka.NoSuchName  # type: ignore[attr-defined]


def test_the_codec_of_a_spark_job_loads_neither_rocksdb_nor_a_kafka_client() -> None:
    script = "import sys, jbm_kafka.codec.dead_letter; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rocksdict", "confluent_kafka"} & set(loaded)
