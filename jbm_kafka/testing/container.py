"""A broker in a container, by testcontainers, which is an optional dependency."""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jbm_kafka import devbroker
from jbm_kafka.devbroker.ports import free_port

START_TIMEOUT_S = 180.0
DEVBROKER = Path(devbroker.__file__).parent
"""Where the settings of every broker of ours stand, and the version of Kafka."""


def engine_answers() -> bool:
    """True when testcontainers is installed and reaches a Docker engine."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError:
        return False
    with warnings.catch_warnings():
        # Where no engine listens, its client leaves a socket to the collector, which pytest would blame on some test.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return bool(DockerClient(timeout=10).client.ping())
        except Exception:  # the engine's client has no narrower word for "not there, or not for you"
            return False
        finally:
            gc.collect()


@contextmanager
def run_container(image: str, environment: Callable[[str], Mapping[str, str]]) -> Iterator[str]:
    """Runs a broker that listens at port 9092 of its container while the block runs; its `host:port`.

    `environment` gives the container's variables for the address under which clients will reach it.

    Raises:
        ImportError: testcontainers is not installed.
        RuntimeError: it did not come up; with its last lines.
    """
    from testcontainers.core.container import DockerContainer

    # The broker must know before it starts under which address clients will reach it.
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    container = DockerContainer(image).with_bind_ports(9092, port)
    for name, value in environment(bootstrap).items():
        container = container.with_env(name, value)
    with container:
        wrapped = container.get_wrapped_container()

        def is_alive() -> bool:
            wrapped.reload()
            return bool(wrapped.status == "running")

        if not devbroker.wait_answers(bootstrap, timeout_s=START_TIMEOUT_S, is_alive=is_alive):
            raise RuntimeError(f"the broker of {image} did not come up:\n{wrapped.logs(tail=20).decode()}")
        yield bootstrap


def public_image() -> str:
    """Apache's own image, of the version that we develop with."""
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", (DEVBROKER / "pom.xml").read_text())
    assert found is not None, DEVBROKER
    return f"apache/kafka:{found[1]}"


def public_image_environment(advertised: str) -> Mapping[str, str]:
    """Our brokers' settings as Apache's image takes them, with the address that clients reach it under."""
    lines = (DEVBROKER / "common.properties").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    # The broker also talks to itself. From inside the container it does not reach what is advertised to clients.
    settings |= {
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://0.0.0.0:9092,INTERNAL://localhost:9094,CONTROLLER://localhost:9093",
        "advertised.listeners": f"PLAINTEXT://{advertised},INTERNAL://localhost:9094",
        "inter.broker.listener.name": "INTERNAL",
    }
    return {variable(name): value for name, value in settings.items()}


def variable(setting: str) -> str:
    """The environment variable by which Apache's image takes a setting of its broker."""
    return "KAFKA_" + setting.replace("_", "__").replace("-", "___").replace(".", "_").upper()
