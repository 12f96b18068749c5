"""Which selectors the receivers of a queue have, and which of them choose a message. Owner thread only.

Each distinct selector, by its normal form, has a bit for as long as a receiver has it; those without one share
EVERYONE. A message is asked about once, when it is read, and again only when a selector comes. While nobody has a
selector nobody is asked anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import cast

from jbm_kafka.codec.record_values import record_value
from jbm_kafka.core.changes import Selected
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.reference import EVERYONE, Reference
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.link import Link


class Selections:
    """The selectors of one channel group, and the bit of each."""

    def __init__(self) -> None:
        self.present = EVERYONE
        """The bits of all that receivers have now; when the last receiver goes, those that were."""
        self.is_selecting = False
        """Some receiver has a selector."""
        self._bits: dict[Selector, int] = {}

    def bit_of(self, selector: Selector | None) -> int:
        """The bit in the channels of a receiver's selector; EVERYONE's where selectors do not count."""
        return EVERYONE if selector is None else self._bits.get(selector, EVERYONE)

    def take(self, links: Collection[Link], states: Iterable[ChannelState]) -> None:
        """These are the receivers from now on: each selector gets its bit, and the channels learn what they choose."""
        if not links:
            return
        had = {link.terms.selector for link in links}
        self._bits = {selector: bit for selector, bit in self._bits.items() if selector in had}
        come = {selector: self._number(selector) for selector in had if selector and selector not in self._bits}
        present = 0
        for selector in had:
            present |= self.bit_of(selector)
        if present == self.present and not come:
            return
        asks = bool(come or present & ~self.present)
        self.present, self.is_selecting = present, present != EVERYONE
        for state in states:
            changed = {each.offset: _asked(each, each.chosen_by, come) for each in state.in_memory()} if come else {}
            state.apply(Selected(present, changed, asks))

    def look(self, references: Iterable[Reference]) -> None:
        """Note on messages that a channel is about to take which selectors choose them."""
        if self.is_selecting:
            for reference in references:
                reference.chosen_by = _asked(reference, EVERYONE, self._bits)

    def wanted_by(self, links: Iterable[Link]) -> int:
        """The bits of those that would take more now; of all when none would."""
        if not self.is_selecting:
            return EVERYONE
        wanted = 0
        for link in links:
            if link.demand.credit > 0:
                wanted |= self.bit_of(link.terms.selector)
        return wanted or self.present

    def _number(self, selector: Selector) -> int:
        bit, taken = EVERYONE << 1, sum(self._bits.values())
        while bit & taken:
            bit <<= 1
        self._bits[selector] = bit
        return bit


def _asked(reference: Reference, chosen_by: int, bits: dict[Selector, int]) -> int:
    """The bits of the selectors that choose it; only these are asked, the others stay as they were."""
    read = partial(record_value, cast(KafkaRecord, reference.record))
    for selector, bit in bits.items():
        chosen_by = chosen_by | bit if selector.matches(read) else chosen_by & ~bit
    return chosen_by
