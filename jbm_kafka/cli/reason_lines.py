"""The lines of `jbm-kafka explain` that tell reasons: each once, with how many it keeps and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from jbm_kafka.admin import ExplainedMessage, Reason
from jbm_kafka.cli.render import printable, short, when


class ReasonLines:
    """Of one answer."""

    def __init__(self) -> None:
        self._told: set[Reason] = set()
        self._remedies: set[str] = set()
        """What can be done is told with the first reason that asks for it."""

    def of_all(self, reasons: Iterable[Reason]) -> None:
        """What keeps everything; it is not told again of each message."""
        for reason in reasons:
            self._told.add(reason)
            self._tell(reason, "")

    def of_messages(self, messages: Iterable[ExplainedMessage]) -> None:
        """Each message with what keeps it; what keeps several in the same way stands before them, with their number."""
        kept: dict[tuple[Reason, ...], list[ExplainedMessage]] = {}
        for message in messages:
            kept.setdefault(message.reasons, []).append(message)
        for reasons, some in kept.items():
            new = [reason for reason in reasons if not self._is_told(reason)]
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

    def _is_told(self, reason: Reason) -> bool:
        """The same, as far as people are told: a remedy may be left out where nothing is held."""
        return any((each.rule, each.text) == (reason.rule, reason.text) for each in self._told)

    def _tell(self, reason: Reason, indent: str) -> None:
        since = "" if reason.since_ms is None else f", since {when(reason.since_ms)} UTC"
        until = "" if reason.until_ms is None else f", until {when(reason.until_ms)} UTC"
        click.echo(f"{indent}{printable(reason.text)}{since}{until}")
        if reason.remedy and reason.remedy not in self._remedies:
            self._remedies.add(reason.remedy)
            click.echo(f"{indent}  {printable(reason.remedy)}")


def _head(message: ExplainedMessage) -> str:
    unit = "a message without a unit" if message.unit is None else f"unit {short(printable(message.unit))}"
    tries = f", delivered {message.attempts} time{'' if message.attempts == 1 else 's'}" if message.attempts else ""
    behind = f", {message.behind} behind it" if message.behind else ""
    return (
        f"{unit}: partition {message.partition} offset {message.offset}, {short(printable(message.message_id))}, "
        f"sent {when(message.sent_at_ms)} UTC{tries}{behind}"
    )
