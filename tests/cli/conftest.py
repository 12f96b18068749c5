"""Commands run in this process, on a world in memory that a test has for itself."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from jbm_kafka.cli.main import main
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import World, use_world


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
        assert "a bug:" not in printed.err
        return Said(code, printed.out, printed.err)

    return command


@pytest.fixture
def world(kafka_name: str) -> Iterator[World]:
    """A Kafka in memory, in place of a broker; it is gone with the test."""
    world = use_world(kafka_name)
    yield world
    world.let_go()


@pytest.fixture
def url(world: World) -> str:
    return f"memory://{world.name}"


@pytest.fixture
def cli(run: Run, url: str) -> Run:
    """Runs one command there."""
    return lambda *arguments: run(*arguments, "--bootstrap", url)


@pytest.fixture
def queue(kafka_name: str, cli: Run) -> str:
    """A queue there, of two partitions."""
    assert cli("create", kafka_name, "--partitions", "2").code == 0
    return kafka_name


def write(world: World, *records: Outgoing) -> None:
    """What another program writes there, as Kafka's own client would."""
    sender = MemoryKafka(world.cluster).sender()
    for record in records:
        sender.send(record, None)
    assert sender.flush(20)
    sender.close(20)
