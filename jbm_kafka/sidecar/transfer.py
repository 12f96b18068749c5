"""A transfer: sends and settled messages that become durable together, in one checkpoint (LOG-5).

A session's commit is one, a dead letter is one. It is committed whole, or fails whole and harms no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jbm_kafka.core.entries import MessageEvent
from jbm_kafka.core.reference import SessionId
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.completion import Completion

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane
    from jbm_kafka.sidecar.owned_channel import OwnedChannel


@dataclass(frozen=True, slots=True)
class Settling:
    """Messages of one channel in one session's hand."""

    channel: OwnedChannel
    session: SessionId
    offsets: Sequence[int]
    events: Sequence[MessageEvent] = ()
    """What to tell of them in jbm.events; none: acknowledged."""


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Compared by identity: it is its own token in a transaction."""

    about: str
    """For people: whose it is."""
    sends: Sequence[Outgoing]
    settlings: Sequence[tuple[Lane, Settling]]
    done: Completion = field(default_factory=Completion)
    """Completed when durable; failed with what the caller should see."""

    @property
    def lanes(self) -> frozenset[Lane]:
        """The lanes whose messages it settles."""
        return frozenset(lane for lane, _ in self.settlings)

    def of(self, lane: Lane) -> list[Settling]:
        """What it settles in one lane."""
        return [settling for owner, settling in self.settlings if owner is lane]
