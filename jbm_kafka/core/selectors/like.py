"""Patterns of LIKE: `_` stands for one character, `%` for any number of them.

A long message cannot make a pattern slow: its parts are found from left to right, each at the first place it fits, and
no choice is taken back (the groups `(?>...)`). So the work is at most length of the text times length of the pattern.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import groupby

PATTERN_MAX = 1_000
"""Characters of a pattern: with a message of a megabyte it bounds the work to seconds, in the worst of cases."""


class Wildcard(Enum):
    """A part of a pattern that stands for any characters."""

    ONE = "_"
    MANY = "%"


Pattern = tuple[str | Wildcard, ...]
"""A character at a time. In a row of wildcards those that stand for one come first, and MANY once."""


def parse_pattern(written: str, escape: str | None) -> Pattern:
    """The pattern; `escape` before a character makes it stand for itself.

    Raises:
        ValueError: nothing follows the escape.
    """
    found: list[str | Wildcard] = []
    characters = iter(written)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError(f"a character behind the escape {escape}")
            found.append(escaped)
        elif character in ("_", "%"):
            found.append(Wildcard(character))
        else:
            found.append(character)
    return tuple(_in_order(found))


def _in_order(items: Sequence[str | Wildcard]) -> list[str | Wildcard]:
    ordered: list[str | Wildcard] = []
    for is_wild, group in groupby(items, key=lambda item: isinstance(item, Wildcard)):
        row = list(group)
        if is_wild:
            row = sorted(row, key=lambda item: item is Wildcard.MANY)
            del row[row.index(Wildcard.MANY) + 1 if Wildcard.MANY in row else len(row) :]
        ordered += row
    return ordered


def pattern_text(pattern: Pattern) -> tuple[str, bool]:
    """The pattern as it is written with `\\` for its escape, and whether it needs that."""
    literal = [item for item in pattern if isinstance(item, str)]
    needs_escape = "_" in literal or "%" in literal
    escaped = ("_", "%", "\\") if needs_escape else ()
    texts = (item.value if isinstance(item, Wildcard) else f"\\{item}" if item in escaped else item for item in pattern)
    return "".join(texts), needs_escape


def matcher(pattern: Pattern) -> Callable[[str], bool]:
    """A function that tells whether a whole text is of the pattern."""
    parts = [""]
    for item in pattern:
        if item is Wildcard.MANY:
            parts.append("")
        else:
            parts[-1] += "." if isinstance(item, Wildcard) else re.escape(item)
    body = parts[0]
    if len(parts) > 1:
        body += "".join(f"(?>.*?{part})" for part in parts[1:-1]) + ".*" + parts[-1]
    search = re.compile(body, re.DOTALL).fullmatch
    return lambda text: search(text) is not None
