"""Two folders change places in one step: whoever lists them sees one of the two states, and never anything between."""

import ctypes
import os
import shutil
from pathlib import Path

_HERE = -100
"""AT_FDCWD: paths as the process has them."""
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux's renameat2."""


def exchange(one: Path, other: Path) -> None:
    """Each is where the other was.

    Raises:
        OSError: this system or file system has no such step, or refuses it; nothing has changed.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise OSError(f"{one}: folders cannot be exchanged in one step on this system")
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def can_exchange(folder: Path) -> bool:
    """Return True if folders in there can be exchanged."""
    trial = folder / "exchange"
    try:
        for name in ("one", "other"):
            (trial / name).mkdir(parents=True)
        exchange(trial / "one", trial / "other")
    except OSError:
        return False
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return True
