"""Writes the paper: told by receivers what they do, looking at the nodes and at the brokers after every act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jbm_kafka.core.entries import Held, HeldGone, Position
from jbm_kafka.core.errors import TransactionRolledBackError
from jbm_kafka.memory.memory_log import MemoryRecord
from jbm_kafka.ports.grants import Granted
from jbm_kafka.sidecar.owned_channel import OwnedChannel, owned
from tests.simulation import at_hand_over
from tests.simulation.paper import Commit, Epoch, HandOver, Message, Paper, Place
from tests.simulation.views import LogView, PaperChangelog

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.receiver import Receiver
    from tests.simulation.world import World


class Recorder:
    """Holds the paper and the views on the brokers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.paper = Paper()
        self.changelogs: dict[Place, PaperChangelog] = {}
        self.raw_changelogs: dict[Place, list[tuple[int, bytes, bytes | None]]] = {}
        """(offset, key, value) of every committed record."""
        self._queue_views: dict[Place, LogView] = {}
        self._changelog_views: dict[Place, LogView] = {}
        self._target_views: dict[tuple[str, int], LogView] = {}
        self.epoch_of: dict[OwnedChannel, Epoch] = {}
        self._epochs = 0
        cluster = world.cluster
        for queue, partitions in world.queues.items():
            group = world.group_of(queue)
            for partition in range(partitions):
                place = (queue, partition)
                self.changelogs[place] = PaperChangelog(group)
                self.raw_changelogs[place] = []
                self._queue_views[place] = LogView(cluster.log(queue, partition))
                self._changelog_views[place] = LogView(cluster.log(world.changelog_of(queue), partition))
        for topic in world.targets:
            for partition, log in enumerate(cluster.topic(topic).logs):
                self._target_views[topic, partition] = LogView(log)

    # -- looking ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take down what became visible: epochs first, then freezes, then what the brokers hold."""
        for node in self._world.nodes:
            if not node.is_alive:
                continue
            for lane in node.lanes():
                for channel in list(lane.data.channels.values()):
                    epoch = self.epoch_of.get(channel) or self._opened(node, channel)
                    if channel.freeze is not None:
                        position = channel.freeze.entries[0]
                        assert isinstance(position, Position), position
                        self.paper.writers[f"{epoch.place}{position.checkpoint_id}"] = epoch
        for place in self._queue_views:
            self._look_at_queue(place)
        for (topic, _), view in self._target_views.items():
            for record in view.news():
                self.paper.version += 1
                self.paper.copies[topic][(record.value() or b"").decode()] += 1
        for place in self._changelog_views:
            self._look_at_changelog(place)

    def _look_at_queue(self, place: Place) -> None:
        for record in self._queue_views[place].news():
            message = _message(place, record)
            self.paper.version += 1
            self.paper.messages[place][message.offset] = message
            self.paper.by_name[message.name] = message

    def _look_at_changelog(self, place: Place) -> None:
        changelog = self.changelogs[place]
        for record in self._changelog_views[place].news():
            self.raw_changelogs[place].append((record.offset(), record.key() or b"", record.value()))
            held_before = set(changelog.held) if record.value() is None else set()
            entry = changelog.take(record)
            self.paper.version += 1
            if isinstance(entry, Position):
                self._world.wrote(place, entry, record.offset())
            elif isinstance(entry, Held):
                self._world.remembered(place, entry)
            elif isinstance(entry, HeldGone) and entry.offset in held_before:
                self.paper.forgotten[place].add(entry.offset)

    def _opened(self, node: Node, channel: OwnedChannel) -> Epoch:
        place = (channel.topic, channel.partition)
        self._look_at_queue(place)
        self._look_at_changelog(place)
        changelog = self.changelogs[place]
        self._epochs += 1
        messages = self.paper.messages[place]
        epoch = Epoch(
            number=self._epochs,
            place=place,
            node=node.name,
            was_owner=self._world.owns(node, channel),
            read_to=channel.changelog_position,
            settled_before=frozenset(offset for offset in messages if changelog.is_settled(offset)),
            attempts_before={o: n for o in {*messages, *changelog.held} if (n := changelog.attempts(o))},
        )
        self.epoch_of[channel] = epoch
        self.paper.epochs[place].append(epoch)
        self._world.note(f"{epoch} begins at {channel.state.watermark}, changelog {epoch.read_to}")
        self._world.began(epoch)
        return epoch

    # -- told by receivers -----------------------------------------------------------------------------------------

    def handed_over(self, receiver: Receiver, queue: str, granted: Granted) -> HandOver:
        """An application gets a message: checked, then written down."""
        self.look()
        channel = owned(granted.tap)
        epoch = self.epoch_of[channel]
        message = self.paper.messages[epoch.place].get(granted.offset)
        assert message is not None, f"nothing_invented: {queue}[{channel.partition}]@{granted.offset} is not in the log"
        hand_over = HandOver(
            message=message,
            epoch=epoch,
            session=receiver.name,
            individual=receiver.mode.name == "INDIVIDUAL",
            attempts=granted.delivery.attempts,
            redelivered=granted.delivery.redelivered,
        )
        self._world.note(
            f"{receiver.name} gets {message} (attempt {granted.delivery.delivery_count}"
            f"{', redelivered' if granted.delivery.redelivered else ''}; {epoch})"
        )
        self.paper.hand_overs += 1
        if self._world.is_live(receiver.node, channel):
            at_hand_over.check(self._world, receiver.node, hand_over)
        else:
            self.paper.zombie_hand_overs += 1
        epoch.hand[message.offset] = hand_over
        epoch.handed.add(message.offset)
        self.paper.handed[message.place][message.offset] += 1
        return hand_over

    def acknowledged(self, hands: Sequence[HandOver]) -> None:
        """Said by the application, outside of transactions."""
        for hand in hands:
            self._gone(hand)
            hand.epoch.finished.add(hand.message.offset)
            self.paper.acknowledged[hand.message.place].add(hand.message.offset)
            self._world.note(f"{hand.session} acknowledges {hand.message}")

    def returned(self, hands: Sequence[HandOver], *, counted: bool, delay_ms: int | None) -> None:
        """Given back by the application."""
        for hand in hands:
            self._gone(hand)
            offset, epoch = hand.message.offset, hand.epoch
            if counted:
                epoch.counted[offset] += 1
                self.paper.attempts[epoch.place][offset] += 1
            if delay_ms:
                node = self._world.node(epoch.node)
                epoch.not_before[offset] = (node.clock.monotonic_ms() + delay_ms, node.clock.jumps)
            self._world.note(f"{hand.session} returns {hand.message}{'' if counted else ' uncounted'}, {delay_ms=}")

    def refused(self, hands: Sequence[HandOver]) -> None:
        """Said too late: the session is told that it comes again."""
        for hand in hands:
            self._gone(hand)
            self._world.note(f"{hand.session} is too late for {hand.message}")

    def told_durable(self, hands: Sequence[HandOver]) -> None:
        """A blocking acknowledgement returned."""
        self.look()
        for hand in hands:
            at_hand_over.durable_when_told(self.changelogs[hand.message.place], hand)

    def committing(self, commit: Commit) -> None:
        """A session waits for its commit."""
        self.paper.commits.append(commit)
        for hand in commit.hands:
            hand.is_doubted = True
            self.paper.committing[hand.message.place, hand.message.offset].append(commit)
        received = ", ".join(str(hand.message) for hand in commit.hands)
        self._world.note(f"commit {commit.name} of [{received}] with {sorted(commit.sends)}")

    def commit_ended(self, commit: Commit, error: Exception | None) -> None:
        """The session is told how its commit ended."""
        self.paper.version += 1
        if error is None:
            commit.outcome = "committed"
        else:
            commit.outcome = "rolled back" if isinstance(error, TransactionRolledBackError) else "in doubt"
        self._world.note(f"commit {commit.name} {commit.outcome} {error or ''}")
        for hand in commit.hands:
            hand.is_doubted = False
            if error is None:
                self._gone(hand)
                hand.epoch.finished.add(hand.message.offset)

    def _gone(self, hand: HandOver) -> None:
        if hand.epoch.hand.get(hand.message.offset) is hand:
            del hand.epoch.hand[hand.message.offset]


def _message(place: Place, record: MemoryRecord) -> Message:
    expiration = [int(value or b"0") for name, value in record.headers() or () if name == "JMSExpiration"]
    return Message(
        place=place,
        offset=record.offset(),
        name=(record.value() or b"").decode(),
        unit=record.key(),
        expiration_ms=expiration[-1] if expiration else 0,
    )
