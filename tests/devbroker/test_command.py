"""`jbm-kafka broker ...`: exit codes, one line for each failure, and nothing imported that it does not need."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.cli.main import COMMANDS, DONE, FAILED, describe, main
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.devbroker import LocalBroker


def test_start_status_and_stop_tell_programs_and_people_the_same(
    dedicated_broker: Callable[[], LocalBroker], capsys: pytest.CaptureFixture[str]
) -> None:
    broker = dedicated_broker()
    where = ["--data-dir", str(broker.data_dir)]
    assert main(["broker", "start", *where]) == DONE
    told = capsys.readouterr()
    assert f"Kafka running already at {broker.bootstrap}" in told.out
    assert told.err.endswith(f"; for programs: export JBM_BOOTSTRAP={broker.bootstrap}\n"), "all pages say 9092"
    assert main(["broker", "start", *where, "--port", broker.bootstrap.rpartition(":")[2]]) == DONE
    assert capsys.readouterr().err == ""
    assert main(["broker", "status", *where, "--json"]) == DONE
    status = json.loads(capsys.readouterr().out)
    assert (status["running"], status["answering"], status["bootstrap"]) == (True, True, broker.bootstrap)
    assert main(["broker", "stop", *where]) == DONE
    assert capsys.readouterr().out == "Kafka stopped\n"
    assert main(["broker", "stop", *where, "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["stopped"] is False


def test_a_data_folder_that_cannot_be_made_is_told_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said `Not a directory` and the path."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "broker"
    assert main(["broker", "start", "--data-dir", str(folder)]) == FAILED
    assert capsys.readouterr().err == (
        f"jbm-kafka: the data folder {folder} cannot be made (Not a directory); choose another one\n"
    )


def test_the_status_of_no_broker_is_a_failure_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", "status", "--data-dir", str(tmp_path)]) == FAILED
    said = capsys.readouterr().err
    remedy = f"jbm-kafka broker start --data-dir {tmp_path}"
    assert said == f"jbm-kafka: stopped: no broker of {tmp_path} is running; start one with: {remedy}\n"
    assert main(["broker", "status", "--data-dir", str(tmp_path), "--json"]) == FAILED
    assert json.loads(capsys.readouterr().out)["running"] is False


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (IllegalStateError("the session is closed"), "the session is closed"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "No such file or directory: a.txt"),
        (TimeoutError("it took too long"), "it took too long"),
        (KafkaException(KafkaError(KafkaError._TRANSPORT, "broker down")), "Kafka says: broker down"),
        (click.ClickException("bad file"), "bad file"),
        (KeyError("x"), "a bug: KeyError: 'x' (JBM_TRACEBACK=1 shows where)"),
    ],
)
def test_every_error_becomes_one_line(error: Exception, line: str) -> None:
    assert describe(error) == line


def test_every_listed_command_exists_and_helps(capsys: pytest.CaptureFixture[str]) -> None:
    for name, entry in COMMANDS.items():
        assert entry.load().name == name
        assert main([name, "--help"]) == DONE
    assert main(["--help"]) == DONE
    listed = capsys.readouterr().out
    assert all(name in listed for name, entry in COMMANDS.items() if not entry.is_hidden)


def test_the_broker_command_loads_neither_stores_nor_spark() -> None:
    script = "import sys, jbm_kafka.cli.broker_command, jbm_kafka.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "click" in loaded
    assert not {"rocksdict", "pyspark", "fastavro"} & set(loaded)


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = f"{sys.executable} -m jbm_kafka.cli.main --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
