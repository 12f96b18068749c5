"""Divides what the owner of one partition is asked to take out into portions, as far as units allow: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jbm_kafka.admin.messages.selection import ChosenMessage
from jbm_kafka.codec.command_records import Answer
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.destination import Queue

PORTION = 1_000
"""Messages that leave in one transaction."""
PORTION_BYTES = 8 * 2**20
PORTION_UNCOPIED = 20_000
"""The size of a portion that is only removed. It bounds the size of a command."""

BEHIND = "behind"
"""An owner's answer about a message that stays with its unit."""
FATES = ("done", "in_hand", BEHIND, "too_large", "gone")
"""All that it answers."""


@dataclass(frozen=True, slots=True)
class Portions:
    """The portions of one partition."""

    verb: Verb
    to: Queue | None
    splits_units: bool
    messages: Sequence[Sequence[ChosenMessage]]
    """In their order."""

    def arguments(self, answers: Sequence[Answer]) -> Mapping[str, Any] | None:
        """Return what is asked for next, when the first portions were answered so; None: nothing more."""
        number = len(answers)
        if number == len(self.messages):
            return None
        stuck = self._stuck(answers)
        asked: dict[str, Any] = {"offsets": [each.offset for each in self.messages[number] if each.unit not in stuck]}
        if self.to is not None:
            asked |= {"to": self.to.name, "splits_units": self.splits_units}
        return asked

    def fates(self, answers: Sequence[Answer]) -> Iterator[tuple[ChosenMessage, str | None]]:
        """Each message and what its owner answered of it; None: it was not asked, or refused."""
        for number, portion in enumerate(self.messages):
            if number >= len(answers) or answers[number].error:
                yield from ((message, None) for message in portion)
                continue
            result = answers[number].result
            fates = {offset: fate for fate in FATES for offset in result.get(fate, ())}
            yield from ((message, fates.get(message.offset, BEHIND)) for message in portion)

    def _stuck(self, answers: Sequence[Answer]) -> frozenset[str]:
        """Units of which something stays: what is behind it may not pass it, though nothing holds it any more."""
        if self.verb is not Verb.MOVE:
            return frozenset()
        stay = (BEHIND, "in_hand") if self.splits_units else (BEHIND, "in_hand", "too_large")
        units = (message.unit for message, fate in self.fates(answers) if fate in stay)
        return frozenset(unit for unit in units if unit is not None)


def portions_of(
    messages: Sequence[ChosenMessage], *, is_copied: bool
) -> Mapping[int, Sequence[Sequence[ChosenMessage]]]:
    """Return them by partition, each in one transaction of a fair size, in their order."""
    limit = PORTION if is_copied else PORTION_UNCOPIED
    found: dict[int, list[list[ChosenMessage]]] = {}
    sizes: dict[int, int] = {}
    for message in messages:
        mine = found.setdefault(message.partition, [[]])
        size = sizes.get(message.partition, 0) + message.bytes
        if mine[-1] and (len(mine[-1]) >= limit or (is_copied and size > PORTION_BYTES)):
            mine.append([])
            size = message.bytes
        mine[-1].append(message)
        sizes[message.partition] = size
    return found
