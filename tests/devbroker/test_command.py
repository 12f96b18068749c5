"""`jbm-kafka broker ...`: exit codes, one line for each failure, and nothing imported that it does not need."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.cli.main import COMMANDS, DONE, FAILED, WRONG_USAGE, describe, main
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


def test_a_stop_without_the_data_dir_lists_the_brokers_that_run(
    dedicated_broker: Callable[[], LocalBroker],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    broker = dedicated_broker()
    monkeypatch.setenv("JBM_HOME", str(tmp_path))
    none = f"no broker of {tmp_path / 'broker'} is running; "
    assert main(["broker", "stop"]) == FAILED
    told = capsys.readouterr().err
    assert told.startswith(f"jbm-kafka: {none}name the one to stop: --data-dir ")
    assert f"--data-dir {broker.data_dir} ({broker.bootstrap})" in told
    assert main(["broker", "status"]) == FAILED
    first, *others = capsys.readouterr().err.splitlines()
    assert first == f"jbm-kafka: stopped: {none}start one with: jbm-kafka broker start"
    assert f"another runs at {broker.bootstrap}: --data-dir {broker.data_dir}" in others
    assert broker.is_running


def test_commands_that_find_no_broker_name_those_that_run(
    dedicated_broker: Callable[[], LocalBroker],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """One with a data folder of its own was not found, and another one was to be started."""
    broker = dedicated_broker()
    monkeypatch.setenv("JBM_HOME", str(tmp_path))
    monkeypatch.delenv("JBM_BOOTSTRAP", raising=False)
    monkeypatch.setattr("jbm_kafka.cli.cluster_options.FALLBACK_BOOTSTRAP", "127.0.0.1:1")
    assert main(["list", "--config", ""]) == FAILED
    told = capsys.readouterr().err
    first = "start a local one with `jbm-kafka broker start`, "
    assert told.startswith(f"jbm-kafka: no Kafka answers at 127.0.0.1:1; {first}")
    assert " of this machine, with data elsewhere, run" in told, "somebody else's was the first that was advised"
    assert broker.bootstrap in told


def test_a_broker_is_not_restarted_by_starting_it(capsys: pytest.CaptureFixture[str]) -> None:
    """It said that 'start' was meant, which leaves one that runs alone."""
    assert main(["broker", "restart"]) == WRONG_USAGE
    assert capsys.readouterr().err.endswith("that is: jbm-kafka broker stop && jbm-kafka broker start\n")
    assert main(["broker", "start", "--data-dir", ""]) == WRONG_USAGE
    assert capsys.readouterr().err.endswith("'--data-dir': name a folder, or leave it out for the usual one\n")


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
    "arguments", [[], ["nosuch"], ["broker", "start", "--port", "x"], ["broker", "start", "--port", "80"], ["--nosuch"]]
)
def test_wrong_usage_is_told_apart(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == WRONG_USAGE
    said = capsys.readouterr().err
    assert said.startswith("jbm-kafka" if arguments else "Usage: jbm-kafka ")
    assert (said.count("\n") == 1) is bool(arguments), "help alone has several lines"


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
