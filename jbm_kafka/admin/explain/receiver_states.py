"""What receivers of a queue or subscription do: who waits, who works or hangs, and who is never called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from jbm_kafka.admin.explain.explanation import Asks, ExplainedReceiver, Holder, Taken
from jbm_kafka.core.process_names import process_name

LOOKS_MS: Final = 2_000
"""A session's thread looks for messages of its listeners ten times a second, and its process notes that a bit later:
one that has not looked for so long is in another listener."""
CALLED_MS: Final = 5_000
"""One that asked less than so long ago will ask again, as far as anybody knows: a loop does so after each message."""
HANGS_MS: Final = 30_000
"""Nobody is to stop a process for a message that it has had for less: it works, and others wait for it in vain."""


class Doing(Enum):
    """What a receiver does now; the value is the end of a sentence about it."""

    STOPPED = "its connection is not started"
    IN_LISTENER = "its listener has been in one message for {ago}{taken}"
    ELSEWHERE = (
        "its session has been in another of its listeners for {ago}; explain of that one's queue names the message"
    )
    IDLE = "idle: nothing may go to it now"
    """It waits, and a rule or another receiver keeps what there is."""
    ASKING = "asks for more"
    LISTENS = "its session is in another of its listeners"
    """Since a moment ago only."""
    NEVER_CALLED = "has not asked for a message in the {ago} since it is there: nobody calls its receive"
    WORKING = "works on what it has; last asked {ago} ago{got}"
    BETWEEN = "is between two receives; last asked {ago} ago"
    NOT_CALLED = "has not asked for a message for {ago}: nobody calls its receive meanwhile"
    UNKNOWN = "is busy"
    """Its process is of an older version, and says no more."""


def doing(each: ExplainedReceiver) -> Doing:
    """What it does now."""
    asks = each.asks
    if each.is_stopped:
        return Doing.STOPPED
    if asks.is_in_listener:
        return Doing.IN_LISTENER
    if is_elsewhere(each):
        return Doing.ELSEWHERE
    if asks.is_waiting or asks.ago_ms is None:
        return Doing.IDLE if each.is_idle else Doing.ASKING if asks.is_waiting or asks.is_asking else Doing.UNKNOWN
    if asks.has_listener:
        return Doing.LISTENS
    if not asks.has_asked:
        return Doing.NEVER_CALLED
    if each.in_hand > each.unread:
        return Doing.WORKING
    return Doing.BETWEEN if asks.ago_ms < CALLED_MS else Doing.NOT_CALLED


def does(each: ExplainedReceiver, *, is_empty: bool = False) -> str:
    """The same as the end of a sentence about it; `is_empty`: nothing is held that it could wait for."""
    what, taken = doing(each), each.asks.taken
    if is_empty and what is Doing.IDLE:
        return "waits for messages"
    return what.value.format(
        ago=duration(each.asks.ago_ms or 0),
        taken=f": {taken}" if taken else "",
        got=f", and got {taken}" if taken else "",
    )


def may_hang(each: ExplainedReceiver) -> bool:
    """It has been in one message for long."""
    return doing(each) in (Doing.IN_LISTENER, Doing.WORKING) and (each.asks.ago_ms or 0) >= HANGS_MS


_BUSY: Final[Mapping[Doing, str]] = {
    Doing.IN_LISTENER: "in a listener",
    Doing.ELSEWHERE: "in another listener of its session",
    Doing.LISTENS: "in another listener of its session",
    Doing.WORKING: "at work",
    Doing.BETWEEN: "between two receives",
    Doing.NOT_CALLED: "not called any more",
    Doing.NEVER_CALLED: "never called",
    Doing.IDLE: "waiting with as much in hand as the prefetch allows",
    Doing.ASKING: "waiting with as much in hand as the prefetch allows",
    Doing.STOPPED: "of a connection that is not started",
}


def how_busy(receivers: Sequence[ExplainedReceiver]) -> str:
    """How many receivers do what, and what the one has that has been in it the longest; empty: nobody knows."""
    counts = Counter(_BUSY[what] for each in receivers if (what := doing(each)) in _BUSY)
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    working = [each for each in receivers if doing(each) in (Doing.IN_LISTENER, Doing.WORKING)]
    if working:
        longest = max(working, key=lambda each: each.asks.ago_ms or 0)
        taken = f", with {longest.asks.taken}" if longest.asks.taken else ""
        told += f"; {longest.receiver} for {duration(longest.asks.ago_ms or 0)}{taken}"
    return told


def receivers_of(answers: Iterable[Mapping[str, Any]]) -> Iterable[ExplainedReceiver]:
    """Each once, though its process tells of it with each of its partitions."""
    known: dict[tuple[str, str], ExplainedReceiver] = {}
    for answer in answers:
        process = process_of(answer)
        for each in answer.get("receivers", ()):
            known[process, str(each.get("receiver"))] = _receiver(process, each)
    return known.values()


def kept_by(holder: Holder, receivers: Iterable[ExplainedReceiver]) -> ExplainedReceiver | None:
    """Who works on something while the message is in that hand: its session's listener that runs, or its receiver.

    None: nobody does, or it is not known on what.
    """
    mine = [
        each
        for each in receivers
        if (each.process, each.session) == (holder.process, holder.session)
        and each.asks.taken is not None
        and not each.asks.is_waiting
    ]
    # The thread of a session is in one of its listeners at a time, and what waits for the others waits for that.
    listening = [each for each in mine if each.asks.is_in_listener]
    return next(iter(listening or [each for each in mine if each.receiver == holder.receiver]), None)


def is_elsewhere(receiver: ExplainedReceiver) -> bool:
    """The thread of its session has been in another of its listeners for long; of which message is not known here."""
    asks = receiver.asks
    return asks.has_listener and not asks.is_in_listener and (asks.ago_ms or 0) > LOOKS_MS


def process_of(answer: Mapping[str, Any]) -> str:
    """`process 4711 at worker-3`, as its answer says."""
    process = answer.get("process", {})
    return process_name(process.get("host", "?"), process.get("id", "?"))


def _receiver(process: str, told: Mapping[str, Any]) -> ExplainedReceiver:
    return ExplainedReceiver(
        process=process,
        client_id=str(told.get("client_id", "")),
        session=str(told.get("session", "")),
        receiver=str(told.get("receiver", "")),
        mode=str(told.get("mode", "")),
        selector=str(told.get("selector", "")),
        prefetch=int(told.get("prefetch", 0)),
        in_hand=int(told.get("in_hand", 0)),
        unread=int(told.get("unread", 0)),
        asks=_asks(told),
        is_stopped=bool(told.get("is_stopped")),
        is_idle=bool(told.get("is_idle")),
    )


def _asks(told: Mapping[str, Any]) -> Asks:
    ago_ms, taken = told.get("asked_ms_ago"), told.get("taken")
    return Asks(
        is_asking=bool(told.get("is_asking")),
        is_waiting=bool(told.get("is_waiting")),
        has_listener=bool(told.get("has_listener")),
        is_in_listener=bool(told.get("is_in_listener")),
        has_asked=bool(told.get("has_asked", True)),
        ago_ms=None if ago_ms is None else int(ago_ms),
        taken=None if taken is None else _taken(taken),
    )


def _taken(told: Mapping[str, Any]) -> Taken:
    return Taken(
        partition=int(told.get("partition", 0)),
        offset=int(told.get("offset", 0)),
        message_id=str(told.get("message_id", "")),
        since_ms=int(told.get("since_ms", 0)),
    )


def duration(ms: int) -> str:
    """A time that has passed, for people."""
    seconds = ms // 1_000
    if seconds < 1:
        return "less than 1 s"
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"
