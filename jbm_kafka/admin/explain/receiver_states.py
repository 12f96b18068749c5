"""What receivers of a queue or subscription do, in words: who waits, who works or hangs, and who is never called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jbm_kafka.admin.explain.explanation import Asks, ExplainedReceiver, Holder, Taken
from jbm_kafka.core.process_names import process_name

LOOKS_MS: Final = 2_000
"""A session's thread looks for messages of its listeners ten times a second, and its process notes that a bit later:
one that has not looked for so long is in another listener."""
CALLED_MS: Final = 5_000
"""One that asked less than so long ago will ask again, as far as anybody knows: a loop does so after each message."""
NEVER_CALLED: Final = "nobody calls its receive"
HANGS_MS: Final = 30_000
"""Nobody is to stop a process for a message that it has had for less: it works, and others wait for it in vain."""
_MORE_HELP: Final = "more receivers in that process help, or more processes, up to one a partition, or faster handlers"


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
    ago_ms = told.get("asked_ms_ago")
    return Asks(
        is_asking=bool(told.get("is_asking")),
        is_waiting=bool(told.get("is_waiting")),
        has_listener=bool(told.get("has_listener")),
        is_in_listener=bool(told.get("is_in_listener")),
        has_asked=bool(told.get("has_asked", True)),
        ago_ms=None if ago_ms is None else int(ago_ms),
        taken=_taken(told.get("taken")),
    )


def _taken(told: Mapping[str, Any] | None) -> Taken | None:
    if told is None:
        return None
    return Taken(
        partition=int(told.get("partition", 0)),
        offset=int(told.get("offset", 0)),
        message_id=str(told.get("message_id", "")),
        since_ms=int(told.get("since_ms", 0)),
    )


def does(each: ExplainedReceiver, *, is_empty: bool = False) -> str:
    """What it does now, as the end of a sentence about it; `is_empty`: nothing is held that it could wait for."""
    asks = each.asks
    idle = "waits for messages" if is_empty else "idle: nothing may go to it now"
    if each.is_stopped:
        return "its connection is not started"
    if asks.ago_ms is None:  # of an older version: it knows no more
        return idle if each.is_idle else "asks for more" if asks.is_asking else "is busy"
    ago = duration(asks.ago_ms)
    if asks.is_in_listener:
        return f"its listener has been in one message for {ago}" + (f": {asks.taken}" if asks.taken else "")
    if is_elsewhere(each):
        return (
            f"its session has been in another of its listeners for {ago}; explain of that one's queue names the message"
        )
    if asks.is_waiting:
        return idle if each.is_idle else "asks for more"
    if asks.has_listener:
        return "its session is in another of its listeners"
    if not asks.has_asked:
        return f"has not asked for a message in the {ago} since it is there: {NEVER_CALLED}"
    if each.in_hand > each.unread:
        return f"works on what it has; last asked {ago} ago" + (f", and got {asks.taken}" if asks.taken else "")
    if asks.ago_ms < CALLED_MS:
        return f"is between two receives; last asked {ago} ago"
    return f"has not asked for a message for {ago}: {NEVER_CALLED} meanwhile"


def why_none_asks(
    all_receivers: Sequence[ExplainedReceiver], owner: str, *, has_idle_members: bool = False
) -> tuple[str, str]:
    """Of a message that could go: what its owner's receivers do instead of asking, and what can be done.

    Both may be empty. Only the process that has a partition hands its messages over, so others that wait get none.
    `has_idle_members`: some processes have no partition, and so said nothing of their receivers.
    """
    receivers = [each for each in all_receivers if each.process == owner]
    told, remedy = _why_none_of_owner(receivers)
    is_waited_beside = has_idle_members or any(each.is_idle for each in all_receivers if each.process != owner)
    if not (told and is_waited_beside):
        return told, remedy
    told = f"only {owner} has its partition, and idle receivers of other processes get nothing of it; there {told}"
    if remedy.startswith(_MORE_HELP):  # there are some: they idle
        remedy = ""
    if any(_may_hang(each) for each in receivers):
        stop = f"if it hangs, stop {owner}: others get its partitions"
        remedy = f"{remedy}; {stop}" if remedy else stop
    return told, remedy


def _why_none_of_owner(receivers: Sequence[ExplainedReceiver]) -> tuple[str, str]:
    known = [each for each in receivers if each.asks.ago_ms is not None and not each.is_stopped]
    stopped = sum(each.is_stopped for each in receivers)
    waiting = sum(each.asks.is_waiting for each in known)
    listening = [each for each in known if each.asks.has_listener and not each.asks.is_waiting]
    called = [each for each in known if not (each.asks.has_listener or each.asks.is_waiting)]
    unasked = sum(not each.asks.has_asked for each in called)
    working = [each for each in called if each.asks.has_asked and each.in_hand > each.unread]
    done = [each for each in called if each.asks.has_asked and each.in_hand <= each.unread]
    between = [each for each in done if (each.asks.ago_ms or 0) < CALLED_MS]
    left = [each for each in done if each not in between]
    told = [
        f"{_are(len(listening), 'in a listener')}, for {_longest(listening)}{_in_what(listening)}" if listening else "",
        f"{_are(len(working), 'at work')}, and asked {_shortest(working)} ago{_in_what(working)}" if working else "",
        f"{_are(len(between), 'between two receives')}" if between else "",
        f"{_are(len(left), 'not called any more')}, and asked {_shortest(left)} ago" if left else "",
        f"{unasked} never asked: {NEVER_CALLED}" if unasked else "",
        f"{_are(waiting, 'waiting')} with as much in hand as the prefetch allows" if waiting else "",
        _are(stopped, "of a connection that is not started") if stopped else "",
    ]
    remedy = "call receive of those that never asked, or close them" if unasked else ""
    if not remedy and (listening or working):
        remedy = _MORE_HELP
        if any(_may_hang(each) for each in (*listening, *working)):
            remedy += "; where one hangs, stop its process"
    return "; ".join(each for each in told if each), remedy


def _may_hang(each: ExplainedReceiver) -> bool:
    """It has been in one message for long."""
    asks = each.asks
    return (asks.taken is not None or asks.is_in_listener or each.in_hand > each.unread) and (
        (asks.ago_ms or 0) >= HANGS_MS
    )


def duration(ms: int) -> str:
    """A time that has passed, for people."""
    seconds = ms // 1_000
    if seconds < 1:
        return "less than 1 s"
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"


def _are(count: int, what: str) -> str:
    return f"{count} {'is' if count == 1 else 'are'} {what}"


def _longest(some: Sequence[ExplainedReceiver]) -> str:
    longest = duration(max(each.asks.ago_ms or 0 for each in some))
    return longest if len(some) == 1 else f"{longest} at most"


def _in_what(some: Sequence[ExplainedReceiver]) -> str:
    """The message that is worked on the longest, and by whom."""
    known = [each for each in some if each.asks.taken is not None]
    if not known:
        return ""
    longest = max(known, key=lambda each: each.asks.ago_ms or 0)
    who = f"{longest.receiver} in {longest.process}"
    return f": {who if len(some) == 1 else f'the longest, {who},'} is in {longest.asks.taken}"


def _shortest(some: Sequence[ExplainedReceiver]) -> str:
    shortest = duration(min(each.asks.ago_ms or 0 for each in some))
    return shortest if len(some) == 1 else f"{shortest} or more"
