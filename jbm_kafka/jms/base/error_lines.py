"""Log lines that have an exception of the application's with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress


def tell_error(
    log: logging.Logger,
    level: int,
    text: str,
    *values: object,
    error: BaseException | None,
    extra: Mapping[str, object] | None = None,
) -> None:
    """Log the line with the traceback of an exception, if there is one. Never raises.

    A handler or formatter of the application's own may fail at its exception, as one does that asks for a text which
    is not to be had. What becomes of the message is still to come, so the line is then told without the traceback, or
    not at all.
    """
    try:
        log.log(level, text, *values, exc_info=error, extra=extra, stacklevel=2)
    except Exception:
        with suppress(Exception):
            log.log(level, text, *values, extra=extra, stacklevel=2)
