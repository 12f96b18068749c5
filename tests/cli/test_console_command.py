"""`jbm-kafka console`: what a file says of it, and what it serves of a Kafka before, while and after that is away."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.cli.cluster_options import ClusterUsageError, Configured
from jbm_kafka.cli.cluster_settings import SettingsFault
from jbm_kafka.cli.console_command import console
from jbm_kafka.cli.console_file import ConsoleFile, console_of
from jbm_kafka.devbroker import LocalBroker
from tests.metrics.test_server import get
from tests.support.secured import make_certificates
from tests.support.waiting import wait_until

PATIENCE_S = 120.0
PASSWORD = (
    "SCRAM-SHA-256$8192:i9cgd+6V7cHyeXxwFGyWgg==$uvz0MOyKFUpXhBWODaE0KuPnbOmJmRpzOmX0AUEL+ZI=:"
    "kWQ3ZzWzHcKUQhBtEmLVbIDvoCnzC3PBf/k84kvBHVg="
)
ANN = f'[users.ann]\npassword = "{PASSWORD}"\nlook = ["#"]\noperate = ["orders.#"]\n'


def read(folder: Path, text: str, listen: str | None = None) -> ConsoleFile:
    path = folder / "console.toml"
    path.write_text('bootstrap = "localhost:9092"\n' + text)
    configured = Configured(str(path), {})
    return console_of(configured.loaded, configured.cluster(), listen)


def test_a_file_says_who_may_and_where(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 40)
    shutil.copy(make_certificates(tmp_path / "certificates").server, tmp_path / "c.pem")
    said = read(
        tmp_path,
        '[console]\nlisten = "0.0.0.0:9"\ncertificate = "c.pem"\nread_only = true\nhosts = ["c.example"]\n'
        'secret_file = "secret"\n[console.proxy]\nheader = "X-User"\nnetworks = ["10.0.0.0/8", "::1"]\n'
        + ANN
        + '[users.shop]\nsend = ["#"]\n',
    )
    assert list(said.settings.users) == ["ann"], "a user of AMQP alone is none of the console"
    assert (said.settings.read_only, said.settings.hosts, said.settings.secret) == (True, ["c.example"], b"x" * 40)
    assert said.settings.proxy is not None
    assert [str(each) for each in said.settings.proxy.networks] == ["10.0.0.0/8", "::1/128"]
    assert (said.address.host, said.address.port, said.address.certificate) == (
        "0.0.0.0",
        9,
        str(tmp_path / "c.pem"),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[console]\nlisten = "0.0.0.0:9"', "without users it listens on 127.0.0.1 alone"),
        ('[console]\nlisten = "0.0.0.0:9"\n' + ANN, "passwords would go unencrypted"),
        ('[console]\nlisten = "9"', "HOST:PORT"),
        ("[console]\nlisen = 1", "console.lisen"),
        ("[console]\nread_only = 7", "console.read_only"),
        ("[consol]\n", "did you mean 'console'?"),
        ('[console.tokens.ci]\nsha256 = "secret"', "console.tokens.ci.sha256"),
        ('[console.tokens.ci]\nsha256 = "' + "0" * 64 + '"\nlook = ["a b"]', "console.tokens.ci.look[0]"),
        ('[console.proxy]\nheader = "X-User"\nnetworks = ["all"]', "console.proxy.networks[0]"),
        ('[console.proxy]\nheader = "X-User"\nnetworks = []', "console.proxy.networks"),
        ('[console]\nsecret_file = "missing"', "console.secret_file"),
        ('[console]\nsecret_file = "a\\u0000b"', "console.secret_file"),
        (f'[console]\ncertificate = "{"c" * 5_000}"', "File name too long; name a PEM file that can be read"),
        ('[users.ann]\nlook = "#"', "users.ann.look"),
        ('[users.ann]\npassword = "hush"\nlook = ["#"]', "users.ann.password"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_value(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises((SettingsFault, ClusterUsageError)) as error:
        read(tmp_path, text)
    assert told in str(error.value)
    assert "hush" not in str(error.value)
    assert "\n" not in str(error.value)


def test_an_option_wins_over_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, '[console]\nlisten = "127.0.0.1:9"', "127.0.0.1:8").address.port == 8
    with pytest.raises(SettingsFault):
        read(tmp_path, "", "0.0.0.0:8")


def test_a_token_is_printed_with_the_lines_that_let_it_in(tmp_path: Path) -> None:
    told = CliRunner().invoke(console, ["--new-token", "ci.main"])
    assert told.exit_code == 0
    found = re.search(r"this once: (\S+)", told.stderr)
    assert found is not None
    token = read(tmp_path, told.stdout).settings.tokens["ci.main"]
    assert token.sha256 == hashlib.sha256(found[1].encode()).digest()
    assert found[1] not in told.stdout


@pytest.mark.thorough
def test_it_serves_what_queues_hold_and_goes_on_after_kafka_was_away(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    broker = dedicated_broker()
    command = [sys.executable, "-m", "jbm_kafka", "console", broker.bootstrap, "--listen", "127.0.0.1:0"]
    factory = ConnectionFactory(broker.bootstrap)
    with factory.create_sender() as sender, subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while (found := re.search(r"at http://127.0.0.1:(\d+)/", line := process.stderr.readline())) is None:
                assert line, process.wait()
            port = int(found.group(1))

            def held() -> dict[str, Any]:
                rows = json.loads(get(port, "/api/v1/")[1])["rows"]
                return {row["source"]["name"]: row["held"] for row in rows}

            for count in (1, 2):
                sender.send(Queue("orders"), "x")
                wait_until(lambda count=count: held().get("orders") == count, about="a look", timeout_s=PATIENCE_S)  # type: ignore[misc]
            assert "Kafka:" not in get(port, "/")[1]
            broker.pause()
            try:
                wait_until(lambda: "Kafka:" in get(port, "/")[1], about="it says so", timeout_s=PATIENCE_S)
                assert held()["orders"] == 2, "it tells what it knew"
            finally:
                broker.resume()
            sender.send(Queue("orders"), "x")
            wait_until(lambda: held().get("orders") == 3, about="a look after the outage", timeout_s=PATIENCE_S)
            assert "Kafka:" not in get(port, "/")[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
