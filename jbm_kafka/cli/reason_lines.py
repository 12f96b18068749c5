"""The lines of `jbm-kafka explain` for reasons: each once, with how many it keeps and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from jbm_kafka.admin import ExplainedMessage, Reason
from jbm_kafka.admin.explain.reasons import is_at_work
from jbm_kafka.cli.render import printable, short, when

SUMMED_MIN = 2
"""A single message at work is shown in full, with its receiver."""


class ReasonLines:
    """Of one answer."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str]] = set()
        self._remedies = {""}
        """Each stands with its first reason only."""

    def show(self, reasons: Iterable[Reason], indent: str = "") -> None:
        """A line for each reason that was not shown yet."""
        for reason in self.new(reasons):
            self._shown.add(_key(reason))
            click.echo(f"{indent}{_line(reason)}")
            if reason.remedy not in self._remedies:
                self._remedies.add(reason.remedy)
                click.echo(f"{indent}  {printable(reason.remedy)}")

    def new(self, reasons: Iterable[Reason]) -> Sequence[Reason]:
        """Those that were not shown yet."""
        return [reason for reason in reasons if _key(reason) not in self._shown]

    def of_units(self, messages: Sequence[ExplainedMessage], now_ms: int) -> None:
        """As `of_messages`, of what waits longest in all units; those at work are only counted, as they change fast."""
        at_work = [message for message in messages if is_at_work(message, now_ms)]
        if len(at_work) < SUMMED_MIN:
            at_work = []
        self.of_messages(message for message in messages if message not in at_work)
        if at_work:
            click.echo(f"{len(at_work)} units or messages: workers are at them")

    def of_messages(self, messages: Iterable[ExplainedMessage]) -> None:
        """Each message with what keeps it; what keeps several in the same way stands before them, with their number."""
        kept: dict[tuple[tuple[str, str], ...], list[ExplainedMessage]] = {}
        for message in messages:
            kept.setdefault(tuple(map(_key, message.reasons)), []).append(message)
        for some in kept.values():
            why = self.new(some[0].reasons)
            is_summed = len(some) > 1 and bool(why)
            if is_summed:
                click.echo(f"{len(some)} units or messages:")
                self.show(why, "  ")
            for message in some:
                click.echo(f"{'    ' if is_summed else ''}{_head(message)}")
            self.show(why, "  ")


def _key(reason: Reason) -> tuple[str, str]:
    """The same where people read the same."""
    return _line(reason), reason.remedy


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
