"""The states of a queue's or subscription's receivers: which wait, work, hang, or are never called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, Final

from jbm_kafka.admin.explain.explanation import Asks, ExplainedReceiver, Holder, Taken
from jbm_kafka.core.channel.process_names import process_name

LOOKS_MS: Final = 2_000
"""A session's thread looks for messages of its listeners ten times a second, and its process notes that a bit later:
one that has not looked for so long is in another listener."""
CALLED_MS: Final = 5_000
"""One that asked less than so long ago will ask again, as far as anybody knows: a loop does so after each message."""
HANGS_MS: Final = 30_000
"""A receiver that has had a message for less is taken to work on it: nobody is advised to stop its process."""


class Doing(Enum):
    """The present activity of a receiver; the value is how people read it."""

    STOPPED = "of a connection that is not started"
    IN_LISTENER = "in its listener"
    ELSEWHERE = "in another listener of its session"
    IDLE = "idle, as there is nothing for it now"
    """It waits, and a rule or another receiver keeps what there is."""
    ASKING = "asking for more"
    NOT_CALLED = "without a call of its receive"
    WORKING = "at work"
    BETWEEN = "between two receives"


_TIMED = (Doing.IN_LISTENER, Doing.ELSEWHERE, Doing.NOT_CALLED, Doing.WORKING, Doing.BETWEEN)
_AT_A_MESSAGE = (Doing.IN_LISTENER, Doing.WORKING)


def doing(receiver: ExplainedReceiver) -> Doing:
    """Return what it does now."""
    asks, ago_ms = receiver.asks, receiver.asks.ago_ms or 0
    if receiver.is_stopped:
        return Doing.STOPPED
    if asks.is_in_listener:
        return Doing.IN_LISTENER
    if asks.has_listener and (ago_ms > LOOKS_MS or not asks.is_waiting):
        return Doing.ELSEWHERE
    if receiver.is_idle:
        return Doing.IDLE
    if asks.is_waiting:
        return Doing.ASKING
    if asks.has_asked and receiver.in_hand > receiver.unread:
        return Doing.WORKING
    return Doing.BETWEEN if asks.has_asked and ago_ms < CALLED_MS else Doing.NOT_CALLED


def does(receiver: ExplainedReceiver) -> str:
    """Return what it does, for how long, and with which message."""
    what, taken = doing(receiver), receiver.asks.taken
    since = f" for {_duration(receiver.asks.ago_ms or 0)}" if what in _TIMED else ""
    return f"{what.value}{since}{f': {taken}' if taken else ''}"


def may_hang(receiver: ExplainedReceiver) -> bool:
    """It has been in one message for long."""
    return doing(receiver) in _AT_A_MESSAGE and (receiver.asks.ago_ms or 0) >= HANGS_MS


def how_busy(receivers: Sequence[ExplainedReceiver]) -> str:
    """How many receivers do what, and which one has been in its message the longest; empty without receivers."""
    counts = Counter(doing(each).value for each in receivers)
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    working = [each for each in receivers if doing(each) in _AT_A_MESSAGE]
    if working:
        longest = max(working, key=lambda each: each.asks.ago_ms or 0)
        text += f"; {longest.receiver} is {does(longest)}"
    return text


def worker_of(holder: Holder, receivers: Iterable[ExplainedReceiver]) -> ExplainedReceiver | None:
    """The receiver that a message in this hand waits for; None: for none that is known.

    The thread of a session is in one of its listeners at a time, and what is in its hand waits for that. A message in
    a buffer waits for its own receiver.
    """
    session = [each for each in receivers if (each.process, each.session) == (holder.process, holder.session)]
    found = [each for each in session if each.asks.is_in_listener]
    if holder.is_unread:
        busy = (*_AT_A_MESSAGE, Doing.ELSEWHERE)
        found += [each for each in session if each.receiver == holder.receiver and doing(each) in busy]
    return next(iter(found), None)


def receivers_of(answers: Iterable[Mapping[str, Any]]) -> list[ExplainedReceiver]:
    """Each receiver once, though its process describes it with each of its partitions."""
    known = {}
    for answer in answers:
        process = process_of(answer)
        for values in answer.get("receivers", ()):
            taken = values.get("taken")
            asks = _known(Asks, values) | {
                "ago_ms": values.get("asked_ms_ago"),
                "taken": taken and Taken(**_known(Taken, taken)),
            }
            receiver = ExplainedReceiver(**_known(ExplainedReceiver, values), process=process, asks=Asks(**asks))
            known[process, receiver.receiver] = receiver
    return list(known.values())


def holder_of(values: Mapping[str, Any], process: str) -> Holder:
    """The holder, as its process describes it."""
    return Holder(**_known(Holder, values), process=process)


def process_of(answer: Mapping[str, Any]) -> str:
    """`process 4711 at worker-3`, as its answer says."""
    process = answer.get("process", {})
    return process_name(process.get("host", "?"), process.get("id", "?"))


def _known(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are fields: a process of another version may say more, or less."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}


def _duration(ms: int) -> str:
    seconds = ms // 1_000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"
