"""`python app.py` and `jbm-kafka run app:worker` are one program at one cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from jbm_kafka import Message, Worker
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.configuration.conftest import Write

APP = """
from jbm_kafka import Worker

worker = Worker({own})

@worker.lifespan
def first(worker):
    print(worker.connection if worker.connection else worker._factory, flush=True)
    yield

@worker.handler("orders")
def ship(message): ...

worker.ask_to_end()

if __name__ == "__main__":
    raise SystemExit(worker.run())
"""
BY_PYTHON = ["app.py"]
BY_COMMAND = ["-m", "jbm_kafka", "run", "app:worker"]


def ran(*command: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("command", [BY_PYTHON, BY_COMMAND, [*BY_COMMAND[:-1], "ship"]])
def test_a_worker_without_an_address_goes_by_the_configuration(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Of CONF-1."""
    (folder / "app.py").write_text(APP.format(own=""))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}")
    write('bootstrap = "memory://file"\nworkers.ship.target = "app:worker"\n')
    assert ran(*command)[0] == "<ConnectionFactory memory://file>"
    monkeypatch.setenv("JBM_BOOTSTRAP", "memory://environment")
    assert ran(*command)[0] == "<ConnectionFactory memory://environment>"


def test_an_option_wins_over_the_environment(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "app.py").write_text(APP.format(own=""))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}")
    monkeypatch.setenv("JBM_BOOTSTRAP", "memory://environment")
    assert ran(*BY_COMMAND, "--bootstrap", "memory://option")[0] == "<ConnectionFactory memory://option>"
    file = write('bootstrap = "memory://file"\n', "etc/shop.toml")
    monkeypatch.delenv("JBM_BOOTSTRAP")
    assert ran(*BY_COMMAND, "--config", str(file))[0] == "<ConnectionFactory memory://file>"


def test_an_address_of_its_own_gives_way_to_the_commands_as_before_and_a_line_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "app.py").write_text(APP.format(own='"memory://own"'))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}")
    assert ran(*BY_COMMAND)[0] == "<ConnectionFactory memory://own>"
    monkeypatch.setenv("JBM_BOOTSTRAP", "memory://environment")
    assert ran(*BY_PYTHON) == ("<ConnectionFactory memory://own>", "")
    said, told = ran(*BY_COMMAND)
    assert said == "<ConnectionFactory memory://environment>"
    assert "JBM_BOOTSTRAP wins over the address that app:worker gives its Worker" in told
    assert "wins over" not in ran(*BY_COMMAND, "--bootstrap", "memory://option")[1]


def test_a_worker_is_tested_in_memory_by_the_rules_of_the_file(write: Write) -> None:
    write(
        'bootstrap = "nobody.invalid:9"\nlogin = {user = "joe", password = "x"}\n'
        "address_settings.orders.max_delivery_attempts = 1\n"
    )
    worker = Worker()

    @worker.handler("orders")
    def ship(message: Message) -> None:
        raise LookupError("no address")

    with MemoryWorld() as world:
        world.start(worker)
        world.send("orders", "2 books")
        world.drain()
        [(letter, _)] = world.dead_letters()
    assert letter.origin is not None
    assert (letter.origin.destination, letter.attempts) == ("queue:orders", 1)
