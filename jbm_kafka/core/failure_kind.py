"""Which failures are alike: errors that differ in numbers, ids and quoted values alone are of one kind.

`no customer 17` and `no customer 18` are, and an error is of one kind only.
"""

from __future__ import annotations

import re
from typing import Final

_VARIES: Final = re.compile(
    r"'[^']*'|\"[^\"]*\"|\bID:\S+|\b0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b|\d+"
)
"""What differs between errors of one kind."""
MARK: Final = "…"
_WORD: Final = re.compile(r"[A-Za-z]{2,}")


def failure_kind(error: str) -> str:
    """Return the error with `…` for each part that varies: a number, an id, a quoted value.

    An error of which nothing but its class would be left is returned as it is.
    """
    kind = _VARIES.sub(MARK, error)
    return kind if _WORD.search(kind.partition(":")[2]) else error
