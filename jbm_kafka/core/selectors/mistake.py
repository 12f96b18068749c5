"""The error for a wrong selector: the place, what stands there, what could."""

from jbm_kafka.core.jms_errors import InvalidSelectorError

SHOWN_MAX = 40
"""Characters of a selector or a token that a message repeats."""


def mistake(text: str, start: int, found: str, expected: str) -> InvalidSelectorError:
    """The error for what begins `start` characters into the text; `position` counts from 1, as people do.

    It is one line whatever the text holds. Where something is missing at the end, the position is one past it.
    """
    return InvalidSelectorError(
        f"selector {_around(text, start)}, column {start + 1}: found {found}, expected {expected}",
        selector=text,
        position=start + 1,
        found=found,
        expected=expected,
    )


def shown(written: str) -> str:
    """A piece of a selector in quotes, cut when it is long; what would break a line or cannot be printed is escaped."""
    return repr(written if len(written) <= SHOWN_MAX else f"{written[: SHOWN_MAX - 3]}...")


def _around(text: str, start: int) -> str:
    """Return the selector in quotes; of a long one what is around the mistake."""
    if len(text) <= 2 * SHOWN_MAX:
        return repr(text)
    begin, end = max(start - SHOWN_MAX, 0), start + SHOWN_MAX
    return repr(("..." if begin else "") + text[begin:end] + ("..." if end < len(text) else ""))
