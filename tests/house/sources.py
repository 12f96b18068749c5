"""Which files the house rules look at."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

PRODUCT = ("jbm_kafka", "spark")
"""Folders whose Python is the product."""

TESTS = ("tests",)

# Made by make or by tools, never committed.
_GENERATED = {"__pycache__", "jars", "target"}


def python_files(*folders: str) -> list[Path]:
    """Every Python file below the folders, in a stable order."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if not _GENERATED & set(path.parts))


def text_files() -> list[Path]:
    """Every text file that a reader of the repository sees, the tests of these rules excepted."""
    suffixes = {".py", ".md", ".toml", ".txt", ".sh", ".xml", ".properties", ".avsc", ".json", ""}
    folders = ("jbm_kafka", "spark", "tests", "docs", "docker", "schemas", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    files += [path for path in ROOT.iterdir() if not path.name.startswith(".") or path.name == ".importlinter"]
    return sorted(
        path
        for path in files
        if path.is_file() and path.suffix in suffixes and not _GENERATED & set(path.parts) and not _is_house(path)
    )


def relative(path: Path) -> str:
    """The path as a complaint names it."""
    return path.relative_to(ROOT).as_posix()


def _is_house(path: Path) -> bool:
    return path.parent == Path(__file__).parent
