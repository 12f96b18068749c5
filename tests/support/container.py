"""The broker of our own tests in a container, from the image that docker/build.sh makes without any registry."""

import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from jbm_kafka.testing.container import run_container

# Read when testcontainers is imported. Its helper container would have to come from a registry.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

BUILD = Path(__file__).parents[2] / "docker" / "build.sh"
BUILD_TIMEOUT_S = 600.0


def build_image() -> str:
    """Makes the broker image, or finds it made; its name."""
    done = subprocess.run([str(BUILD)], stdout=subprocess.PIPE, text=True, timeout=BUILD_TIMEOUT_S, check=True)
    return done.stdout.strip().splitlines()[-1]


def build_images() -> list[str]:
    """Makes the images of worker, sidecar, console and exporter; their names."""
    command = [str(BUILD), "images"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=2 * BUILD_TIMEOUT_S, check=True)
    return done.stdout.split()


def container_broker() -> AbstractContextManager[str]:
    """Runs a broker in a container while the block runs; its `host:port`."""
    return run_container(build_image(), lambda bootstrap: {"ADVERTISED": bootstrap})
