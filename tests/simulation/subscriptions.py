"""The subscriptions of a simulated topic, as their applications know them: which there are, what each has, who uses it.

What was recorded of them is read from the registry as anybody can, and every line of it must be explained by a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.codec.registry_records import SubscriptionRecord, decode_subscription, subscription_key
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.memory.memory_log import MemoryRecord
from tests.simulation.lives import Call, Life, Refusal, Slot
from tests.simulation.names import NEWS, REGISTRY, SELECTORS, changelog_of_topic, colour_of, number_of
from tests.simulation.paper import ChannelName, Place
from tests.simulation.views import LogView

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.receiver import Receiver
    from tests.simulation.world import World


@dataclass(eq=False)
class Subscriptions:
    """All of them."""

    world: World
    lives: list[Life] = field(default_factory=list)
    gone: list[Life] = field(default_factory=list)
    """Of which nothing may be left; to be looked at."""

    def __post_init__(self) -> None:
        self._view = LogView(self.world.cluster.log(REGISTRY, 0))
        self._calls: list[Call] = []
        self.world.recorder.look_at_registry = self.look

    # -- what there is ---------------------------------------------------------------------------------------------

    def current(self, slot: Slot) -> Life | None:
        """The latest of a slot, if it has not ended."""
        found = next((life for life in reversed(self.lives) if life.slot == slot), None)
        return None if found is None or found.is_over else found

    def users(self, life: Life | None) -> list[Receiver]:
        """Whose consumers it has."""
        return [each for each in self.world.receivers if life in each.lives and not each.is_closed]

    def refusal(self, life: Life | None, node: Node) -> Refusal:
        """Of what a subscription in use does not allow, asked for at a node (TOPIC-2, TOPIC-3)."""
        users = self.users(life)
        if life is None or not (users or life.is_doubtful):
            return Refusal.MUST_NOT
        if any(user.node is node for user in users):
            return Refusal.MUST
        return Refusal.MUST if users and not life.is_doubtful else Refusal.MAY

    @contextmanager
    def calling(self, call: Call) -> Iterator[None]:
        """While somebody subscribes."""
        self.race(call.slot)
        call.is_raced = self.is_contended(call.slot)
        self._calls.append(call)
        try:
            yield
        finally:
            self.world.recorder.look()
            self._calls.remove(call)

    def race(self, slot: Slot) -> None:
        """Somebody does something to a slot that others are about to use."""
        for call in self._calls:
            call.is_raced = call.is_raced or call.slot == slot

    def is_contended(self, slot: Slot) -> bool:
        """Others are in a call about it."""
        life = self.current(slot)
        return any(call.slot == slot for call in self._calls) or (life is not None and life.closing > 0)

    @contextmanager
    def closing(self, lives: list[Life]) -> Iterator[None]:
        """While a user of these closes."""
        for life in lives:
            life.closing += 1
            self.race(life.slot)
        try:
            yield
        finally:
            for life in lives:
                life.closing -= 1

    def ends(self) -> list[int]:
        """The stable end of every partition of the topic."""
        return [log.stable_end for log in self.world.cluster.topic(NEWS).logs]

    def note_doubt(self, node: Node) -> None:
        """A process died or stands still: others may think that it uses nothing, or still does."""
        for receiver in self.world.receivers_at(node):
            for life in receiver.lives:
                life.is_doubtful = True

    # -- what is recorded ------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take down what the registry says anew."""
        for node in self.world.nodes:
            if node.is_alive and node.is_frozen:
                self.note_doubt(node)
        for record in self._view.news():
            key = record.key() or b""
            if key.startswith(subscription_key("")):
                self._take(key.removeprefix(subscription_key("")).decode(), record.value())

    def _take(self, group: str, value: bytes | None) -> None:
        life = next((each for each in reversed(self.lives) if each.group == group), None)
        if value is None:
            assert life is not None, f"begins_when_asked: nobody asked for {group}"
            assert life.is_over, f"ends_when_asked: nothing is left of {life.label}"
            self.gone.append(life)
            return
        record = decode_subscription(value)
        if life is None or life.incarnation != record.incarnation:
            if life is not None and not life.is_over:
                self._end(life, is_replaced=True)
            life = self._begin(group, record)
        if record.is_ending and not life.is_over:
            self._end(life)

    def _begin(self, group: str, record: SubscriptionRecord) -> Life:
        """TOPIC-1, TOPIC-2: it begins when somebody asks for it, at what is sent afterwards."""
        its = record.subscription
        call = next((each for each in self._calls if _is_of(each, its)), None)
        assert call is not None, f"begins_when_asked: nobody asked for {its} with {its.choice_text}"
        number = sum(life.slot == call.slot for life in self.lives) + 1
        label = f"{call.slot.name}#{number}"
        ends = self.ends()
        for partition, begin in enumerate(record.begins):
            least, most = call.ends_before[partition], ends[partition]
            assert least <= begin <= most, (
                f"begins_when_made: {label}[{partition}] begins at {begin}, it was made at {least} to {most}"
            )
        places: list[Place] = [(label, partition) for partition in range(len(ends))]
        life = call.made = Life(call.slot, call.choice, label, group, record.incarnation, places)
        self.lives.append(life)
        recorder = self.world.recorder
        recorder.labels[record.incarnation] = label
        recorder.subscriptions[label] = its.full_name
        for place, begin in zip(places, record.begins, strict=True):
            name = ChannelName(group, NEWS, place[1], changelog_of_topic(NEWS))
            recorder.begin_channel(place, name, begin, self._chosen_by(call), record.incarnation)
        self.world.note(f"{label} begins at {record.begins}: {call.choice}")
        return life

    def _end(self, life: Life, *, is_replaced: bool = False) -> None:
        """TOPIC-2: a durable one stays until somebody ends it; the others as long as somebody receives."""
        users = [user for user in self.users(life) if not user.node.is_stopping]  # which ends its sessions, too
        is_changed = is_replaced and any(each.slot == life.slot and each.choice != life.choice for each in self._calls)
        assert not users or life.is_doubtful, f"ends_when_asked: {life.label} ends, {users[0].name} receives from it"
        assert not life.slot.is_durable or life.may_end or is_changed, f"ends_when_asked: {life.label}, nobody did"
        life.is_over = True
        for user in users:  # its process was thought dead
            user.wants_close = True
        for place in life.places:
            self.world.recorder.end_channel(place)
        self.world.note(f"{life.label} ends")

    def _chosen_by(self, call: Call) -> Callable[[MemoryRecord], bool]:
        """SEL-1, TOPIC-4, in a few words of their own."""
        colours, senders = SELECTORS[call.choice.selector], self.world.senders

        def chooses(record: MemoryRecord) -> bool:
            name = (record.value() or b"").decode()
            client_id = senders[name].partition("/")[0]
            is_own = client_id == call.slot.client_id
            return colour_of(number_of(name)) in colours and not (call.choice.no_local and is_own)

        return chooses

    # -- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What has ended leaves nothing behind."""
        while self.gone:
            self.nothing_remains(self.gone.pop())

    def nothing_remains(self, life: Life) -> None:
        """TOPIC-2: no offsets, nothing in the changelog."""
        if life.is_doubtful or any(other.group == life.group and not other.is_over for other in self.lives):
            return  # who was thought dead may have come back
        group = self.world.cluster.group(life.group)
        assert not group.committed, f"nothing_remains: {life.label} has ended, its group is at {group.committed}"
        left: dict[bytes, bytes | None] = {}
        for place in life.places:
            for _, key, value in self.world.recorder.paper.raw_changelogs[place]:
                left[key] = value
            owed = [decode_entry(key, value)[1] for key, value in left.items() if value is not None]
            assert not owed, f"nothing_remains: {life.label} has ended, its changelog has {owed}"

    def ended_with_its_last(self, lives: list[Life]) -> None:
        """TOPIC-3: one that is not durable ends with its last consumer."""
        for life in lives:
            is_left = not (life.slot.is_durable or life.is_doubtful or self.users(life) or self.is_contended(life.slot))
            assert not is_left or life.is_over, f"ended_with_its_last: {life.label} goes on without consumers"


def _is_of(call: Call, subscription: Subscription) -> bool:
    slot, choice = call.slot, call.choice
    selector = parse_selector(choice.selector)
    return (
        (slot.kind, slot.client_id) == (subscription.kind, subscription.client_id)
        and slot.name == subscription.name
        and ("" if selector is None else selector.normal) == subscription.selector
        and choice.no_local == subscription.no_local
    )
