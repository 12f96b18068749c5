"""What applications subscribe to, and what becomes of it: values of the model of subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from tests.simulation.names import MOVED, NEWS
from tests.simulation.paper import Place

Kind = SubscriptionKind


@dataclass(frozen=True, slots=True)
class Slot:
    """What applications subscribe to, again and again."""

    name: str
    kind: Kind
    client_id: str
    """Empty: none."""

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._subscription.group_id("")

    @property
    def full_name(self) -> str:
        """What a dead letter tells."""
        return self._subscription.full_name

    @property
    def _subscription(self) -> Subscription:
        return Subscription(Topic(NEWS), self.kind, self.name, self.client_id)

    @property
    def is_durable(self) -> bool:
        """It stays while nobody receives."""
        return self.kind in (Kind.DURABLE, Kind.SHARED_DURABLE)

    @property
    def may_leave_out(self) -> bool:
        """It can have `no_local`."""
        return self.kind is Kind.DURABLE


SLOTS = (
    Slot("ledger", Kind.DURABLE, "app"),
    Slot("audit", Kind.DURABLE, "bureau"),
    Slot("crew", Kind.SHARED_DURABLE, ""),
    Slot("board", Kind.SHARED, ""),
)
MOVED_OF = {f"{MOVED}-of-{slot.name}": slot.full_name for slot in SLOTS if slot.is_durable}
"""Where operators move what each durable subscription has to; a moved copy does not tell whose it was."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages a subscription has."""

    selector: str | None = None
    no_local: bool = False


class Refusal(Enum):
    """Whether a call must be refused."""

    MUST = "must"
    MAY = "may"
    """A process that uses it died or stood still: the others may not know yet, or may think so of a living one."""
    MUST_NOT = "must not"


@dataclass(eq=False, slots=True)
class Life:
    """One subscription, from its making to its end."""

    slot: Slot
    choice: Choice
    label: str
    group: str
    incarnation: str
    places: list[Place]
    is_over: bool = False
    may_end: bool = False
    """Somebody asked for that."""
    closing: int = 0
    """Users that are about to close."""
    is_doubtful: bool = False
    """A process that used it died or stood still."""


@dataclass(eq=False, slots=True)
class Call:
    """Somebody subscribes."""

    slot: Slot
    choice: Choice
    connection: str
    ends_before: list[int]
    """The stable end of every partition when it began."""
    made: Life | None = None
    is_raced: bool = False
    """Somebody else subscribes to the same, or closes, meanwhile: who is first is not known."""
