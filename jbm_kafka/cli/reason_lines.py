"""The lines of `jbm-kafka explain` that tell reasons: each once, with how many it keeps and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

import click

from jbm_kafka.admin import ExplainedMessage, Reason, Rule
from jbm_kafka.admin.reasons import is_at_work
from jbm_kafka.cli.render import printable, short, when

SUMMED_MIN = 2
"""A single message at work is shown in full, with its receiver."""


class ReasonLines:
    """Of one answer."""

    def __init__(self) -> None:
        self._of_all: set[tuple[Rule, str]] = set()
        """What was told of everything."""
        self._told: set[tuple[Rule, str]] = set()
        self._remedies: set[str] = set()
        """Remedies that were printed already: each stands with its first reason only."""

    def of_all(self, reasons: Sequence[Reason]) -> None:
        """What keeps everything; it is not told again of each message."""
        for reason, following in zip_longest(reasons, reasons[1:]):
            self._of_all.add(_said(reason))
            # What ends several that follow each other stands behind the last of them.
            is_shared = following is not None and following.remedy == reason.remedy
            self._tell(replace(reason, remedy="") if is_shared else reason, "")

    def of_units(self, messages: Sequence[ExplainedMessage], now_ms: int) -> None:
        """As `of_messages`, of what waits longest in all units; of those that workers are at their number alone.

        On a busy queue there are always some, and never the same for long: they hid the one that waited for an hour.
        """
        at_work = [message for message in messages if is_at_work(message, now_ms)]
        if len(at_work) < SUMMED_MIN:
            self.of_messages(messages)
            return
        self.of_messages(message for message in messages if message not in at_work)
        what = "units" if all(message.unit is not None for message in at_work) else "units or messages"
        click.echo(
            f"{len(at_work)} {what}: workers are at them (the first of each is in work or was finished a moment ago)"
        )

    def of_messages(self, messages: Iterable[ExplainedMessage]) -> None:
        """Each message with what keeps it; what keeps several in the same way stands before them, with their number."""
        kept: dict[tuple[tuple[str, str], ...], list[ExplainedMessage]] = {}
        for message in messages:
            # As they are read: what waits until the same second is told once.
            kept.setdefault(tuple((_line(each), each.remedy) for each in message.reasons), []).append(message)
        for some in kept.values():
            new = [reason for reason in some[0].reasons if _said(reason) not in self._of_all]
            if len(some) == 1 or not new:
                for message in some:
                    click.echo(_head(message))
                    for reason in new:
                        self._tell(reason, "  ")
                continue
            click.echo(f"{len(some)} units or messages:")
            for reason in new:
                self._tell(reason, "  ")
            for message in some:
                click.echo(f"    {_head(message)}")

    def of_one(self, reasons: Sequence[Reason]) -> None:
        """What keeps a partition."""
        for reason in reasons:
            self._tell(reason, "  ")

    def untold(self, reasons: Iterable[Reason]) -> Sequence[Reason]:
        """Those that were not told yet, of anything."""
        return [reason for reason in reasons if _said(reason) not in self._told]

    def _tell(self, reason: Reason, indent: str) -> None:
        self._told.add(_said(reason))
        click.echo(f"{indent}{_line(reason)}")
        if reason.remedy and reason.remedy not in self._remedies:
            self._remedies.add(reason.remedy)
            click.echo(f"{indent}  {printable(reason.remedy)}")


def _said(reason: Reason) -> tuple[Rule, str]:
    """The same, as far as people are told: a remedy may be left out where nothing is held."""
    return reason.rule, reason.text


def _line(reason: Reason) -> str:
    since = "" if reason.since_ms is None else f", since {when(reason.since_ms)} UTC"
    until = "" if reason.until_ms is None else f", until {when(reason.until_ms)} UTC"
    return f"{printable(reason.text)}{since}{until}"


def _head(message: ExplainedMessage) -> str:
    unit = "a message without a unit" if message.unit is None else f"unit {short(printable(message.unit))}"
    attempts = f", {message.attempts} attempt{'' if message.attempts == 1 else 's'}" if message.attempts else ""
    behind = f", {message.behind} behind it" if message.behind else ""
    return (
        f"{unit}: partition {message.partition} offset {message.offset}, {short(printable(message.message_id))}, "
        f"sent {when(message.sent_at_ms)} UTC{attempts}{behind}"
    )
