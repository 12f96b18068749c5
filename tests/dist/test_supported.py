"""Where it does not run it says so, before anything else fails."""

import tomllib

import pytest

from jbm_kafka.supported import PYTHON_MIN, refusal
from tests.house.sources import ROOT


@pytest.mark.parametrize(
    ("system", "python", "bits", "says"),
    [
        ("linux", (3, 10), 64, "needs Python 3.11 or newer and this is Python 3.10: use a newer one"),
        ("linux", (2, 7), 64, "needs Python 3.11"),
        ("win32", (3, 12), 64, "does not run on Windows: use WSL 2 or a Linux container there"),
        ("linux", (3, 12), 32, "needs a 64-bit Python and this one has 32 bits"),
    ],
)
def test_an_unsupported_system_is_told_with_the_remedy(
    system: str, python: tuple[int, int], bits: int, says: str
) -> None:
    said = refusal(system, python, bits)
    assert said is not None
    assert says in said
    assert "\n" not in said


@pytest.mark.parametrize("system", ["linux", "darwin"])
@pytest.mark.parametrize("python", [(3, 11), (3, 13), (4, 0)])
def test_the_others_are_not_refused(system: str, python: tuple[int, int]) -> None:
    assert refusal(system, python, 64) is None


def test_pip_and_the_import_ask_for_the_same_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, PYTHON_MIN))
