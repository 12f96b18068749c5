"""The lines of `jbm-kafka explain` for reasons: each once, with how many it keeps and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import click

from jbm_kafka.admin import ExplainedMessage, Reason
from jbm_kafka.cli.render import printable, short


class ReasonLines:
    """The lines of one answer."""

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
        """Return those that were not shown yet."""
        return [reason for reason in reasons if _key(reason) not in self._shown]

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
                unit = message.unit and short(message.unit)
                head = replace(message, reasons=(), unit=unit, message_id=short(message.message_id))
                click.echo(f"{'    ' if is_summed else ''}{printable(str(head))}")
            self.show(why, "  ")


def _key(reason: Reason) -> tuple[str, str]:
    """The same where people read the same."""
    return _line(reason), reason.remedy


def _line(reason: Reason) -> str:
    return printable(str(replace(reason, remedy="")))
