"""A client that shares no code with the server or with Qpid JMS: rhea, in JavaScript."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from jbm_kafka.amqp.access import ACTIONS, Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.devbroker.file_lock import locked
from jbm_kafka.devbroker.folders import cache_folder
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory

RHEA = ("rhea@3.0.5", "debug@4.4.3", "ms@2.1.3")
CLIENT = Path(__file__).parent / "node" / "client.js"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder that has rhea; where it is not there it is fetched."""
    if shutil.which("npm") is None and "CI" not in os.environ:
        pytest.skip("no npm here")
    folder = cache_folder() / RHEA[0]
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(folder.name + ".lock"), timeout_s=TIMEOUT_S):
        if not (folder / "node_modules" / "rhea").exists():
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *RHEA]
            subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return folder / "node_modules"


def test_rhea_asks_answers_and_gets_a_unit_in_order(modules: Path) -> None:
    """AMQP-3, AMQP-11, AMQP-13, UNIT-1."""
    users = {"node": User(Verifier.of_password("secret"), {each: ["#"] for each in ACTIONS})}
    settings = ServerSettings([Listener(port=0)], Access(users, plain_without_tls=True), drain_s=0.0)
    installation = Installation(f"rhea{secrets.token_hex(4)}", {}, None, SidecarConfig())
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        done = subprocess.run(
            ["node", str(CLIENT), str(server.ports[0]), "node", "secret"],
            env={**os.environ, "NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    said = done.stdout.splitlines()
    assert (done.returncode, said) == (0, ["first WHO IS THERE", "attempts before 1", "in order true"]), done.stderr
