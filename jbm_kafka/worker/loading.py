"""Finds the worker that `MODULE:NAME` means, as a command line says it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.worker.message_worker import Worker


class TargetError(JMSError):
    """Raised where the named thing cannot be loaded, or is no worker and no function."""


def parts_of(target: str) -> tuple[str, str]:
    """Returns the module and the name that a target names, without looking for them.

    Raises:
        TargetError: it names no module, or nothing in it.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetError(f"{target!r}: write MODULE:NAME, as in shop.workers:worker", value=target)
    return module_name, name


def load(target: str) -> Worker | Callable[..., Any]:
    """The worker or function of `MODULE:NAME`; modules of the current folder are found, too.

    Raises:
        TargetError: it cannot be had; the line says why.
    """
    module_name, name = parts_of(target)
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109 - as sys.path has it
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # sys.exit(0), too: nothing would run, and nobody would see that
        text = f"{target!r}: module {module_name!r} cannot be imported: {failure_text(error)}"
        raise TargetError(text, value=target) from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found) and not isinstance(found, Worker):
        has = "has no such name" if found is None else f"has {type(found).__name__} there"
        raise TargetError(f"{target!r}: {module_name} {has}; name a Worker, or a function with --queue", value=target)
    return found  # type: ignore[no-any-return]
