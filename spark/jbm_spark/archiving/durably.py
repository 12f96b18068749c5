"""Files and folders that a loss of power does not take back."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return when the disk has the file, or the names in the folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """The folder with everything in it."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))


def draft_of(path: Path) -> Path:
    """The place where the file is written, and where a process that is killed leaves it."""
    return path.with_name(f".{path.name}.draft")


def write_text_durably(path: Path, text: str) -> None:
    """The file has this text, or, after a crash, is not there."""
    draft = draft_of(path)
    draft.write_text(text, encoding="utf-8")
    sync(draft)
    draft.rename(path)
    sync(path.parent)
