"""What failed beside others is tried once more, and what is really wrong still fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.second_try import SAVED_MAX, TRIED_MAX, second_try

CACHE = "a cache of its own"
DISTURBED = """
from pathlib import Path


def test_is_disturbed_once():
    noted = Path(__file__).with_suffix(".noted")
    is_first = not noted.exists()
    noted.touch()
    assert not is_first
"""
WRONG = "\n\ndef test_is_wrong():\n    assert False\n"
FINE = "\n\ndef test_is_fine():\n    pass\n"


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest starts in half the time, and has no options of theirs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def run(folder: Path, *texts: str) -> int:
    """The exit code in the end of a run of these files of tests."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for number, text in enumerate(texts):
        (folder / f"test_file{number}.py").write_text(text)
    first = subprocess.run([sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE}"], cwd=folder, check=False)
    return second_try(first.returncode, folder, CACHE)


def test_what_passes_by_itself_is_told_and_does_not_fail_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, DISTURBED + FINE) == 0
    said = capfd.readouterr().out
    assert "1 failed, 1 passed" in said
    assert "saved 1; above is why they failed:\n    test_file0.py::test_is_disturbed_once" in said


def test_what_fails_again_fails_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, DISTURBED + WRONG + FINE) == 1
    assert "saved 1; above" in capfd.readouterr().out


@pytest.mark.parametrize(("disturbed", "code"), [(SAVED_MAX, 0), (SAVED_MAX + 1, 1)])
def test_a_run_of_which_too_many_are_saved_fails(tmp_path: Path, disturbed: int, code: int) -> None:
    assert run(tmp_path, *[DISTURBED] * disturbed) == code


def test_what_a_file_shares_is_one_accident(tmp_path: Path) -> None:
    both = DISTURBED.replace("with_suffix(", "with_suffix(f'.{name}' + ").replace("():", "(name):")
    many = f"import pytest\n{both}".replace(
        "def test", f"@pytest.mark.parametrize('name', range({TRIED_MAX + 1}))\ndef test"
    )
    assert run(tmp_path, many) == 0


def test_many_failures_are_not_tried_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, *[WRONG] * (TRIED_MAX + 1)) == 1
    assert "by themselves" not in capfd.readouterr().out


@pytest.mark.parametrize("code", [0, 2, 3, 5])
def test_a_run_that_did_not_end_stays_as_it_was(tmp_path: Path, code: int) -> None:
    noted = tmp_path / CACHE / "v" / "cache" / "lastfailed"
    noted.parent.mkdir(parents=True)
    noted.write_text('{"test_file0.py::test_is_disturbed_once": true}')
    assert second_try(code, tmp_path, CACHE) == code
