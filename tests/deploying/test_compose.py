"""docker/compose.yaml and docker/cluster-compose.yaml, started by compose itself, where it and an engine are there."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from proton import Message, SSLDomain
from proton.utils import BlockingConnection

from jbm_kafka.devbroker.ports import free_port
from tests.house.sources import ROOT
from tests.support.container import build_image, build_images
from tests.support.secured import make_certificates
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

DOCKER = ROOT / "docker"
OWN = ROOT / "build" / "compose" / "docker-compose"
"""`make compose` makes it: the plugin is not where engines come from the distribution."""
READER = 1000
"""The user of the images, who reads what is mounted."""
PASSWORD = "s3cret"
SECURED = f"""
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_shop="{PASSWORD}";
"""


class Compose:
    """A project of compose."""

    def __init__(self, files: Sequence[Path], variables: Mapping[str, str]) -> None:
        own = [str(OWN)] if OWN.exists() else ["docker", "compose"]
        self._words = [*own, f"--project-name=jbm-{uuid4().hex[:8]}", *(f"--file={file}" for file in files)]
        self._environment = {**os.environ, **variables}

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What it did."""
        done = subprocess.run([*self._words, *words], env=self._environment, capture_output=True, text=True,
                              timeout=600, check=False)  # fmt: skip
        assert done.returncode == 0 or not check, done.stdout + done.stderr + self.logs()
        return done

    def logs(self, *services: str) -> str:
        """What they have printed."""
        done = subprocess.run([*self._words, "logs", *services], env=self._environment, capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        return done.stdout

    def exit_codes(self) -> dict[str, int]:
        """Of those that have ended, by service; of several the largest."""
        lines = self.run("ps", "--all", "--format", "{{.Service}} {{.ExitCode}}").stdout.splitlines()
        return {name: int(code) for name, code in sorted(line.split() for line in lines)}


@pytest.fixture(scope="module")
def images() -> list[str]:
    if subprocess.run(["docker", "version"], check=False, capture_output=True).returncode:
        pytest.skip("no Docker engine answers")  # tests/deploying/test_images.py fails where one must
    if (
        not OWN.exists()
        and subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode
    ):
        pytest.skip("there is no compose: `make compose` makes one; test_compose_files.py looks at the files")
    return build_images()


@contextmanager
def started(compose: Compose, *words: str) -> Iterator[Compose]:
    """All its services, until all of them are healthy."""
    try:
        compose.run("up", "--detach", "--wait", "--no-build", *words)
        yield compose
    finally:
        compose.run("down", "--volumes", "--timeout=5", check=False)


@pytest.mark.usefixtures("images")
def test_compose_for_development_starts_and_a_message_goes_through() -> None:
    """As the page says: then the console is there, and the worker ships."""
    names = ("JBM_BROKER_PORT", "JBM_CONSOLE_PORT", "JBM_AMQP_PORT", "JBM_EXPORTER_PORT")
    ports = {name: str(free_port()) for name in names}
    compose = Compose(
        [DOCKER / "compose.yaml"], {**ports, "JBM_BROKER_IMAGE": build_image(), "COMPOSE_PROFILES": "all"}
    )
    with started(compose):
        compose.run("exec", "-T", "worker", "jbm-kafka", "send", "orders", "--text", "2 books")
        wait_until(lambda: "ships 2 books" in compose.logs("worker"), about="the worker has it", timeout_s=60)
        assert "password" in read(f"http://127.0.0.1:{ports['JBM_CONSOLE_PORT']}/login")
        compose.run("stop")
        codes = compose.exit_codes()
        assert {name: codes[name] for name in ("worker", "console", "sidecar", "exporter")} == dict.fromkeys(
            ("worker", "console", "sidecar", "exporter"), 0
        )


@pytest.mark.usefixtures("images")
def test_compose_for_a_cluster_starts_with_login_and_certificate(tmp_path: Path) -> None:
    """By the file of the page, beside a Kafka that lets nobody in without a password."""
    ports = {name: free_port() for name in ("sidecar", "console", "exporter")}
    certificates = make_certificates(tmp_path / "certificates")
    shutil.copy(DOCKER / "cluster-compose.yaml", tmp_path)
    configured = page_file().replace("kafka-1.example.com:9093", "broker:9092")
    configured = configured.replace('user = "shop",', 'user = "shop", mechanism = "PLAIN",').replace(
        "users.ann", "users.dev"
    )
    configured = re.sub('password = "SCRAM.*"', f'password = "{dev_verifier()}"', configured)
    for name, text in (
        ("jbm-kafka.toml", configured),
        ("kafka.password", PASSWORD + "\n"),
        ("tls.pem", certificates.server.read_text()),
        ("shop.py", (DOCKER / "shop.py").read_text()),
        ("secured.properties", SECURED),
        ("override.yaml", override(ports, build_image())),
        ("Dockerfile", "FROM jbm-kafka-worker\nCOPY shop.py /app/\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o444 if name == "shop.py" else 0o400)  # an image keeps it, and has it as root's
        os.chown(tmp_path / name, READER, READER)
    tmp_path.chmod(0o711)
    worker = f"jbm-shop-{uuid4().hex[:8]}"
    subprocess.run(["docker", "build", "--quiet", f"--tag={worker}", tmp_path], check=True, capture_output=True)
    files = [tmp_path / "cluster-compose.yaml", tmp_path / "override.yaml"]
    with started(
        Compose(files, {"JBM_WORKER_IMAGE": worker, "JBM_WORKER": "shipping", "DOCKER_BUILDKIT": "0"}),
        "--scale=worker=2",
    ) as compose:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(certificates.authority))
        url = f"amqps://localhost:{ports['sidecar']}"
        client = BlockingConnection(url, timeout=60, ssl_domain=domain, user="dev", password="dev")
        client.create_sender("orders").send(Message(body="an oak", durable=True))
        client.close()
        wait_until(lambda: "ships an oak" in compose.logs("worker"), about="a worker has it", timeout_s=60)
        trusting = ssl.create_default_context(cafile=str(certificates.authority))
        assert "password" in read(f"https://localhost:{ports['console']}/login", trusting)
        told = 'jbm_backlog_held{destination="orders",subscription=""} 0.0'
        metrics = f"http://127.0.0.1:{ports['exporter']}/metrics"
        wait_until(lambda: told in read(metrics), about="the exporter tells of it", timeout_s=60)
        compose.run("stop")
        codes = compose.exit_codes()
        assert {name: code for name, code in codes.items() if name != "broker"} == dict.fromkeys(
            ("worker", "console", "sidecar", "exporter"), 0
        )
    subprocess.run(["docker", "image", "rm", "--force", worker], check=False, capture_output=True)


def page_file() -> str:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "deploying.md").read_text(), re.DOTALL)
    [found] = [each for each in blocks if "/run/secrets/tls" in each]
    return str(found)


def dev_verifier() -> str:
    found = re.search('^password = "(.*)"', (DOCKER / "dev.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def override(ports: Mapping[str, int], broker: str) -> str:
    """A Kafka beside them, and ports that nobody else has."""
    inside = {"sidecar": 5671, "console": 8161, "exporter": 9108}
    after = "depends_on: {broker: {condition: service_healthy}}"
    services = "".join(
        f'  {name}:\n    ports: !override ["127.0.0.1:{ports[name]}:{port}"]\n    {after}\n'
        for name, port in inside.items()
    )
    of_broker = {
        "image": broker,
        "environment": {"ADVERTISED": "broker:9092"},
        "command": ["sh", "-c", "cat /secured.properties >> /opt/kafka/common.properties && sh /opt/kafka/start.sh"],
        "volumes": ["./secured.properties:/secured.properties:ro"],
        "healthcheck": yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["broker"]["healthcheck"],
    }
    made: str = yaml.safe_dump({"broker": of_broker})
    return "services:\n" + services + made.replace("\n", "\n  ").join(["  ", "\n"])


def read(url: str, context: ssl.SSLContext | None = None) -> str:
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        return str(answer.read().decode())
