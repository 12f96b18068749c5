"""A test whose time is over tells where its threads stand, also beside others.

pytest-timeout prints that to where nobody reads it in a process of xdist, and ends the process: what is left is "node
down: Not properly terminated", as of a crash.
"""

import faulthandler
import os
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

BEFORE_S = 1.0


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Begins the time; pytest-timeout's own hook comes after it."""
    stderr = item.config.stash.get(fault_handler_stderr_fd_key, None)
    if settings.timeout and stderr is not None and "PYTEST_XDIST_WORKER" in os.environ:
        faulthandler.dump_traceback_later(max(settings.timeout - BEFORE_S, settings.timeout / 2), file=stderr)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """It ended in time."""
    faulthandler.cancel_dump_traceback_later()
