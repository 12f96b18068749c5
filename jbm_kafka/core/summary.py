"""How a value with many parts shows itself in one line, at the prompt and in a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

LINE_MAX = 200
"""Characters that are read at a glance."""
_TEXT_MAX = (80, 32, 16)
"""Characters of one part; the next where the line would be longer."""


def summary(of: object, subject: object, **parts: object) -> str:
    """The class, the subject and the parts: of a collection its length. Parts that are None, False or "" are left out.

    Long texts are cut, to keep ten parts within a line; the field itself has the whole text.
    """
    present = {name: part for name, part in parts.items() if part not in (None, "") and part is not False}
    line = ""
    for most in _TEXT_MAX:
        shown = (f"{name}={_short(part, most)}" for name, part in present.items())
        line = f"<{' '.join((type(of).__name__, _cut(str(subject), most), *shown))}>"
        if len(line) <= LINE_MAX:
            break
    return line


def with_lines(line: str, more: Iterable[str]) -> str:
    """For `str`: the line, and what a reader should not miss below it, a line each."""
    return "\n  ".join([line, *(" ".join(each.split()) for each in more)])


def _short(part: object, most: int) -> str:
    if isinstance(part, str):
        return repr(_cut(part, most))
    if isinstance(part, Enum):
        return part.name
    return str(len(part)) if isinstance(part, Collection) else _cut(str(part), most)


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
