"""Which selectors the receivers of a queue have, and which of them choose a message. Owner thread only.

Each distinct selector, by its normal form, has a bit for as long as a receiver has it; those without one share
EVERYONE. A message is asked about once, when it is read, and again only when a selector comes. While nobody has a
selector nobody is asked anything.

A receiver that must not get some messages again (`Link.undeliverable`) has a bit of its own meanwhile: to the channels
it has a selector that does not choose those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import cast

from jbm_kafka.codec.record_values import record_value
from jbm_kafka.core.channel.changes import Selected
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import EVERYONE, Reference
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.link import Link

Chooser = Selector | Link | None


class Selections:
    """The selectors of one channel group, and the bit of each."""

    def __init__(self, *, counts_selectors: bool = True) -> None:
        """`counts_selectors`: False for a subscription; what its selector does not choose it never has."""
        self._counts_selectors = counts_selectors
        self.present = EVERYONE
        """The bits of all that receivers have now; when the last receiver goes, those that were."""
        self.is_selecting = False
        """Some receiver has a selector."""
        self._bits: dict[Chooser, int] = {}

    def bit_of(self, link: Link) -> int:
        """The bit in the channels of what a receiver chooses."""
        return self._bits.get(self._chooser(link), EVERYONE)

    def _chooser(self, link: Link) -> Chooser:
        if link.undeliverable:
            return link
        return link.terms.selector if self._counts_selectors else None

    def take(self, links: Collection[Link], states: Iterable[ChannelState]) -> None:
        """These are the receivers from now on: each selector gets its bit, and the channels learn what they choose."""
        if not links:
            return
        had = {self._chooser(link) for link in links}
        self._bits = {chooser: bit for chooser, bit in self._bits.items() if chooser in had}
        new = had.difference(self._bits, [None])
        come: dict[Chooser, int] = {chooser: self._number(chooser) for chooser in new}
        present = 0
        for chooser in had:
            present |= self._bits.get(chooser, EVERYONE)
        if present == self.present and not come:
            return
        asks = bool(come or present & ~self.present)
        self.present, self.is_selecting = present, present != EVERYONE
        for state in states:
            asked = state.in_memory() if come else ()
            changed = {each.offset: self._asked(each, each.chosen_by, come) for each in asked}
            state.apply(Selected(present, changed, asks))

    def look(self, references: Iterable[Reference]) -> None:
        """Note on messages that a channel is about to take which selectors choose them."""
        if self.is_selecting:
            for reference in references:
                reference.chosen_by = self._asked(reference, EVERYONE, self._bits)

    def wanted_by(self, links: Iterable[Link]) -> int:
        """The bits of those that would take more now; of all when none would."""
        if not self.is_selecting:
            return EVERYONE
        wanted = 0
        for link in links:
            if link.demand.credit > 0:
                wanted |= self.bit_of(link)
        return wanted or self.present

    def _number(self, chooser: Chooser) -> int:
        bit, taken = EVERYONE << 1, sum(self._bits.values())
        while bit & taken:
            bit <<= 1
        self._bits[chooser] = bit
        return bit

    def _asked(self, reference: Reference, chosen_by: int, bits: dict[Chooser, int]) -> int:
        """The bits of those that choose it; only these are asked, the others stay as they were."""
        record = cast(KafkaRecord, reference.record)
        read = partial(record_value, record)
        for chooser, bit in bits.items():
            if isinstance(chooser, Link):
                selector = chooser.terms.selector if self._counts_selectors else None
                is_chosen = (record.partition(), reference.offset) not in chooser.undeliverable
            else:
                selector, is_chosen = chooser, True
            is_chosen = is_chosen and (selector is None or selector.matches(read))
            chosen_by = chosen_by | bit if is_chosen else chosen_by & ~bit
        return chosen_by
