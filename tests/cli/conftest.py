"""Commands run in this process, on the tests' broker."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from jbm_kafka.cli.main import main
from tests.support.topics import delete_topics_beginning_with


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their config file would name another cluster."""
    monkeypatch.setenv("JBM_CONFIG", os.devnull)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command; fails when it shows a traceback."""

    def command(*arguments: str) -> Said:
        code = main(list(arguments))
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return Said(code, printed.out, printed.err)

    return command


@pytest.fixture
def kafka(run: Run, bootstrap: str) -> Run:
    """Runs one command on the tests' broker."""
    return lambda *arguments: run(*arguments, "--bootstrap", bootstrap)


@pytest.fixture
def queue(bootstrap: str, kafka_name: str, kafka: Run) -> Iterator[str]:
    """A queue of this test, of two partitions."""
    assert kafka("create", kafka_name, "--partitions", "2").code == 0
    yield kafka_name
    delete_topics_beginning_with(bootstrap, kafka_name)
