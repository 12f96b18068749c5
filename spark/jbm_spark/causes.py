"""What happened, in one line, of what Spark tells in a hundred."""

import re

_OWN_REFUSAL = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<text>.*?)(?: SQLSTATE: \w+)?$")
_LENGTH_MAX = 500


def cause_line(error: Exception) -> str:
    """The innermost: the outer ones name a stage and an executor. What we refused ourselves stands as we said it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        refused = _OWN_REFUSAL.search(line)
        if refused is not None:
            return refused["text"][:_LENGTH_MAX]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1:] or lines[:1] or [type(error).__name__])[0][:_LENGTH_MAX]
