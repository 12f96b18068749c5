"""Errors for settling after the session closed: they say what has become of the message in the session's mode."""

from __future__ import annotations

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.jms.base.modes import AcknowledgeMode

_EARLY = "its messages were acknowledged before you got them: leave the call out"
_BY_ITSELF = "its messages are settled without the call, the last one at the close: leave it out"
_ENDS = {
    AcknowledgeMode.AUTO: _BY_ITSELF,
    AcknowledgeMode.DUPS_OK: _BY_ITSELF,
    AcknowledgeMode.PRE: _EARLY,
    AcknowledgeMode.NO: _EARLY,
    AcknowledgeMode.TRANSACTED: "commit() ends its messages, and what was not committed comes again",
}


def not_needed(call: str, mode: AcknowledgeMode) -> IllegalStateError:
    """Return the error for a mode in which nobody settles single messages."""
    return IllegalStateError(f"{call}(): the {mode.name} session is closed; {_ENDS[mode]}", mode=mode.name)


def after_close(call: str, message: str, *, comes_again: bool) -> IllegalStateError:
    """Return the error for CLIENT and INDIVIDUAL; `message` names it."""
    fate = "it comes again" if comes_again else "it had been acknowledged before"
    return IllegalStateError(
        f"{call}(): the session of {message} is closed; {fate}. Settle messages before their session closes"
    )
