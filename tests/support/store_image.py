"""A folder as the kernel has it at one moment, which is what a killed process leaves."""

import shutil
from contextlib import suppress
from pathlib import Path


def copy_of_moment(folder: Path, to: Path) -> None:
    """Copy a folder that is in use, again until no file of it came or went meanwhile."""
    while True:
        shutil.rmtree(to, ignore_errors=True)
        before = _names(folder)
        with suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(folder, to)
            if before == _names(folder) == _names(to):
                return


def _names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))
