"""Foresees an operator's command: the messages that are meant, without those that workers have in hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from jbm_kafka.admin.messages.selection import ChosenMessage
from jbm_kafka.admin.owners.present_owners import PresentOwners
from jbm_kafka.codec.command_records import EXPLAIN
from jbm_kafka.codec.identity import unit_name
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.ports.provider import Seen

ASKED_MAX = 5_000
"""The number asked about one partition in one command. More in hand is more than any prefetch, and what is not asked
stays, to be safe."""
TIMEOUT_S = 5.0

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Handed:
    """The part of a queue that is with receivers, unread or not, by a look at it."""

    units: dict[Place, bytes | None] = field(default_factory=dict)

    def noting(self, seen: Iterable[Seen]) -> Iterator[Seen]:
        """The same messages; what is with receivers is noted."""
        self.units.clear()
        for each in seen:
            if each.state is MessageState.DELIVERED:
                record = each.record
                self.units[record.partition() or 0, record.offset() or 0] = record.key() or None
            yield each

    def worked_on(self, owners: PresentOwners) -> InHand:
        """Return what of them stays: applications have it. What lies unread in a process is taken back."""
        by_partition: dict[int, dict[int, str | None]] = {}
        for (partition, offset), key in self.units.items():
            by_partition.setdefault(partition, {})[offset] = None if key is None else key.hex()
        answers = owners.ask(
            EXPLAIN,
            {
                partition: {"messages": list(islice(each.items(), ASKED_MAX))}
                for partition, each in by_partition.items()
            },
            timeout_s=TIMEOUT_S,
        )
        unread = {
            (partition, each.get("offset"))
            for partition, answer in answers.results.items()
            for each in answer.get("messages", ())
            if each.get("holder", {}).get("is_unread")
        }
        places = self.units.keys() - unread
        units = {(place[0], unit_name(key)) for place in places if (key := self.units[place]) is not None}
        return InHand(places, units)


@dataclass(frozen=True, slots=True)
class InHand:
    """The messages that applications work on."""

    places: Collection[Place] = frozenset()
    units: Collection[tuple[int, str | None]] = frozenset()
    """Units of which they have something, each with its partition."""

    def split(
        self, messages: Sequence[ChosenMessage], *, whole_units: bool
    ) -> tuple[list[ChosenMessage], list[ChosenMessage], list[ChosenMessage]]:
        """Return what would leave, what is in hand, and what stays behind that; the last only of `whole_units`."""
        leave: list[ChosenMessage] = []
        in_hand: list[ChosenMessage] = []
        behind: list[ChosenMessage] = []
        for each in messages:
            if (each.partition, each.offset) in self.places:
                in_hand.append(each)
            elif whole_units and each.unit is not None and (each.partition, each.unit) in self.units:
                behind.append(each)
            else:
                leave.append(each)
        return leave, in_hand, behind
