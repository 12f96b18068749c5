"""An exception of an application's in words, in one line that fits a header: its type and its text, if it has any."""

from __future__ import annotations

FAILURE_MAX = 200
"""Characters of it: it is there to recognise the cause, not to replace the log."""


def failure_text(error: BaseException | None) -> str | None:
    """As in `ValueError: no such customer`; None of no error."""
    if error is None:
        return None
    try:
        detail = str(error)
    except Exception:  # somebody else's class
        detail = ""
    name = type(error).__qualname__
    return one_line_of(f"{name}: {detail}" if detail.strip() else name)


def one_line_of(text: str) -> str:
    """The text as a header has it: in one line, and not too long."""
    text = " ".join(text.split())
    text = text if len(text) <= FAILURE_MAX else f"{text[: FAILURE_MAX - 1]}…"
    return text.encode("utf-8", "replace").decode()
