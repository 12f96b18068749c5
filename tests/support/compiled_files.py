"""The compiled modules of this source tree."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jbm_kafka"


def stale_modules(package: Path = PACKAGE) -> list[str]:
    """Modules whose source was changed, or is gone, since they were compiled; by their paths within the package."""
    return sorted(str(source.relative_to(package)) for source in _sources(package) if _is_newer(source))


def _sources(package: Path) -> list[Path]:
    return [binary.with_name(binary.name.partition(".")[0] + ".py") for binary in package.rglob("*.so")]


def _is_newer(source: Path) -> bool:
    binary = next(source.parent.glob(f"{source.stem}.*.so"))
    return not source.exists() or source.stat().st_mtime > binary.stat().st_mtime
