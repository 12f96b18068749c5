"""The things that need somebody, in words: from what is held alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from pydantic import BaseModel

from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.held_in_order import HeldKind

Weight = Literal["bad", "warn", "info"]
ORDER: dict[Weight, int] = {"bad": 0, "warn": 1, "info": 2}
OLD_MS = 5 * 60 * 1_000
"""The time after which a message that could go and has not stands still."""
PREPARED_OLD_MS = 10 * 60 * 1_000


class Need(BaseModel):
    """One thing that somebody should look at."""

    weight: Weight
    about: str
    text: str
    button: str
    path: str
    """Where the button leads."""


def needs_of(found: Backlogs, letter_queues: Collection[str], now_ms: int) -> list[Need]:
    """The worst first."""
    needs = [need for each in found.backlogs for need in _of(each, each.destination in letter_queues, now_ms)]
    if found.oldest_prepared_at_ms is not None and now_ms - found.oldest_prepared_at_ms >= PREPARED_OLD_MS:
        text = f"{_count(found.prepared, 'prepared branch', 'prepared branches')} wait for their transaction managers"
        needs.append(_need("bad", "transactions", text, "See branches", "/transactions"))
    needs += [
        _need(
            "warn", group, "its log or changelog cannot be read now; what is shown of it is older", "Check", "/checkup"
        )
        for group in found.unreadable
    ]
    return sorted(needs, key=lambda each: (ORDER[each.weight], each.about))


def _of(backlog: Backlog, has_letters: bool, now_ms: int) -> Iterator[Need]:
    source, held, counts = SourceName.of(backlog), backlog.held, backlog.counts
    name = source.title
    if has_letters:
        if held:
            text = f"{_count(held, 'dead letter waits', 'dead letters wait')} for somebody to decide"
            yield _need("bad", name, text, "See letters", f"/queues/{backlog.destination}/letters")
        return
    if backlog.is_receiving_paused:
        yield _need(
            "warn", name, f"receiving is paused; {_count(held, 'message')} held", "Resume", _act("resume", source)
        )
    if backlog.is_sending_paused:
        yield _need("warn", name, "sending is paused: senders get an error", "Resume", _act("resume", source))
    if on_hold := counts.get(HeldKind.ON_HOLD, 0):
        text = f"{_count(on_hold, 'unit is', 'units are')} on hold, out of attempts"
        yield _need("bad", name, text, "Decide", _act("release", source))
    if backlog.failing:
        failing = _count(backlog.failing, "message fails", "messages fail")
        text = f"{failing} again and again, up to {backlog.attempts_max} times"
        yield _need("warn", name, text, "Explain", source.page("why"))
    if held and not backlog.receivers and not backlog.is_receiving_paused:
        text = f"{_count(held, 'message')} held, and nobody receives"
        yield _need("bad" if _is_old(backlog, now_ms) else "warn", name, text, "Explain", source.page("why"))
    elif backlog.receivers and not backlog.is_receiving_paused and _is_old(backlog, now_ms):
        ready = counts.get(HeldKind.DELIVERABLE, 0)
        text = f"{_count(ready, 'message could', 'messages could')} go, and none has for minutes"
        yield _need("bad", name, text, "Explain", source.page("why"))
    if backlog.uncommitted:
        text = f"{_count(backlog.uncommitted, 'record waits', 'records wait')} for the end of a Kafka transaction"
        yield _need("info", name, text, "Explain", source.page("why"))


def _is_old(backlog: Backlog, now_ms: int) -> bool:
    oldest = backlog.oldest_at_ms.get(
        HeldKind.DELIVERABLE, backlog.oldest_held_at_ms if not backlog.is_counted else None
    )
    return oldest is not None and now_ms - oldest >= OLD_MS


def _count(number: int, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def _act(action: str, source: SourceName) -> str:
    return f"/actions/{action}?{source.query}"


def _need(weight: Weight, about: str, text: str, button: str, path: str) -> Need:
    return Need(weight=weight, about=about, text=text, button=button, path=path)
