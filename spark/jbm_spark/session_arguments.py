"""Checks the arguments of `build_session` before a JVM is started, which would fail without naming them.

No Spark is needed here.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from jbm_kafka.core.wrong_values import shown
from jbm_spark.errors import SessionError

_LOCAL = re.compile(r"local(\[(\*|[1-9]\d*)(, *[1-9]\d*)?\])?|local-cluster\[.+\]")
_CLUSTERS = ("spark://", "k8s://", "yarn")
_MEMORY = re.compile(r"([1-9]\d*)([kmgt])", re.IGNORECASE)
_BYTES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MEMORY_MIN = 450 * 2**20
"""Spark does not start with less."""


def check_master(master: object) -> None:
    """Raises SessionError when it is no place where Spark could run."""
    is_one = isinstance(master, str) and (_LOCAL.fullmatch(master) or master.startswith(_CLUSTERS))
    if not is_one:
        raise SessionError(
            f"master={shown(master)}: write 'local[2]' for two tasks at once on this machine, 'local[2,3]' to try each "
            "three times, or a cluster's address, as in 'spark://host:7077'"
        )


def is_local(master: str) -> bool:
    """Return True if Spark runs on this machine alone."""
    return _LOCAL.fullmatch(master) is not None


def check_memory(name: str, memory: object) -> None:
    """Raises SessionError when the JVM does not start with it."""
    found = _MEMORY.fullmatch(memory) if isinstance(memory, str) else None
    if found is None or int(found[1]) * _BYTES[found[2].lower()] < _MEMORY_MIN:
        raise SessionError(f"{name}={shown(memory)}: write '2g', or '600m'; Spark needs 450m or more")


def checked_settings(settings: object) -> dict[str, str]:
    """Settings of Spark's by name, as texts.

    Raises:
        SessionError: they are something else.
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise SessionError(f"settings={shown(settings)}: it is a dict, as in {{'spark.sql.shuffle.partitions': '8'}}")
    for name, value in (settings or {}).items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise SessionError(
                f"settings: {shown(name)}: {shown(value)}: name and value are texts, as in "
                "'spark.sql.shuffle.partitions': '8'"
            )
    return {name: str(value) for name, value in (settings or {}).items()}


def checked_log_path(log_path: object) -> Path:
    """The file, which is there then.

    Raises:
        SessionError: it is no path, or cannot be written.
    """
    if not isinstance(log_path, str | os.PathLike) or not os.fspath(log_path):
        raise SessionError(f"log_path={shown(log_path)}: it is the path of a file, as in Path('spark.log'), or None")
    path = Path(os.fsdecode(log_path))
    try:
        path.open("ab").close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SessionError(f"log_path {path}: {reason}; name a file that this process can write to") from None
    return path
