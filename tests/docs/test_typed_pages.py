"""What the pages show is clean for a reader who has `mypy --strict` in his project, with the package's own types
(py.typed) and without our settings of mypy."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import File, Program, pages_with_python, read_page
from tests.house.sources import ROOT


def mypy(folder: Path, cache: Path) -> str:
    """What it finds in the files of a folder; empty: nothing."""
    files = sorted(path.name for path in folder.glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", *files]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return told.stdout + told.stderr if told.returncode else ""


@pytest.mark.thorough
def test_what_the_pages_show_is_clean_under_mypy_strict(tmp_path: Path) -> None:
    """Programs lie in one folder, by page; those of a page that shows files by name lie beside these. Lines are those
    of the page."""
    together = tmp_path / "programs"
    folders = [together]
    for name in pages_with_python(ROOT):
        page = read_page((ROOT / name).read_text())
        stem = Path(name).stem.lower().replace("-", "_")
        has_files = any(isinstance(step, File) for step in page.steps)
        folder = tmp_path / stem if has_files else together
        folder.mkdir(exist_ok=True)
        folders += [folder] if has_files else []
        for number, step in enumerate(page.steps):
            match step:
                case File(file_name, code):
                    (folder / file_name).write_text(code)
                case Program(code):
                    (folder / f"{stem}_{number}.py").write_text(code)
    assert len(list(together.glob("readme_*.py"))) == 1
    assert [found for folder in folders if (found := mypy(folder, tmp_path / "cache"))] == []
