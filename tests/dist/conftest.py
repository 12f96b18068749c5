"""What `make dist` builds, built once a run, and environments that know nothing of the source."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.sources import ROOT

BUILD = [sys.executable, "-m", "build", "--no-isolation"]

RUN_TIMEOUT_S = 900.0
"""Only a hang is cut off: Spark's start alone takes minutes where everything else of the suite runs beside it."""


@dataclass(frozen=True, slots=True)
class Built:
    """The two files that users install."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True, slots=True)
class Environment:
    """A fresh virtual environment, and an empty folder to work in."""

    folder: Path
    work: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def install(self, *what: str | Path) -> None:
        """Installs with pip, and with the versions that this project was last tested with.

        Where no registry answers the test is skipped, but never where CI is set.
        """
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", *what]
        done = subprocess.run(
            [*command, "--constraint", ROOT / "constraints.txt"],
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
        )
        if (
            "Could not find a version" in done.stderr
            and "from versions: none" in done.stderr
            and "CI" not in os.environ
        ):
            pytest.skip(f"no package registry to install from: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """What a command of the environment did in the empty folder; nothing of this run's own settings reaches it."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("JBM_", "PYTHON", "COVERAGE"))
        }
        program = self.folder / "bin" / command[0]
        return subprocess.run(
            [program, *command[1:]],
            cwd=self.work,
            env={**inherited, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )


def build(folder: Path, variables: Mapping[str, str]) -> Built:
    """Wheel and sdist, the wheel made from the sdist."""
    done = subprocess.run(
        [*BUILD, "--outdir", folder, ROOT], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


def environment(folder: Path) -> Environment:
    """A new one, without pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (folder / "work").mkdir()
    return Environment(folder / "venv", folder / "work")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"), {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": ""})


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and what it depends on, without the extras."""
    made = environment(tmp_path_factory.mktemp("installed"))
    made.install(built.wheel)
    return made
