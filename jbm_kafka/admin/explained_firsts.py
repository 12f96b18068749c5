"""Units whose first message is settled while they are asked about: what the owner says of the one that is first now.

What is settled is seen in the changelog after the next checkpoint only, so the owner is always ahead of it. Besides the
first it is asked about some that follow, and what waits behind another names that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jbm_kafka.admin.asking_present import Told
from jbm_kafka.admin.held_units import Held, HeldMessageRow
from jbm_kafka.core.blocking_rule import Rule

Answers = Mapping[int, Mapping[str, Any]]
"""By offset what an owner said of a message."""
_NOT_FIRST = frozenset(rule.value for rule in (Rule.SETTLED, Rule.BEHIND, Rule.NOT_READ))


def answers_of(told: Told, partition: int) -> Answers:
    """What was said of messages of this partition, the latest of each."""
    return {each["offset"]: each for each in told.results.get(partition, {}).get("messages", ()) if "offset" in each}


def is_settled(row: HeldMessageRow, told: Told) -> bool:
    """Its owner says so."""
    return answers_of(told, row.partition).get(row.offset, {}).get("rule") == Rule.SETTLED.value


def first_now(first: HeldMessageRow, told: Told) -> Mapping[str, Any] | None:
    """What is said of the message that is first in this unit, whose first of before is settled; None: it is not known.

    Its rule is BEHIND where it is known by its offset alone.
    """
    said = answers_of(told, first.partition)
    later = [said[offset] for offset in first.later if offset in said]
    for each in later:
        head, holder = each.get("head"), each.get("holder")
        if each.get("rule") != Rule.BEHIND.value or head is None:
            continue
        if head in said:
            return None if said[head].get("rule") == Rule.SETTLED.value else said[head]
        # Who holds the unit is told with what waits behind it.
        return each if holder is None else {"offset": head, "rule": Rule.IN_HAND.value, "holder": holder}
    return next((each for each in later if each.get("rule") not in _NOT_FIRST), None)


def is_exact(first: HeldMessageRow, now: Mapping[str, Any], told: Told) -> bool:
    """Whether that is said of the first of its unit and not, perhaps, of one that comes soon behind it.

    Of what it has not looked at yet, and of all that is in one hand, an owner does not say what is before it.
    """
    said = answers_of(told, first.partition)
    heads = {said[offset].get("head") for offset in first.later if offset in said}
    return now["offset"] in heads or now["offset"] in first.later[:2]


def still_to_ask(firsts: Iterable[HeldMessageRow], told: Told) -> Mapping[int, Sequence[tuple[int, str | None]]]:
    """By partition those that are first now, of which only the offset is known, as owners are asked about them."""
    found: dict[int, list[tuple[int, str | None]]] = {}
    for first in firsts:
        now = first_now(first, told) if is_settled(first, told) else None
        if now is not None and now.get("rule") == Rule.BEHIND.value:
            key = None if first.key is None else first.key.hex()
            found.setdefault(first.partition, []).append((int(now["head"]), key))
    return found


def with_more(told: Told, more: Told) -> Told:
    """Both, of what was asked about twice the later."""
    results = dict(told.results)
    for partition, answer in more.results.items():
        before = results.get(partition, {}).get("messages", ())
        results[partition] = {**answer, "messages": [*before, *answer.get("messages", ())]}
    return Told(results, told.silent)


def with_firsts(told: Told, firsts: Iterable[HeldMessageRow]) -> Told:
    """As if it had been asked about those that are first now, too, of which all is known."""
    more = Told()
    for first in firsts:
        now = first_now(first, told) if is_settled(first, told) else None
        if now is not None:
            answer = more.results.get(first.partition, told.results[first.partition])
            more.results[first.partition] = {**answer, "messages": [*answer["messages"], now]}
    return Told({**told.results, **more.results}, told.silent)


def gone_on(first: HeldMessageRow, held: Held, told: Told) -> HeldMessageRow:
    """The row of the message that is first now; the same where it is not settled, or the next is not known."""
    now = first_now(first, told) if is_settled(first, told) else None
    if now is None or now.get("rule") == Rule.BEHIND.value or not is_exact(first, now, told):
        return first
    of_unit = [row for row in held.wanted if (row.partition, row.key) == (first.partition, first.key)]
    for place, row in enumerate(of_unit):
        if row.offset == now["offset"]:
            return replace(row, behind=len(of_unit) - place - 1, has_gone_on=True)
    return first
