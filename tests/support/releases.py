"""Released versions, each as its wheel is installed: in an environment of its own, with the packages of its time."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.chaos_crew import ROOT

COMMITS = {"0.1.0": "59a83c0c45d3a3f02dd6f490c15a3e10e8139226"}
FOLDER = ROOT / "build" / "versions"


@dataclass(frozen=True, slots=True)
class Release:
    """One version: what runs its processes."""

    python: Path
    folder: Path
    """Here its processes find the tests, and no `jbm_kafka` but the installed one."""


def released(version: str) -> Release:
    """Built and installed when it is used first, which takes half a minute and pip's registry."""
    made = FOLDER / version
    release = Release(made / "venv" / "bin" / "python", made / "work")
    if (made / "complete").exists():
        return release
    source = made / "source"
    source.mkdir(parents=True, exist_ok=True)
    packed = made / "source.tar"
    _run("git", "archive", "--output", packed, COMMITS[version])
    _run("tar", "-x", "-C", source, "-f", packed)
    _run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", made, source)
    _run(sys.executable, "-m", "venv", "--clear", made / "venv")
    wheel = made / f"jbm_kafka-{version}-py3-none-any.whl"
    _run(release.python, "-m", "pip", "install", "--quiet", "--constraint", source / "constraints.txt", wheel)
    release.folder.mkdir(exist_ok=True)
    tests = release.folder / "tests"
    tests.unlink(missing_ok=True)
    tests.symlink_to(ROOT / "tests")
    (made / "complete").touch()
    return release


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
