"""What is compiled, and that the source can be used instead."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jbm_kafka import compiled
from tests.support.compiled_files import stale_modules

ROOT = Path(__file__).parents[2]
COMPILED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["jbm-kafka"]["compiled"]


def origin_of(module: str, **environment: str) -> str:
    """The file that a fresh interpreter takes the module from."""
    code = f"import importlib; print(importlib.import_module({module!r}).__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("path", COMPILED)
def test_every_compiled_module_can_be_had_as_source(path: str) -> None:
    module = path.removesuffix(".py").replace("/", ".")
    assert origin_of(module, JBM_PURE="1") == str(ROOT / path)
    ending = ".so" if compiled.are_used() else ".py"
    assert origin_of(module, JBM_PURE=os.environ.get("JBM_PURE", "")).endswith(ending)


def test_a_source_changed_after_compiling_is_told(tmp_path: Path) -> None:
    for name, age_s in (("fresh.cpython-311.so", 10), ("fresh.py", 20), ("old.cpython-311.so", 20), ("old.py", 10)):
        path = tmp_path / name
        path.touch()
        os.utime(path, (1_700_000_000 - age_s, 1_700_000_000 - age_s))
    (tmp_path / "orphan.cpython-311.so").touch()
    assert stale_modules(tmp_path) == ["old.py", "orphan.py"]
