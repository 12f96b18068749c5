"""What failed beside others is tried once more, and what is really wrong still fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.second_try import TRIED_MAX, failed_last, second_try

ONCE = """
from pathlib import Path


def test_is_disturbed_once():
    noted = Path(__file__).with_suffix(".noted")
    is_first = not noted.exists()
    noted.touch()
    assert not is_first
"""
WRONG = "\n\ndef test_is_wrong():\n    assert False\n"
FINE = "\n\ndef test_is_fine():\n    pass\n"


def run(folder: Path, text: str, *how: str) -> int:
    """The exit code in the end of a run of these tests."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_these.py").write_text(text)
    code = subprocess.run([sys.executable, "-m", "pytest", *how], cwd=folder, check=False).returncode
    return second_try(code, failed_last(folder), folder)


def test_what_passes_by_itself_is_told_and_does_not_fail_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ONCE + FINE, "-n", "2") == 0
    said = capfd.readouterr().out
    assert "1 failed, 1 passed" in said
    assert "passed by themselves, and failed before; see above why:\n    test_these.py::test_is_disturbed_once" in said


def test_what_fails_again_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, ONCE + WRONG + FINE) == 1


def test_many_failures_are_not_tried_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    many = "\n\n".join(f"def test_{number}():\n    assert False\n" for number in range(TRIED_MAX + 1))
    assert run(tmp_path, many) == 1
    assert "by themselves" not in capfd.readouterr().out


@pytest.mark.parametrize("code", [0, 2, 3, 5])
def test_a_run_that_did_not_end_stays_as_it_was(tmp_path: Path, code: int) -> None:
    assert second_try(code, ["test_these.py::test_is_disturbed_once"], tmp_path) == code
