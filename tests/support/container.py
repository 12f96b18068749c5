"""The broker of the tests in a container, by testcontainers, from the image that docker/build.sh makes."""

import gc
import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jbm_kafka.devbroker import wait_answers
from jbm_kafka.devbroker.ports import free_port

# Read when testcontainers is imported. Its helper container would have to come from a registry.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

BUILD = Path(__file__).parents[2] / "docker" / "build.sh"
BUILD_TIMEOUT_S = 600.0
START_TIMEOUT_S = 90.0


def engine_answers() -> bool:
    """True when a Docker engine can be reached from here."""
    from testcontainers.core.docker_client import DockerClient

    with warnings.catch_warnings():
        # Where no engine listens, its client leaves a socket to the collector, which pytest would blame on some test.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            return bool(DockerClient(timeout=10).client.ping())
        except Exception:  # the engine's client has no narrower word for "not there, or not for you"
            return False
        finally:
            gc.collect()


def build_image() -> str:
    """Makes the broker image, or finds it made; its name."""
    done = subprocess.run([str(BUILD)], stdout=subprocess.PIPE, text=True, timeout=BUILD_TIMEOUT_S, check=True)
    return done.stdout.strip().splitlines()[-1]


@contextmanager
def container_broker() -> Iterator[str]:
    """Runs a broker in a container while the block runs; its `host:port`."""
    from testcontainers.core.container import DockerContainer

    image = build_image()
    # The broker must know before it starts under which address clients will reach it.
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    container = DockerContainer(image).with_bind_ports(9092, port).with_env("ADVERTISED", bootstrap)
    with container:
        wrapped = container.get_wrapped_container()

        def is_alive() -> bool:
            wrapped.reload()
            return bool(wrapped.status == "running")

        if not wait_answers(bootstrap, timeout_s=START_TIMEOUT_S, is_alive=is_alive):
            raise RuntimeError(f"the broker of {image} did not come up:\n{wrapped.logs(tail=20).decode()}")
        yield bootstrap
