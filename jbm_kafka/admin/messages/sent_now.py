"""Messages that wait for a time, and letting them go before it (SEND-10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jbm_kafka.admin.cluster.admin_core import patiently
from jbm_kafka.admin.messages.operations import KeptMessage, MessagesReport, SeenAnew
from jbm_kafka.admin.messages.selection import Choice, ChosenMessage, choose
from jbm_kafka.admin.owners.owner_client import Owners
from jbm_kafka.codec.command_records import SEND_NOW, Answer
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.destination import Destination
from jbm_kafka.ports.provider import Seen

ASKED_AT_ONCE = 1_000
"""Messages of one command: a record of some tens of kilobytes."""
UNREAD = "its owner has not read it yet: again in a moment"


def send_now(
    queue: Destination,
    choice: Choice,
    *,
    seen: SeenAnew,
    owners: Owners,
    count: int | None,
    dry_run: bool,
    timeout_s: float,
) -> MessagesReport:
    """Have their owners let those go that are meant and wait for a time.

    Raises:
        JMSError: as of `Owners.ask_in_turn`.
    """
    keys: dict[tuple[int, int], bytes | None] = {}
    chosen = patiently(lambda: choose(_timed(seen(), keys), choice, order="log", count=count))
    fates: dict[str, list[ChosenMessage]] = {"done": [], "in_hand": [], "gone": []}
    kept: list[KeptMessage] = []
    if dry_run:
        fates["done"] += chosen.messages
    elif chosen.messages:
        mine: dict[int, list[ChosenMessage]] = {}
        for each in chosen.messages:
            mine.setdefault(each.partition, []).append(each)
        turns = {partition: partial(_next, messages, keys) for partition, messages in mine.items()}
        asked = owners.ask_in_turn(SEND_NOW, turns, timeout_s=timeout_s)
        for partition, messages in mine.items():
            answers = asked.answers.get(partition, ())
            refusal = next((each.error for each in answers if each.error), asked.why_unanswered)
            fate_of = {offset: fate for each in answers for fate, offsets in each.result.items() for offset in offsets}
            for message in messages:
                fate = fate_of.get(message.offset)
                if fate in fates:
                    fates[fate].append(message)
                else:
                    kept.append(KeptMessage(message, UNREAD if fate == "unread" else refusal))
    return MessagesReport(
        queue=queue,
        verb=SEND_NOW,
        is_dry_run=dry_run,
        address=None,
        messages=fates["done"],
        in_hand=fates["in_hand"],
        kept=kept,
        gone=fates["gone"],
        left_out=chosen.left_out,
        warnings=(),
    )


def _timed(seen: Iterable[Seen], keys: dict[tuple[int, int], bytes | None]) -> Iterator[Seen]:
    """Those that wait for a time; of each its key goes into `keys`."""
    for each in seen:
        if 0 < each.due_at_ms < FOREVER_MS:
            keys[each.record.partition() or 0, each.record.offset() or 0] = each.record.key() or None
            yield each


def _next(
    messages: Sequence[ChosenMessage], keys: Mapping[tuple[int, int], bytes | None], answers: Sequence[Answer]
) -> Mapping[str, Any] | None:
    begin = len(answers) * ASKED_AT_ONCE
    asked = messages[begin : begin + ASKED_AT_ONCE]
    units = [(each.offset, keys[each.partition, each.offset]) for each in asked]
    return {"messages": [[offset, unit and unit.hex()] for offset, unit in units]} if asked else None
