"""`jbm-kafka sidecar`: its file, its users, its end."""

from __future__ import annotations

import io
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from proton import Message
from proton.utils import BlockingConnection, ConnectionClosed

from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.devbroker.ports import free_port
from tests.cli.conftest import Run
from tests.support.secured import make_certificates
from tests.support.waiting import wait_until

TIMEOUT_S = 30
EVERYBODY = '[users.anonymous]\nsend = ["#"]\nreceive = ["#"]\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "sidecar.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o640)  # it may have secrets, and everybody may read it is a warning
    return file


@contextmanager
def started(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that serves; it was said where."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jbm_kafka", "sidecar", "run", str(file)], stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def probe(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_serves_until_asked_to_end_and_waits_for_what_clients_have(tmp_path: Path) -> None:
    """AMQP-12."""
    amqp, metrics, console = free_port(), free_port(), free_port()
    file = written(
        tmp_path,
        f'bootstrap = "memory://{secrets.token_hex(4)}"\namqp.metrics_port = {metrics}\n'
        f"amqp.backlog_metrics = true\namqp.console_port = {console}\n{EVERYBODY}"
        f'[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{amqp}"\n',
    )
    with started(file) as process:
        assert process.stderr is not None
        while "serves AMQP" not in (line := process.stderr.readline()):
            assert line, process.wait()
        client: Any = BlockingConnection(f"127.0.0.1:{amqp}", timeout=TIMEOUT_S)
        client.create_sender("orders").send(Message(body="one"))
        receiver = client.create_receiver("orders", credit=1)
        receiver.receive(timeout=TIMEOUT_S)
        assert probe(metrics, "/readyz") == (200, "ok\n")
        assert 'jbm_messages_sent_total{destination="orders"} 1.0' in probe(metrics, "/metrics")[1]
        held = 'jbm_backlog_held{destination="orders",subscription=""} 1.0'
        wait_until(lambda: held in probe(metrics, "/metrics")[1], about="a look at all queues", timeout_s=TIMEOUT_S)
        shown = '"source":{"name":"orders"'
        wait_until(lambda: shown in probe(console, "/api/v1/")[1], about="the console's look", timeout_s=TIMEOUT_S)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: probe(metrics, "/readyz")[0] == 503, about="it is not ready any more", timeout_s=TIMEOUT_S)
        assert probe(metrics, "/healthz")[0] == 200
        receiver.accept()
        with suppress(ConnectionClosed):  # it may already have heard that nothing is left to wait for
            receiver.close()
        assert process.wait(TIMEOUT_S) == 0


def test_its_console_asks_who_somebody_is_by_the_same_file(tmp_path: Path) -> None:
    amqp, console = free_port(), free_port()
    file = written(
        tmp_path,
        f'bootstrap = "memory://{secrets.token_hex(4)}"\namqp.console_port = {console}\n{EVERYBODY}'
        f'[console.tokens.ci]\nsha256 = "{sha256(b"s3cret").hexdigest()}"\nlook = ["#"]\n'
        f'[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{amqp}"\n',
    )
    with started(file) as process:
        assert process.stderr is not None
        while "serves the console" not in (line := process.stderr.readline()):
            assert line, process.wait()
        assert probe(console, "/api/v1/")[0] == 401
        by_token = Request(
            f"http://127.0.0.1:{console}/api/v1/transactions", headers={"Authorization": "Bearer s3cret"}
        )
        with urlopen(by_token, timeout=TIMEOUT_S) as answer:
            assert answer.status == 200


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    amqp = free_port()
    file = written(
        tmp_path,
        f'bootstrap = "memory://{secrets.token_hex(4)}"\namqp.drain_s = 3600\n{EVERYBODY}'
        f'[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{amqp}"\n',
    )
    with started(file) as process:
        assert process.stderr is not None
        while "serves AMQP" not in (line := process.stderr.readline()):
            assert line, process.wait()
        client: Any = BlockingConnection(f"127.0.0.1:{amqp}", timeout=TIMEOUT_S)
        client.create_sender("orders").send(Message(body="one"))
        client.create_receiver("orders", credit=1).receive(timeout=TIMEOUT_S)
        process.send_signal(signal.SIGTERM)
        while "asked to end" not in (line := process.stderr.readline()):
            assert line, process.wait()
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == -signal.SIGTERM


SIGNALLED = """
import signal, socket, sys, threading
from jbm_kafka.cli.main import main

def signal_here():
    while socket.socket().connect_ex(("127.0.0.1", int(sys.argv[2]))):
        continue
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=signal_here, daemon=True).start()
sys.exit(main(["sidecar", "run", sys.argv[1]]))
"""


def test_it_ends_also_when_another_thread_takes_the_signal(tmp_path: Path) -> None:
    """The handler runs in the main thread, which slept on."""
    port = free_port()
    world = f'bootstrap = "memory://{secrets.token_hex(4)}"\n'
    file = written(tmp_path, f'{world}{EVERYBODY}[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{port}"\n')
    done = subprocess.run([sys.executable, "-c", SIGNALLED, file, str(port)], check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0


def test_a_limit_of_open_files_that_is_too_small_for_its_clients_is_named_at_the_start(tmp_path: Path) -> None:
    amqp = free_port()
    file = written(
        tmp_path,
        f'bootstrap = "memory://{secrets.token_hex(4)}"\n{EVERYBODY}[amqp.limits]\nconnections = 10000000\n'
        f'[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{amqp}"\n',
    )
    lines = list[str]()
    with started(file) as process:
        assert process.stderr is not None
        while not lines or "serves AMQP" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], process.wait()
    (told,) = [line for line in lines if "files open" in line]
    assert "its 10000000 clients and a queue may take 10000140: raise the limit (ulimit -n 10000140" in told


def test_a_user_is_printed_as_lines_for_the_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    said = run("sidecar", "user", "the shop")
    assert said.code == 0
    assert "secret" not in said.out
    users = read_sidecar_file(written(tmp_path, said.out)).server.access.users
    assert users["the shop"].verifier is not None
    assert users["the shop"].verifier.fits("secret")
    assert users["the shop"].rights["send"] == ["#"]


def test_a_whole_file_is_understood(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certificates")
    read = read_sidecar_file(
        written(
            tmp_path,
            f"""
            bootstrap = "kafka.example.com:9093"
            namespace = "shop"
            state_dir = "state"
            memory_budget_bytes = 33554432
            drain_s = 5
            metrics_port = 9000
            plain_without_tls = true
            counts_released = true
            large_bodies = "file:{tmp_path}/bodies"
            large_body_bytes = 100000
            kafka.security.protocol = "SSL"
            users.carol.browse = ["orders.#"]
            limits.idle_timeout_s = 30
            limits.frame_bytes = 4096
            [[listeners]]
            url = "amqp://[::1]"
            [[listeners]]
            url = "amqps://0.0.0.0:5679"
            certificate = "{certificates.server}"
            client_ca = "certificates/authority.crt"
            [amqp.aliases]
            "/queues/orders" = "orders"
            "a:b" = "topic:prices"
            [address_settings."orders.#"]
            max_delivery_attempts = 3
            dead_letter_address = ""
            """,
        )
    )
    assert [(each.host, each.port, each.tls is not None) for each in read.server.listeners] == [
        ("::1", 5672, False),
        ("0.0.0.0", 5679, True),
    ]
    server = read.server
    assert (server.limits.idle_timeout_s, server.limits.frame_bytes, server.drain_s) == (30, 4096, 5)
    assert (server.counts_released, read.metrics_port) == (True, 9000)
    assert server.aliases == {"/queues/orders": Queue("orders"), "a:b": Topic("prices")}
    assert server.large_bodies is not None
    assert (repr(server.large_bodies), server.large_bodies.limit_bytes) == (f"file:{tmp_path}/bodies", 100_000)
    assert server.access.mechanisms(is_encrypted=True, certificate_user="carol") == ["EXTERNAL"]
    server.access.authorise("carol", "browse", Queue("orders.new"))
    config = read.factory._installation.config
    assert config.namespace == "shop"
    assert config.address_settings == {"orders.#": AddressSettings(max_delivery_attempts=3, dead_letter_address=None)}
    assert read.factory._installation.state_dir == str(tmp_path / "state")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bootstrap = 7", "bootstrap is 7: it is a text"),
        ("boostrap = 'x:1'", "boostrap: there is no such setting"),
        ("bootstrap = 'x'", "bootstrap is 'x'"),
        ("x", "it is not TOML"),
        ("", "users: there are none"),
        ("users.joe.password = 'secret'", "users.joe.password is"),
        ("users.joe.send = '#'", "users.joe.send is '#'"),
        ("users.joe.send = ['orders#']", "users.joe.send[0]: address pattern 'orders#'"),
        ("users.joe.write = ['#']", "users.joe.write: there is no such setting"),
        ("amqp.limits.connections = 'many'", "limits.connections is 'many'"),
        ("amqp.limits.idle_timeout_s = 0", "limits.idle_timeout_s is 0"),
        ("amqp.limits.links = 1", "limits: links: there is no such limit"),
        ("amqp.limits = 1", "limits is an int: it is a table; write [amqp.limits]"),
        ("amqp.drain_s = -1", "drain_s is -1"),
        ("users.anonymous.forward = ['#']", "users.anonymous.forward is ['#']"),
        ("amqp.forwarding = {advertised = 'x:1', user = 'x'}", "forwarding.password is missing"),
        ("amqp.forwarding = {advertised = 'x', user = 'x', password = 'y'}", "forwarding.advertised is 'x'"),
        ("amqp.metrics_port = 70000", "metrics_port is 70000"),
        ("amqp.aliases = {orders = 'bills'}", "amqp.aliases.\"orders\" is 'bills': it is for an address that no queue"),
        ("amqp.aliases = {'/orders' = 'a b'}", "amqp.aliases.\"/orders\" is 'a b': queue 'a b': "),
        ("amqp.listeners = []", "listeners is []"),
        ("amqp.listeners = [1]", "listeners[0] is an int: it is a table; write [[amqp.listeners]]"),
        ("amqp.listeners = [{url = 'http://x'}]", "listeners[0].url is 'http://x'"),
        ("amqp.listeners = [{url = 'amqp://x:99999'}]", "listeners[0].url is 'amqp://x:99999'"),
        ("amqp.listeners = [{url = 'amqps://x'}]", "listeners[0].url is 'amqps://x'"),
        ("amqp.listeners = [{url = 'amqps://x', certificate = 'none.pem'}]", "listeners[0].certificate is 'none.pem'"),
        ("amqp.listeners = [{url = 'amqps://x', certificate = 'sidecar.toml'}]", "listeners[0].certificate is"),
        ("amqp.listeners = [{url = 'amqp://x', key = 'none.pem'}]", "listeners[0].key is 'none.pem'"),
        ("address_settings.orders.max_delivery_attempts = 'x'", "address_settings.orders: max_delivery_attempts is"),
        ("address_settings.orders.colour = 'x'", "address_settings.orders: 'colour' is not"),
        ("connection.memory_budget_bytes = 1", "memory_budget_bytes is 1"),
        ("kafka.acks = 1", "acks cannot be set"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(run: Run, tmp_path: Path, text: str, told: str) -> None:
    users = "" if "users" in text or not text else "users.anonymous.send = ['#']\n"
    file = written(tmp_path, users + text)
    said = run("sidecar", "run", str(file))
    assert said.code == 1
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"{file}" in said.err
    assert told in said.err


def test_a_missing_extra_is_told_in_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(("proton", "jbm_kafka.amqp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "proton", None)
    said = run("sidecar", "run", str(written(tmp_path, f'bootstrap = "memory://{secrets.token_hex(4)}"\n{EVERYBODY}')))
    assert said.code == 1
    assert "pip install 'jbm-kafka[amqp]'" in said.err
    assert said.err.count("\n") == 1


def test_what_its_console_cannot_be_is_told_before_any_client_comes_in(run: Run, tmp_path: Path) -> None:
    """It served AMQP first, and ended with all who had come in, again at each start."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f'bootstrap = "memory://{secrets.token_hex(4)}"\n{EVERYBODY}'
        text += f'[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{port}"\n[amqp]\nconsole_port = 0\n'
        said = run("sidecar", "run", str(written(tmp_path, f'{text}[console]\ncertificate = "sidecar.toml"\n')))
    assert said.code == 1
    assert "console.certificate is " in said.err
    assert said.err.endswith("it has no certificate in PEM form; name a file that has one\n")
    assert said.err.count("\n") == 1


def test_a_port_in_use_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        world = f'bootstrap = "memory://{secrets.token_hex(4)}"\n'
        said = run(
            "sidecar", "run",
            str(written(tmp_path, f'{world}{EVERYBODY}[[amqp.listeners]]\nurl = "amqp://127.0.0.1:{port}"\n')),
        )  # fmt: skip
    assert said.code == 1
    assert f"127.0.0.1:{port} cannot be had" in said.err
    assert said.err.count("\n") == 1
