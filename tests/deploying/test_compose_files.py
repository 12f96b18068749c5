"""The compose files of docker/: by compose's own schema, and what they start reads what they give it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.configuration.loaded import load
from tests.deploying.composed import filled, words_of
from tests.house.sources import ROOT

DOCKER = ROOT / "docker"
FILES = sorted(DOCKER.glob("*compose.yaml"), key=lambda path: path.name)
SCHEMA = ROOT / "build" / "compose" / "compose" / "config" / "compose_spec.json"
"""`make setup` fetches it, with the last compose that was written in Python."""


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def test_all_are_looked_at() -> None:
    assert [file.name for file in FILES] == [
        "cluster-compose.yaml", "compose.yaml", "sidecar-compose.yaml", "spark-compose.yaml",
    ]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_a_compose_file(file: Path) -> None:
    if not SCHEMA.exists() and not os.environ.get("CI"):
        pytest.skip("there is no schema of compose: `make setup` fetches it")
    schema = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))
    assert [error.message for error in schema.iter_errors(read(file))] == []
    wrong = read(file)
    wrong["services"]["broker"] = {"image": "x", "readonly": True}
    assert [error.message for error in schema.iter_errors(wrong)] != []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_it_names_is_there(file: Path) -> None:
    """Files, targets of images, services, variables with what holds without them."""
    told = read(file)
    targets = re.findall(r"^FROM \S+ AS (\w+)", (DOCKER / "images.Dockerfile").read_text(), re.MULTILINE)
    for name, service in told["services"].items():
        build = service.get("build")
        if build is not None:
            assert (DOCKER / build["context"] / build["dockerfile"]).is_file()
            assert build.get("target", "worker") in targets
            assert service["image"].endswith(build.get("target", "spark")), name
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (DOCKER / volume.partition(":")[0]).is_file()
        assert set(service.get("depends_on", [])) <= told["services"].keys()


@pytest.mark.parametrize("file", [FILES[0], FILES[1]], ids=lambda file: file.name)
def test_each_of_ours_is_confined_and_stopped_in_time(file: Path) -> None:
    for name, service in read(file)["services"].items():
        if name == "broker":
            continue
        assert (service["read_only"], service["cap_drop"], service["init"]) == (True, ["ALL"], True)
        assert "no-new-privileges:true" in service["security_opt"]
        assert "/var/lib/jbm-kafka" in service["volumes"]
        assert int(service["stop_grace_period"].removesuffix("s")) > 30  # workers drain for 25 s


def test_the_file_for_development_lets_in_whom_it_says() -> None:
    said = read_sidecar_file(DOCKER / "dev.toml")
    assert [(each.host, each.port) for each in said.server.listeners] == [("0.0.0.0", 5672)]
    tables = load(DOCKER / "dev.toml").tables
    assert tables.users["dev"].operate == ["#"]
    assert (tables.console.listen, tables.console.plain_without_tls) == ("0.0.0.0:8161", True)


def test_no_port_of_development_is_open_to_others() -> None:
    """Its users are known to everybody."""
    for service in read(DOCKER / "compose.yaml")["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_services_become_commands_of_the_engine() -> None:
    told = yaml.safe_load(filled((DOCKER / "compose.yaml").read_text(), {"JBM_CONSOLE_PORT": "18161"}))
    options, rest = words_of("console", told["services"]["console"], DOCKER)
    assert rest == ["jbm-kafka-console"]
    assert "--publish=127.0.0.1:18161:8161" in options
    assert f"--volume={DOCKER}/dev.toml:/etc/jbm-kafka/jbm-kafka.toml:ro" in options
    assert {"--read-only", "--init", "--cap-drop=ALL", "--stop-timeout=40", "--env=JBM_BOOTSTRAP=broker:9092"} <= {
        *options
    }
    with pytest.raises(ValueError, match="console: privileged"):
        words_of("console", {**told["services"]["console"], "privileged": True}, DOCKER)
