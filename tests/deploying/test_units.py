"""docker/units: systemd reads them without a complaint, they are confined, and their commands are commands."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jbm_kafka.configuration.models import AmqpTable
from jbm_kafka.worker.message_worker import Worker
from tests.house.sources import ROOT

UNITS = ROOT / "docker" / "units"
NAMES = ("jbm-kafka-console", "jbm-kafka-exporter", "jbm-kafka-sidecar", "jbm-kafka-worker@")
COMMON = UNITS / "jbm-kafka-.service.d" / "10-all.conf"
PROGRAM = "/opt/jbm-kafka/bin/jbm-kafka"


def read(path: Path) -> configparser.ConfigParser:
    """Of a unit whose keys stand there once."""
    told = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    told.optionxform = str  # type: ignore[assignment, method-assign]
    told.read_string(path.read_text())
    return told


def complaints(folder: Path) -> str:
    """Returns what systemd says of the units of a folder; none of them is started."""
    files = [str(path) for path in sorted(folder.glob("*.service"))]
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr if done.returncode == 0 or done.stderr else f"exit code {done.returncode}"


def test_these_are_all() -> None:
    assert sorted(path.stem for path in UNITS.glob("*.service")) == sorted(NAMES)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd; the others still look")
def test_systemd_complains_of_nothing(tmp_path: Path) -> None:
    """The program is another, for ours is not installed there."""
    shutil.copytree(UNITS, tmp_path / "units")
    for path in (tmp_path / "units").glob("*.service"):
        path.write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    (tmp_path / "units" / "jbm-kafka-worker@.service").rename(tmp_path / "units" / "jbm-kafka-worker@shipping.service")
    assert complaints(tmp_path / "units") == ""
    common = tmp_path / "units" / "jbm-kafka-.service.d" / COMMON.name
    common.write_text(common.read_text().replace("ProtectSystem=strict", "ProtectSystem=stricter"))
    assert "stricter" in complaints(tmp_path / "units")


def test_they_are_confined() -> None:
    """Where systemd is not, too: each key stands there, once."""
    keys = re.findall(r"^(\w+)=", COMMON.read_text(), re.MULTILINE)
    assert len(keys) == len(set(keys))
    service = read(COMMON)["Service"]
    assert (service["DynamicUser"], service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("yes", "strict", "")
    assert service["Type"] == "exec"
    for name in NAMES:
        own = read(UNITS / f"{name}.service")["Service"]
        assert own.keys() & service.keys() <= {"Environment", "EnvironmentFile"}, (
            "what holds for all stands in one place"
        )
        assert own["StateDirectory"].startswith("jbm-kafka/")


def test_systemd_waits_longer_than_any_drain() -> None:
    waits_s = int(read(COMMON)["Service"]["TimeoutStopSec"])
    assert AmqpTable().drain_s is None  # its default is the server's
    assert waits_s > Worker("memory://units").drain_s + 10


@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_one(name: str) -> None:
    from click.testing import CliRunner

    from jbm_kafka.cli.main import cli

    program, *words = read(UNITS / f"{name}.service")["Service"]["ExecStart"].split()
    assert program == PROGRAM
    done = CliRunner().invoke(cli, [*(word.replace("%i", "shipping") for word in words), "--help"])
    assert done.exit_code == 0, done.output
