"""docs/amqp.md: its files are read, and its Python program does what it says."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from jbm_kafka.cli.cluster_settings import SettingsFault
from jbm_kafka.cli.sidecar_command import _server
from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.configuration.models import AmqpTable
from jbm_kafka.devbroker.ports import free_port
from tests.house.sources import ROOT
from tests.support.secured import make_certificates

PAGE = (ROOT / "docs" / "amqp.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_file_serves_the_programs(tmp_path: Path, number: int) -> None:
    port = str(free_port())
    file = tmp_path / "sidecar.toml"
    text = blocks("toml")[0].replace("localhost:9092", f"memory://{secrets.token_hex(4)}")
    file.write_text(text.replace("5672", port), encoding="utf-8")
    said = read_sidecar_file(file)
    program = blocks("python")[number].replace("5672", port)
    with _server(said):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == blocks("text")[number]


def test_all_of_its_files_together_are_one(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    for name, source in (
        ("server.key", "localhost.key"),
        ("server.pem", "localhost.crt"),
        ("clients.pem", "authority.crt"),
        ("ca.pem", "authority.crt"),
    ):
        (tmp_path / name).write_bytes((made.authority.parent / source).read_bytes())
    file = tmp_path / "sidecar.toml"
    file.write_text("\n".join(blocks("toml")), encoding="utf-8")
    said = read_sidecar_file(file)
    assert sorted(said.server.access.users) == ["anonymous", "billing", "shop", "sidecars"]
    assert said.server.forwarding is not None
    assert said.server.access.is_sidecar(said.server.forwarding.user)
    assert [each.tls is not None for each in said.server.listeners] == [False, True]


def test_it_names_every_setting() -> None:
    assert [name for name in AmqpTable.model_fields if f"`{name}`" not in PAGE and f"[amqp.{name}]" not in PAGE] == []


def test_a_user_and_an_address_have_half_of_the_connections_unless_the_file_says_more(tmp_path: Path) -> None:
    """Of AMQP-10."""
    file = tmp_path / "sidecar.toml"
    said = 'bootstrap = "memory://limits"\n[users.anonymous]\ncreate = []\n'
    said += "[amqp.limits]\nconnections = 9\nconnections_per_user = 7\n"
    file.write_text(said, encoding="utf-8")
    server = read_sidecar_file(file).server
    assert (server.limits.connections_per_user, server.limits.connections_per_address) == (7, 4)
    assert server.access.users["anonymous"].rights == {"create": []}
    file.write_text(said.replace("7", "0"), encoding="utf-8")
    with pytest.raises(SettingsFault, match=r"amqp\.limits\.connections_per_user is 0"):
        read_sidecar_file(file)
