"""The effects on messages of resets of a group's offsets, for people: one text, however many partitions were reset.
Pure."""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.channel.start_position import Reset


def effects_of(resets: Mapping[int, Reset]) -> str:
    """Return what comes again, and what never comes; by partition. Empty for no reset."""
    again = {place: f"from {each.begin} on" for place, each in resets.items() if each.comes_again}
    skipped = {
        place: f"from {each.skipped.first} to {each.skipped.last}"
        for place, each in resets.items()
        if each.skipped is not None
    }
    effects = [f"again comes what was delivered of {_places(again)}"] if again else []
    if skipped:
        effects.append(f"never comes what was not settled of {_places(skipped)}")
    return "; ".join(effects)


def offsets_before(resets: Mapping[int, Reset]) -> Mapping[int, int]:
    """Return by partition the offset that undoes it; not of those that are there, or where nobody knows it."""
    return {
        place: before
        for place, each in sorted(resets.items())
        if (before := each.before) is not None and before != each.begin
    }


def undo_of(resets: Mapping[int, Reset]) -> str:
    """How they are undone, as a sentence; empty where nothing undoes them."""
    before = offsets_before(resets)
    if not before:
        return ""
    places = _places({place: f"to {offset}" for place, offset in before.items()}, joint=", of ")
    undo = f"To undo it stop the workers and set the offset of {places}"
    if any(resets[place].begin < offset for place, offset in before.items()):
        undo += "; not once that has come: it would come again"
    return undo


def _places(texts: Mapping[int, str], *, joint: str = ", ") -> str:
    """`partition 3 from 17 on, partitions 0-2, 5 from 0 on`: partitions with the same offset stand together."""
    places: dict[str, list[int]] = {}
    for place in sorted(texts):
        places.setdefault(texts[place], []).append(place)
    return joint.join(f"{named(some)} {text}" for text, some in places.items())
