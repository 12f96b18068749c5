"""The hot modules can be compiled: where they cannot, `make setup` goes on without, and little else would tell."""

import runpy
from pathlib import Path

import pytest
from setuptools import Distribution  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]


def test_setuptools_takes_pyproject_as_setup_py_completes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refused a `readme` that hatch_build.py makes, and nothing was compiled any more."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution(dict(runpy.run_path("setup.py")["ARGUMENTS"]))
    distribution.parse_config_files()
    assert distribution.get_name() == "jbm-kafka"
