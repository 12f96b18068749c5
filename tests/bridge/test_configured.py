"""Bridges as the configuration's file says them, and the command that runs them."""

from __future__ import annotations

import os
import platform
import signal
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.bridge import Bridge, BridgeEnd, Guarantee
from jbm_kafka.cli.main import main
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

SOON_S = 10.0
FILE = """
cluster = "here"
connection.client_id = "of programs"
[clusters.here]
bootstrap = "{here}"
[clusters.there]
bootstrap = "{there}"
[clusters.server]
bootstrap = "amqp://127.0.0.1:5672"
login = {{user = "joe", password = "secret"}}
[bridges.away]
source = {{destination = "in"}}
target = {{cluster = "there", destination = "out"}}
[bridges.home]
source = {{cluster = "there", destination = "back"}}
target = {{destination = "home", namespace = "other"}}
reply_to = {{answers = "topic:answers", gone = ""}}
[bridges.to-server]
source = {{destination = "in"}}
target = {{cluster = "server", destination = "orders", address = "/queue/o:x", duplicate_property = "_AMQ_DUPL_ID"}}
"""


@pytest.fixture
def file(tmp_path: Path, world: MemoryWorld, elsewhere: MemoryWorld) -> Path:
    path = tmp_path / "jbm-kafka.toml"
    path.write_text(FILE.format(here=world.url, there=elsewhere.url))
    path.chmod(0o600)
    return path


def test_ends_are_clusters_of_the_file(file: Path, world: MemoryWorld, elsewhere: MemoryWorld) -> None:
    """Of BRIDGE-2 and BRIDGE-3."""
    away, home, server = (Bridge.from_config(name, file) for name in ("away", "home", "to-server"))
    assert f"from <BridgeEnd queue:in at {world.url}> to <BridgeEnd queue:out at {elsewhere.url}>" in repr(away)
    assert f"to <BridgeEnd queue:home at {world.url} (other)>" in repr(home)
    assert "to <BridgeEnd queue:orders at amqp://127.0.0.1:5672>" in repr(server)
    assert server._spec.target.address == "/queue/o:x"
    assert {away.guarantee, home.guarantee, server.guarantee} == {Guarantee.EXACTLY_ONCE}


def test_a_name_that_is_not_there_is_told_with_those_that_are(file: Path) -> None:
    with pytest.raises(
        InvalidSettingError, match=r"bridge 'hom': known are away, home, to-server; did you mean 'home'"
    ):
        Bridge.from_config("hom", file)


def test_config_check_tells_what_cannot_be(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CONF-4."""
    assert main(["config", "check", str(file)]) == 0
    capsys.readouterr()
    text = file.read_text()
    text = text.replace('namespace = "other"}', 'namespace = "other"}\nrate = "often"')
    text = text.replace(', duplicate_property = "_AMQ_DUPL_ID"}', '}\nguarantee = "exactly-once"')
    text += '[bridges.round]\nsource.destination = "a"\ntarget = {destination = "queue:a", namespace = "b"}\n'
    text += '[bridges.nowhere]\nsource.destination = "a b"\ntarget = {destination = "c", cluster = "ther"}\n'
    file.write_text(text)
    assert main(["config", "check", str(file)]) == 3
    lines = [line.replace(f"{file}, ", "") for line in capsys.readouterr().out.splitlines()]
    beginnings = [
        "bridges.home.rate: rate is 'often': it is a count",
        "bridges.to-server.guarantee: guarantee is 'exactly-once': an AMQP server has no transaction",
        "bridges.round: bridge round: source and target are queue:a at memory://",
        "bridges.nowhere.source: queue 'a b': ",
    ]
    assert len(lines) == len(beginnings)
    for line, beginning in zip(lines, beginnings, strict=True):
        assert line.startswith(beginning)


def test_a_store_beside_the_programs_of_the_file_is_not_the_bridges(
    file: Path, tmp_path: Path, world: MemoryWorld, elsewhere: MemoryWorld
) -> None:
    """BRIDGE-8: it sent into the store, which knows no partitions, and so nothing went on."""
    store = tmp_path / "store"
    with ConnectionFactory(world.url, store_and_forward=store).create_context() as here:
        file.write_text(f"connection.store_and_forward = '{store}'\n{file.read_text()}")
        bridge = Bridge.from_config("away", file)
        here.create_producer().send(Queue("in"), "stored")
        bridge.start()
        try:
            with elsewhere.factory().create_context() as there:
                message = there.create_consumer(Queue("out")).receive(SOON_S)
            assert message is not None, bridge.health()
        finally:
            bridge.stop()
    with pytest.raises(InvalidSettingError, match="what a bridge cannot send waits at its source"):
        BridgeEnd(world.url, "in", store_and_forward=store)


def test_the_command_runs_all_until_it_is_asked_to_end(
    file: Path, world: MemoryWorld, elsewhere: MemoryWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of BRIDGE-8: with metrics and probes."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
    found: list[str] = []

    def use() -> None:
        try:
            with world.factory().create_context() as here, elsewhere.factory().create_context() as there:
                here.create_producer().send(Queue("in"), "away")
                there.create_producer().send(Queue("back"), "home")
                message = there.create_consumer(Queue("out")).receive(SOON_S)
                with world.factory(namespace="other").create_context() as other:
                    at_home = other.create_consumer(Queue("home")).receive(SOON_S)
                found.extend(each.body for each in (message, at_home) if each is not None)
            counted = 'jbm_bridge_messages_total{bridge="away"} 1.0'
            metrics = wait_until(lambda: _with(counted, _got(port, "metrics")), about=counted, timeout_s=SOON_S)
            found.extend((_got(port, "readyz"), metrics))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=use)
    thread.start()
    code = main(["bridge", str(file), "--only", "away", "--only", "home", "--metrics-port", str(port)])
    thread.join()
    assert code == 0
    assert found[:2] == ["away", "home"]
    assert found[2].strip() == "ok"
    assert 'jbm_bridge_goes_on{bridge="home"} 1.0' in found[3]


def test_an_operator_has_the_process_end_in_order_and_what_comes_then_waits(file: Path, world: MemoryWorld) -> None:
    """Of BRIDGE-8: by `jbm-kafka drain`; in a program that has only started the bridge it is refused."""
    me = f"{platform.node()}/{os.getpid()}"
    codes: list[int] = []

    def use() -> None:
        try:
            with world.factory().create_context() as here:
                here.create_producer().send(Queue("in"), "before")
                wait_until(lambda: not list(here.create_browser(Queue("in"))), about="it went", timeout_s=SOON_S)
                codes.append(main(["drain", me, "--bootstrap", world.url]))
        finally:
            if codes != [0]:
                os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=use)
    thread.start()
    assert main(["bridge", str(file), "--only", "away"]) == 0
    thread.join()
    assert codes == [0]
    bridge = Bridge.from_config("away", file)
    bridge.start()
    try:
        wait_until(lambda: bridge.trouble is None, about="it runs", timeout_s=SOON_S)
        assert main(["drain", me, "--bootstrap", world.url]) == 1
    finally:
        bridge.stop()


def test_without_bridges_the_command_says_what_to_write(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bridge", str(file), "--only", "hom"]) == 2
    assert "--only 'hom': known are away, home, to-server; did you mean 'home'?" in capsys.readouterr().err
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert main(["bridge", str(empty)]) == 2
    assert "empty.toml: no [bridges.NAME], which has source and target" in capsys.readouterr().err


def _with(wanted: str, text: str) -> str | None:
    return text if wanted in text else None


def _got(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=SOON_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
