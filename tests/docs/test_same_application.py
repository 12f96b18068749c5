"""The page that has one application four times, ours in it and three beside it: the programs do the same, are formatted
alike, and the page's numbers are theirs."""

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.page import File, Page, run_page
from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "same-application.md"
BESIDE_THE_PAGE = ROOT / "docs" / "same-application"
PROGRAMS = {
    "jbm-kafka": "our_shop",
    "FastStream": "faststream_shop",
    "Celery": "celery_shop",
    "Dramatiq": "dramatiq_shop",
}
BESIDE = {"FastStream": "faststream_cron", "Celery": "celery_views", "Dramatiq": "dramatiq_cron"}
"""Files that want another package, and are not run."""
JOB = {"an_order_is_shipped", "what_fails_five_times_is_a_dead_letter", "what_is_no_order_is_refused"}
JOB |= {"each_night_there_is_a_report"}
HAS_BATCHES = {"jbm-kafka", "FastStream"}


def _blocks() -> dict[str, str]:
    """The files of the page, without the line that names each, and those beside it."""
    found = re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return dict(found) | {path.stem: path.read_text() for path in BESIDE_THE_PAGE.glob("*.py")}


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def test_each_program_does_the_job_in_its_own_stand_in_for_a_broker(tmp_path: Path) -> None:
    """The tests that stand beside it pass, and they are of the same things; where there are no batches it says so."""
    blocks = _blocks()
    run = [File(f"{each}.py", blocks[each]) for name in PROGRAMS.values() for each in (name, f"test_{name}")]
    run_page(Page(steps=[*run]), tmp_path, None)
    tests = {
        name: re.findall(r"^(?:async )?def test_(\w+)", blocks[f"test_{file}"], re.MULTILINE)
        for name, file in PROGRAMS.items()
    }
    of_views = {name: "views_are_stored" + "_together" * (name in HAS_BATCHES) for name in PROGRAMS}
    assert {name: sorted(found) for name, found in tests.items()} == {
        name: sorted({*JOB, of_views[name]}) for name in PROGRAMS
    }


def test_all_programs_are_formatted_as_ours_are(tmp_path: Path) -> None:
    """Else their lines could not be compared."""
    blocks = _blocks()
    assert set(blocks) == {each for name in PROGRAMS.values() for each in (name, f"test_{name}")} | set(BESIDE.values())
    for name, text in blocks.items():
        (tmp_path / f"{name}.py").write_text(text)
    config = ["--config", str(ROOT / "pyproject.toml")]
    said = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--diff", *config, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_numbers_of_the_page_are_those_of_its_programs() -> None:
    """Lines that are not blank; and ours are no more than FastStream's."""
    lines = {name: _lines(text) for name, text in _blocks().items()}
    counted = {
        name: (
            lines[file],
            lines[f"test_{file}"],
            lines[file] + lines[f"test_{file}"],
            lines[BESIDE[name]] if name in BESIDE else 0,
        )
        for name, file in PROGRAMS.items()
    }
    rows = re.findall(r"^\| ([\w-]+)((?: \| \d+){4}) \|$", PAGE.read_text(), re.MULTILINE)
    assert {name: tuple(int(each) for each in re.findall(r"\d+", numbers)) for name, numbers in rows} == counted
    assert counted["jbm-kafka"][2] <= counted["FastStream"][2]
