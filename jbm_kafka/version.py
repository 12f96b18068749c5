"""Which version of the package this is: pyproject.toml says it, and the installation carries it."""

from functools import cache

UNKNOWN = "0+unknown"
"""The package was not installed: its folder alone stands on the path."""


@cache
def version() -> str:
    """The installed version; read when it is first asked for, since that takes longer than most of an import."""
    from importlib import metadata

    try:
        return metadata.version("jbm-kafka")
    except metadata.PackageNotFoundError:
        return UNKNOWN
