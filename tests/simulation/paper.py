"""What happened, on paper: messages, hand-overs, dispositions, commits, and who owned what. It decides nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from jbm_kafka.core.channel.entries import Position
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from tests.simulation.profile import Profile
from tests.simulation.views import PaperChangelog

Place = tuple[str, int]
"""(queue or subscription, partition)."""


@dataclass(frozen=True, slots=True)
class ChannelName:
    """How Kafka knows a channel."""

    group: str
    topic: str
    partition: int
    changelog: str
    """The changelog's topic."""

    @property
    def in_journals(self) -> str:
        """Its name there."""
        return f"{self.group}|{self.topic}|{self.partition}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a queue's log, or of a subscription's part of a topic's."""

    place: Place
    offset: int
    name: str
    """Its body, which no other message has."""
    unit: bytes | None
    expiration_ms: int
    delivery_time_ms: int
    """By a right clock, whatever its sender's was."""
    copy: str
    """What a dead letter of it is called: its name, and of which subscription."""

    @property
    def is_poison(self) -> bool:
        """No receiver ever acknowledges it."""
        return self.name.startswith("poison")

    def __str__(self) -> str:
        unit = "" if self.unit is None else f" of {self.unit.decode()}"
        return f"{self.place[0]}[{self.place[1]}]@{self.offset} {self.name}{unit}"


@dataclass(eq=False, slots=True)
class Epoch:
    """One owner's time with one partition, from the opening of its channel to its end."""

    number: int
    """Grows over all epochs."""
    place: Place
    node: str
    was_owner: bool
    """When it began. Else its membership ended while it read, and it has not heard: it may hand over, not record."""
    read_to: int
    """It knows the changelog below."""
    settled_before: frozenset[int]
    """Of the messages there were, those settled when it began."""
    attempts_before: dict[int, int]
    """What it was told of attempts."""
    prepared: dict[str, frozenset[int]] = field(default_factory=dict)
    """What it was told that branches have, and what was prepared since."""
    hand: dict[int, HandOver] = field(default_factory=dict)
    """What applications hold, by offset."""
    finished: set[int] = field(default_factory=set)
    """What its applications said they were done with."""
    left: set[int] = field(default_factory=set)
    """Seen to be given up: applications get it no more."""
    counted: Counter[int] = field(default_factory=Counter)
    """Attempts that ended here without acknowledgement, by offset."""
    handed: set[int] = field(default_factory=set)
    """Whatever any application got."""
    ended: set[int] = field(default_factory=set)
    """What applications got for which it was acknowledged on arrival."""
    not_before: dict[int, tuple[int, int]] = field(default_factory=dict)
    """(monotonic time, how often the node's clock had jumped forward) before which a nacked message may not come."""

    compared: tuple[int, int] = (-1, -1)
    """(changelog version, messages owed) when it was last compared message by message."""

    def __str__(self) -> str:
        return f"epoch {self.number} of {self.place[0]}[{self.place[1]}] at {self.node}"


@dataclass(eq=False, slots=True)
class HandOver:
    """One message in one application's hand."""

    message: Message
    epoch: Epoch
    session: str
    individual: bool
    attempts: int
    redelivered: bool
    is_doubted: bool = False
    """Part of a commit whose end nobody knows yet."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One record of a topic that takes copies and sends."""

    offset: int
    name: str
    unit: bytes | None


@dataclass(eq=False, slots=True)
class Commit:
    """One session's commit."""

    name: str
    hands: list[HandOver]
    sends: dict[str, str]
    """Queue by message name."""
    outcome: str = "pending"
    """committed | rolled back | in doubt | pending: what its session was told; of a branch that is or was prepared:
    prepared | committed | rolled back, as is recorded."""
    is_branch: bool = False
    """Prepared, or about to be: what it received is settled some time after it is committed."""


@dataclass(slots=True)
class Paper:
    """All of it."""

    profile: Profile
    names: dict[Place, ChannelName] = field(default_factory=dict)
    changelogs: dict[Place, PaperChangelog] = field(default_factory=dict)
    """Of what there is."""
    ended: dict[Place, PaperChangelog] = field(default_factory=dict)
    """Of subscriptions that have ended, as they were then."""
    raw_changelogs: dict[Place, list[tuple[int, bytes, bytes | None]]] = field(default_factory=dict)
    """(offset, key, value) of every committed record of a changelog."""
    successors: set[Place] = field(default_factory=set)
    """Of subscriptions whose name another had before: until they record anything, offsets are of that one."""
    messages: dict[Place, dict[int, Message]] = field(default_factory=lambda: defaultdict(dict))
    """What stands in the queues' logs, by place and offset; what is decided only."""
    copies: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """How often each message name stands in each topic that takes copies or sends."""
    copied: dict[tuple[str, int], list[Copy]] = field(default_factory=lambda: defaultdict(list))
    """What stands in each of their partitions, as it was seen."""
    wished: dict[Place, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    """What operators asked to be done to each message, whatever became of that."""
    epochs: dict[Place, list[Epoch]] = field(default_factory=lambda: defaultdict(list))
    epoch_of: dict[OwnedChannel, Epoch] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    acknowledged: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """What any application ever acknowledged outside of transactions."""
    committing: dict[tuple[Place, int], list[Commit]] = field(default_factory=lambda: defaultdict(list))
    """The commits that acknowledge a message."""
    attempts: dict[Place, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Hand-overs that ended without acknowledgement, whether anybody remembers them or not."""
    writers: dict[str, Epoch] = field(default_factory=dict)
    """Which epoch froze a checkpoint, by place and checkpoint id."""
    written: dict[Place, list[tuple[int, Position]]] = field(default_factory=lambda: defaultdict(list))
    """Every committed position of a channel, with its offset in the changelog."""
    durable_attempts: dict[Place, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """The most attempts of a message that a changelog ever told."""
    forgotten: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Messages whose attempts a changelog tells no more."""
    prepared: dict[Place, dict[int, Commit]] = field(default_factory=lambda: defaultdict(dict))
    """What prepared branches have, of which nothing is decided."""
    branched: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """What committed branches have received, whether an owner has settled it or not."""
    over: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Durably settled, with a reason that was looked at."""
    handed: dict[Place, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """How often a message reached an application."""
    by_name: dict[str, Message] = field(default_factory=dict)
    """By what a dead letter of it is called."""
    journals_checked: dict[tuple[int, Place], tuple[int, int]] = field(default_factory=dict)
    """(position, entries) of each journal when it was looked at last."""
    version: int = 0
    """Grows with everything that was written down of the brokers or of a commit's end."""
    hand_overs: int = 0
    zombie_hand_overs: int = 0

    def changelog(self, place: Place) -> PaperChangelog:
        """Of a channel that there is or was."""
        return self.changelogs[place] if place in self.changelogs else self.ended[place]

    def current(self, place: Place) -> Epoch | None:
        """The epoch of a partition's latest owner."""
        return next((epoch for epoch in reversed(self.epochs[place]) if epoch.was_owner), None)

    def is_wished(self, message: Message, *verbs: str) -> bool:
        """An operator asked for one of these."""
        wished = self.wished.get(message.place)
        return wished is not None and not wished.get(message.offset, frozenset()).isdisjoint(verbs)

    def is_removed(self, epoch: Epoch, message: Message) -> bool:
        """Given up without a copy, as far as that may be."""
        if self.profile.has_dead_letter_address or self.profile.max_attempts < 0:
            return False
        known = epoch.attempts_before.get(message.offset, 0) + epoch.counted[message.offset]
        return known >= self.profile.max_attempts

    def was_sent(self, commit: Commit) -> bool:
        """The commit's sends are in their queues, all of them."""
        return all(self.copies[queue][name] for name, queue in commit.sends.items())
