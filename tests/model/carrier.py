"""What the sidecar does around a channel, in a few lines: changelog, held store, checkpoints, recovery."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jbm_kafka.core import changes as c
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.entries import Attempted, Duplicates, Entry, Held, HeldGone, Position, Settled
from jbm_kafka.core.freeze import Freeze, freeze
from jbm_kafka.core.offer import Offer, decide_offer
from jbm_kafka.core.reference import GateKey, Reference
from jbm_kafka.core.spilling import Spillable

ChangelogKey = tuple[str, int]


class Changelog:
    """A compacted topic: the latest entry of each key, deleted keys gone."""

    def __init__(self) -> None:
        self.entries: dict[ChangelogKey, Entry] = {}

    def write(self, entries: Sequence[Entry]) -> None:
        keys = [_key(entry) for entry in entries]
        assert len(set(keys)) == len(keys), f"one checkpoint writes a key once: {keys}"
        for key, entry in zip(keys, entries, strict=True):
            if _is_deletion(entry):
                self.entries.pop(key, None)
            else:
                self.entries[key] = entry

    def replay(self, now_ms: int) -> ChannelState:
        """The state a new owner begins with."""
        state = ChannelState()
        state.apply(c.TimePassed(now_ms))
        for _, entry in sorted(self.entries.items(), key=lambda item: (_REPLAY_ORDER[item[0][0]], item[0][1])):
            state.apply(entry)
        return state


_REPLAY_ORDER = {"position": 0, "attempted": 1, "duplicates": 2, "held": 3, "settled": 4}
"""The position first; the rest as the store sorts it."""


def _is_deletion(entry: Entry) -> bool:
    match entry:
        case HeldGone() | Settled(bitmap=None) | Attempted(bitmap=None) | Duplicates(rows=None):
            return True
        case _:
            return False


def _key(entry: Entry) -> ChangelogKey:
    if isinstance(entry, Position):
        return "position", 0
    if isinstance(entry, Settled):
        return "settled", entry.block
    if isinstance(entry, Attempted):
        return "attempted", entry.block
    if isinstance(entry, Duplicates):
        return "duplicates", entry.bucket
    assert isinstance(entry, Held | HeldGone), entry
    return "held", entry.offset


class Carrier:
    """Carries values between the model's rules and a channel, as the sidecar would."""

    def __init__(self, *, attempts_max: int, records_attempts: bool) -> None:
        self.attempts_max = attempts_max
        self.records_attempts = records_attempts
        self.state = ChannelState()
        self.changelog = Changelog()
        self.held_store: dict[GateKey, list[Reference]] = {}
        self.frozen: Freeze | None = None

    def ask(self, session: str, *, limit: int, now_ms: int, one_per_unit: bool) -> Offer:
        """Fill the gates that miss something from the held store, then decide and apply."""
        by_key = self.state.gates.by_key
        for key in [k for k in self.state.gates.awaiting_load if not (by_key[k].waiting or by_key[k].due_at_ms)]:
            self.load(key, 2)
        offer = decide_offer(
            self.state,
            session,
            limit=limit,
            now_ms=now_ms,
            one_per_unit=one_per_unit,
            attempts_max=self.attempts_max,
        )
        self.state.apply(offer.change)
        return offer

    def spill(self, row: Spillable) -> None:
        key, moved = row.gate.key, row.references()
        assert len(moved) == row.count
        self.state.apply(c.Spilled(key=key, kept=row.kept))
        self.held_store[key] = sorted([*self.held_store.get(key, ()), *moved])

    def load(self, key: GateKey, count: int) -> None:
        stored = self.held_store[key]
        batch, rest = stored[:count], stored[count:]
        self.state.apply(c.Unspilled(key=key, references=batch))
        if rest:
            self.held_store[key] = rest
        else:
            del self.held_store[key]

    def begin_checkpoint(self, number: int, *, offered: int, tentative: Collection[int]) -> Freeze:
        assert self.frozen is None
        self.frozen = freeze(
            self.state,
            topic_id="t",
            checkpoint_id=f"jbm.model:{number}",
            offered_position=offered,
            tentative=tentative,
            records_attempts=self.records_attempts,
        )
        self.state.apply(self.frozen.frozen)
        return self.frozen

    def end_checkpoint(self, *, durable: bool) -> None:
        assert self.frozen is not None
        if durable:
            self.changelog.write(self.frozen.entries)
        self.state.apply(self.frozen.durable if durable else self.frozen.failed)
        self.frozen = None

    def crash(self, now_ms: int) -> None:
        self.frozen = None
        self.held_store = {}
        self.state = self.changelog.replay(now_ms)
