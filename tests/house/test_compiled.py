"""What is compiled, and that the source can be used instead."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from jbm_kafka import compiled
from tests.support.compiled_files import stale_modules

ROOT = Path(__file__).parents[2]
COMPILED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["jbm-kafka"]["compiled"]


def origins_of(modules: list[str], **environment: str) -> list[str]:
    """The files that a fresh interpreter takes the modules from."""
    code = f"import importlib\nfor module in {modules!r}: print(importlib.import_module(module).__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_every_compiled_module_can_be_had_as_source() -> None:
    modules = [path.removesuffix(".py").replace("/", ".") for path in COMPILED]
    assert origins_of(modules, JBM_PURE="1") == [str(ROOT / path) for path in COMPILED]
    ending = ".so" if compiled.are_used() else ".py"
    found = origins_of(modules, JBM_PURE=os.environ.get("JBM_PURE", ""))
    assert [each for each in found if not each.endswith(ending)] == []
    assert len(found) == len(COMPILED)


def test_a_source_changed_after_compiling_is_told(tmp_path: Path) -> None:
    for name, age_s in (("fresh.cpython-311.so", 10), ("fresh.py", 20), ("old.cpython-311.so", 20), ("old.py", 10)):
        path = tmp_path / name
        path.touch()
        os.utime(path, (1_700_000_000 - age_s, 1_700_000_000 - age_s))
    (tmp_path / "orphan.cpython-311.so").touch()
    assert stale_modules(tmp_path) == ["old.py", "orphan.py"]
