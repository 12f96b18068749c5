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


def test_help_of_a_compiled_call_showed_what_it_takes_in_only_to_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with_docs = runpy.run_path("setup.py")["with_docs"]
    shown = r'PyDoc_STR("receive($self, timeout=None, *more, **unknown)\n--\n\n")'
    assert with_docs(shown, {}) == r'PyDoc_STR("receive($self, timeout=None)\n--\n\n")'
    assert with_docs('PyDoc_STR("end(*more, **unknown)")', {}) == 'PyDoc_STR("end()")'
    assert with_docs("call(*more, **unknown)", {}) == "call(*more, **unknown)"
