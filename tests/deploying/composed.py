"""The services of a compose file, run by the engine alone: compose is a plugin that few engines of tests have."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.waiting import wait_until

FLAGS: Final[Mapping[str, Callable[[Any], list[str]]]] = {
    "init": lambda said: ["--init"] if said else [],
    "read_only": lambda said: ["--read-only"] if said else [],
    "cap_drop": lambda said: [f"--cap-drop={each}" for each in said],
    "security_opt": lambda said: [f"--security-opt={each}" for each in said],
    "restart": lambda said: [f"--restart={said}"],
    "stop_grace_period": lambda said: [f"--stop-timeout={int(said.removesuffix('s'))}"],
    "environment": lambda said: [f"--env={name}={value}" for name, value in said.items()],
    "ports": lambda said: [f"--publish={each}" for each in said],
    "healthcheck": lambda said: [
        f"--health-cmd={shlex.join(said['test'][1:])}",
        f"--health-interval={said['interval']}",
        f"--health-retries={said['retries']}",
    ],
}
ADDRESS: Final = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
OURS: Final = {"image", "build", "command", "depends_on", "profiles", "volumes"}
"""The rest of what a service may say here. Another key is refused, for it would be left out unseen."""


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Returns the text with `${NAME:-default}` replaced."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1]) or found[2], text)


def words_of(name: str, service: Mapping[str, Any], folder: Path) -> tuple[list[str], list[str]]:
    """Returns the options of `docker run`, and what follows them.

    Raises:
        ValueError: the service says something that no option stands for here.
    """
    unknown = service.keys() - FLAGS.keys() - OURS
    if unknown:
        raise ValueError(f"{name}: {', '.join(sorted(unknown))}: tests/deploying/composed.py does not know it")
    options = [word for key, flags in FLAGS.items() if key in service for word in flags(service[key])]
    for volume in service.get("volumes", []):
        options.append(f"--volume={folder / volume[2:] if volume.startswith('./') else volume}")
    return options, [service["image"], *service.get("command", [])]


class Composed:
    """Services that run; by name."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.names: list[str] = []

    def container(self, name: str) -> str:
        """Returns the name that the engine knows a service's container by."""
        return f"{self._prefix}-{name}"

    def start(self, name: str, service: Mapping[str, Any], folder: Path) -> None:
        """Starts one, when those it depends on are healthy; all before it are found by their names."""
        for each in service.get("depends_on", ()):
            self.wait_until_healthy(each)
        options, rest = words_of(name, service, folder)
        hosts = [f"--add-host={each}:{self.told(each, ADDRESS)}" for each in self.names]
        self.names.append(name)
        own = ["docker", "run", "--detach", f"--name={self.container(name)}", f"--hostname={name}"]
        subprocess.run([*own, *hosts, *options, *rest], check=True, timeout=120, stdout=subprocess.DEVNULL)

    def wait_until_healthy(self, name: str) -> None:
        """Returns when its check has succeeded.

        Raises:
            AssertionError: it has not in three minutes; with the end of what the service has printed.
        """
        wait_until(
            partial(self._is_healthy, name),
            about=lambda: f"{name} is healthy, and has printed: {self.log(name)[-2000:]}",
            timeout_s=180,
            look_s=0.5,  # each look is a process
        )

    def _is_healthy(self, name: str) -> bool:
        return self.told(name, "{{.State.Health.Status}}") == "healthy"

    def told(self, name: str, template: str) -> str:
        """Returns what the engine says of a service's container."""
        command = ["docker", "inspect", f"--format={template}", self.container(name)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def execute(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it."""
        words = ["docker", "exec", self.container(name), *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    def log(self, name: str) -> str:
        """Returns what it has printed."""
        command = ["docker", "logs", self.container(name)]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )
        return done.stdout

    def stop(self, name: str) -> tuple[int, float]:
        """Stops it in order; its exit code, and how long it took."""
        begun = time.monotonic()
        subprocess.run(["docker", "stop", self.container(name)], check=True, timeout=120, stdout=subprocess.DEVNULL)
        return int(self.told(name, "{{.State.ExitCode}}")), time.monotonic() - begun


@contextmanager
def composed(file: Path, prefix: str, variables: Mapping[str, str]) -> Iterator[Composed]:
    """Starts all services of the file, in its order, whatever their profile, and removes them at the end."""
    told = yaml.safe_load(filled(file.read_text(encoding="utf-8"), {**os.environ, **variables}))
    running = Composed(prefix)
    try:
        for name, service in told["services"].items():
            running.start(name, service, file.parent)
        yield running
    finally:
        for name in reversed(running.names):
            command = ["docker", "rm", "--force", "--volumes", running.container(name)]
            subprocess.run(command, check=False, timeout=120, stdout=subprocess.DEVNULL)
