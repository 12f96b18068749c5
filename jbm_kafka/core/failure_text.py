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


def cut_to_bytes(text: str, most: int) -> str:
    """The text, or of a longer one the beginning that takes at most so many bytes in UTF-8."""
    encoded = text.encode()
    return text if len(encoded) <= most else f"{encoded[: most - 3].decode(errors='ignore')}…"


def one_line_of(text: str, most: int = FAILURE_MAX) -> str:
    """The text in one line of at most so many characters: as many as a header has."""
    text = " ".join(text.split())
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.encode("utf-8", "replace").decode()
