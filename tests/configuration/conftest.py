"""An environment with nothing of ours, in an empty folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The current folder."""
    for name in [
        name for name in os.environ if name.startswith("JBM_") and name not in ("JBM_PURE", "JBM_TEST_BROKER")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("JBM_HOME", str(tmp_path / "home"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes a file that others cannot read: `jbm-kafka.toml` of the current folder, or another."""

    def written(text: str, name: str = "jbm-kafka.toml") -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o640)
        return path

    return written
