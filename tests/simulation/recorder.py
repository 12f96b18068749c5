"""Writes the paper: told by receivers what they do, looking at the nodes and at the brokers after every act."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Protocol

from jbm_kafka.codec.dead_letter import ORIG_SUBSCRIPTION
from jbm_kafka.codec.headers import decode_headers
from jbm_kafka.core.channel.entries import Held, HeldGone, Position, Prepared
from jbm_kafka.core.jms_errors import TransactionRolledBackError
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_log import MemoryRecord, PartitionLog
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel, owned
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.simulation import at_hand_over, invariants
from tests.simulation.lives import MOVED_OF
from tests.simulation.names import AHEAD_HEADER, MOVED, changelog_of, group_of
from tests.simulation.node import Node
from tests.simulation.paper import ChannelName, Commit, Copy, Epoch, HandOver, Message, Paper, Place
from tests.simulation.profile import Profile
from tests.simulation.views import LogView, PaperChangelog


class Holder(Protocol):
    """An application that gets messages."""

    name: str
    node: Node

    @property
    def mode(self) -> Enum:
        """How it settles."""


class Recorder:
    """Holds the paper and the views on the brokers."""

    def __init__(
        self,
        cluster: MemoryCluster,
        profile: Profile,
        *,
        targets: Collection[str],
        nodes: Sequence[Node],
        note: Callable[[str], None],
    ) -> None:
        """`targets` are the topics that take copies and sends; `nodes` is looked at again each time."""
        self._nodes = nodes
        self._cluster = cluster
        self._note = note
        self.paper = Paper(profile)
        self._queue_views: dict[Place, LogView] = {}
        self._changelog_views: dict[Place, LogView] = {}
        self._target_views: dict[tuple[str, int], LogView] = {}
        self._epochs = 0
        self.subscriptions: dict[str, str] = {}
        """How dead letters name each subscription, by its label."""
        self.silent: list[Callable[[], None]] = []
        """Receivers take down here what is acknowledged without a call of theirs."""
        self._chooses: dict[Place, Callable[[MemoryRecord], bool]] = {}
        """What a subscription leaves out."""
        self.look_at_branches: Callable[[], None] = lambda: None
        """Told before any changelog is looked at."""
        self.opens: Callable[[Epoch], None] = lambda epoch: None
        """Told of each epoch that begins."""
        self.look_at_registry: Callable[[], None] = lambda: None
        """Told before anything else is looked at."""
        self.gets: Callable[[Node, str, str], None] = lambda node, queue, what: None
        """Told of each message that comes to a node: of which queue, and what."""
        self.labels: dict[str, str] = {}
        """Of subscriptions, by incarnation."""
        for queue, partitions in profile.queues:
            for partition in range(partitions):
                name = ChannelName(group_of(queue), queue, partition, changelog_of(queue))
                self.begin_channel((queue, partition), name)
        for topic in targets:
            for partition, log in enumerate(cluster.topic(topic).logs):
                self._target_views[topic, partition] = LogView(log)

    def begin_channel(
        self,
        place: Place,
        name: ChannelName,
        begin: int = 0,
        chooses: Callable[[MemoryRecord], bool] | None = None,
        incarnation: str = "",
    ) -> None:
        """There is one more channel, which begins there in its topic's log, and has what is chosen."""
        paper = self.paper
        before = next((other for other in self._changelog_views if paper.names[other] == name), None)
        paper.names[place] = name
        paper.changelogs[place] = PaperChangelog(name.group, begin=begin, incarnation=incarnation)
        if before is None:
            paper.raw_changelogs[place] = []
            view = LogView(self._cluster.log(name.changelog, name.partition))
        else:  # another subscription had the name
            self._look_at_changelog(before)
            paper.raw_changelogs[place] = paper.raw_changelogs[before]
            view = self._changelog_views.pop(before)
            paper.successors.add(place)
        self._changelog_views[place] = view
        self._queue_views[place] = LogView(self._cluster.log(name.topic, name.partition), begin)
        if chooses is not None:
            self._chooses[place] = chooses

    def end_channel(self, place: Place) -> None:
        """It has ended with its subscription."""
        self._look_at_changelog(place)
        self.paper.ended[place] = self.paper.changelogs.pop(place)
        self._queue_views.pop(place)

    def log_of(self, place: Place) -> PartitionLog:
        """What its messages stand in."""
        name = self.paper.names[place]
        return self._cluster.log(name.topic, name.partition)

    # -- looking ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take down what became visible: epochs first, then freezes, then what the brokers hold."""
        self.look_at_registry()
        self.look_at_branches()
        for node in self._nodes:
            if not node.is_alive:
                continue
            for group_worker in node.group_workers():
                for channel in list(group_worker.data.channels.values()):
                    epoch = self.paper.epoch_of.get(channel) or self._opened(node, group_worker, channel)
                    if channel.checkpoints.freeze is not None:
                        position = channel.checkpoints.freeze.entries[0]
                        assert isinstance(position, Position), position
                        self.paper.writers[f"{epoch.place}{position.checkpoint_id}"] = epoch
        for place in self._queue_views:
            self._look_at_queue(place)
        for (topic, partition), view in self._target_views.items():
            for record in view.news():
                self.paper.version += 1
                kind, name = (MOVED if topic in MOVED_OF else topic), _copy_name(record, topic)
                self.paper.copies[kind][name] += 1
                self.paper.copied[kind, partition].append(Copy(record.offset(), name, record.key()))
        for place in self._changelog_views:
            self._look_at_changelog(place)

    def _look_at_queue(self, place: Place) -> None:
        chooses, subscription = self._chooses.get(place), self.subscriptions.get(place[0], "")
        for record in self._queue_views[place].news() if place in self._queue_views else ():
            if chooses is not None and not chooses(record):
                continue
            message = _message(place, record, subscription)
            self.paper.version += 1
            self.paper.messages[place][message.offset] = message
            self.paper.by_name[message.copy] = message

    def _look_at_changelog(self, place: Place) -> None:
        changelog = self.paper.changelog(place)
        for record in self._changelog_views[place].news() if place in self._changelog_views else ():
            if not changelog.is_mine(record):
                continue
            self.paper.raw_changelogs[place].append((record.offset(), record.key() or b"", record.value()))
            if not changelog.counts(record):
                continue
            held_before = set(changelog.held) if record.value() is None else set()
            entry = changelog.take(record)
            self.paper.version += 1
            if place in self.paper.ended:
                continue
            if isinstance(entry, Position):
                self._wrote(place, entry, record.offset())
            elif isinstance(entry, Prepared):
                self._passed_on(place, entry)
            elif isinstance(entry, Held):
                self._remembered(place, entry)
            elif isinstance(entry, HeldGone) and entry.offset in held_before:
                self.paper.forgotten[place].add(entry.offset)

    def _opened(self, node: Node, group_worker: GroupWorker, channel: OwnedChannel) -> Epoch:
        incarnation = group_worker.data.group.incarnation
        place = (self.labels[incarnation] if incarnation else channel.topic, channel.partition)
        self._look_at_queue(place)
        self._look_at_changelog(place)
        changelog = self.paper.changelog(place)
        self._epochs += 1
        messages = self.paper.messages[place]
        epoch = Epoch(
            number=self._epochs,
            place=place,
            node=node.name,
            was_owner=node.owns(channel),
            read_to=channel.changelog.position,
            settled_before=frozenset(offset for offset in messages if changelog.is_settled(offset)),
            attempts_before={o: n for o in {*messages, *changelog.held} if (n := changelog.attempts(o))},
            prepared=dict(changelog.prepared),
        )
        self.paper.epoch_of[channel] = epoch
        self.paper.epochs[place].append(epoch)
        self.opens(epoch)
        self._note(f"{epoch} begins at {channel.state.watermark}, changelog {epoch.read_to}")
        invariants.nobody_wrote_after_the_successor_read(self.paper, epoch)
        return epoch

    def _wrote(self, place: Place, position: Position, offset: int) -> None:
        """A checkpoint of a channel was committed."""
        self.paper.written[place].append((offset, position))
        self._note(
            f"{place[0]}[{place[1]}] changelog {offset}: watermark {position.watermark} fetched {position.fetched} "
            f"offered {position.offered} by {position.checkpoint_id}"
        )
        invariants.at_most_one_owner_writes(self.paper, place, position, offset)

    def _passed_on(self, place: Place, entry: Prepared) -> None:
        """A branch was prepared by a channel's owner, or what was decided of it is carried out."""
        epoch = self.paper.current(place)
        assert epoch is not None, place
        if entry.offsets is not None:
            epoch.prepared[entry.branch] = frozenset(entry.offsets)

    def _remembered(self, place: Place, entry: Held) -> None:
        """A changelog remembers a message's attempts."""
        durable = self.paper.durable_attempts[place]
        epoch = self.paper.current(place)
        assert epoch is not None, place
        at_hand_over.attempts_only_grow(epoch, entry.offset, durable[entry.offset], entry.attempts)
        at_hand_over.attempts_are_somebodys(epoch, entry.offset, entry.attempts)
        durable[entry.offset] = max(durable[entry.offset], entry.attempts)

    # -- told by receivers -----------------------------------------------------------------------------------------

    def handed_over(self, receiver: Holder, queue: str, delivery: Delivery) -> HandOver:
        """An application gets a message: checked, then written down."""
        self.look()
        for take_down in self.silent:
            take_down()
        channel = owned(delivery.lease)
        epoch = self.paper.epoch_of[channel]
        message = self.paper.messages[epoch.place].get(delivery.offset)
        assert message is not None, (
            f"nothing_invented: {queue}[{channel.partition}]@{delivery.offset} is not in the log"
        )
        hand_over = HandOver(
            message=message,
            epoch=epoch,
            session=receiver.name,
            individual=receiver.mode.name == "INDIVIDUAL",
            attempts=delivery.count.attempts,
            redelivered=delivery.count.redelivered,
        )
        self._note(
            f"{receiver.name} gets {message} (attempt {delivery.count.delivery_count}"
            f"{', redelivered' if delivery.count.redelivered else ''}; {epoch})"
        )
        self.paper.hand_overs += 1
        is_over = receiver.mode.name == "PRE"
        self.gets(receiver.node, epoch.place[0], str(message))
        if not receiver.node.is_live(channel):
            self.paper.zombie_hand_overs += 1
        elif is_over:
            at_hand_over.check_acknowledged(self.paper, receiver.node.clock, hand_over)
        else:
            at_hand_over.check(self.paper, receiver.node.clock, hand_over)
        if not is_over:
            epoch.hand[message.offset] = hand_over
        epoch.handed.add(message.offset)
        self.paper.handed[message.place][message.offset] += 1
        return hand_over

    def acknowledged(self, hands: Sequence[HandOver]) -> None:
        """Said by the application, outside of transactions."""
        for hand in hands:
            self.left(hand)
            hand.epoch.finished.add(hand.message.offset)
            self.paper.acknowledged[hand.message.place].add(hand.message.offset)
            self._note(f"{hand.session} acknowledges {hand.message}")

    def finished(self, hand: HandOver) -> None:
        """The application is done with it; its session acknowledges it some time."""
        self.paper.acknowledged[hand.message.place].add(hand.message.offset)

    def arrived(self, receiver: Holder, delivery: Delivery) -> None:
        """A message is in the buffer of a receiver for which it ends there."""
        epoch = self.paper.epoch_of[owned(delivery.lease)]
        self.gets(receiver.node, epoch.place[0], f"offset {delivery.offset}")
        epoch.finished.add(delivery.offset)
        self.paper.acknowledged[epoch.place].add(delivery.offset)
        self._note(f"{receiver.name} has {epoch.place[0]}[{epoch.place[1]}]@{delivery.offset} acknowledged on arrival")

    def returned(self, hands: Sequence[HandOver], *, counted: bool, delay_ms: int | None) -> None:
        """Given back by the application."""
        for hand in hands:
            self.left(hand)
            offset, epoch = hand.message.offset, hand.epoch
            if counted:
                epoch.counted[offset] += 1
                self.paper.attempts[epoch.place][offset] += 1
            if delay_ms:
                node = next(node for node in self._nodes if node.name == epoch.node)
                epoch.not_before[offset] = (node.clock.monotonic_ms() + delay_ms, node.clock.jumps)
            self._note(f"{hand.session} returns {hand.message}{'' if counted else ' uncounted'}, {delay_ms=}")

    def refused(self, hands: Sequence[HandOver]) -> None:
        """Said too late: the session is told that it comes again."""
        for hand in hands:
            self.left(hand)
            self._note(f"{hand.session} is too late for {hand.message}")

    def told_durable(self, hands: Sequence[HandOver]) -> None:
        """A blocking acknowledgement returned."""
        self.look()
        for hand in hands:
            at_hand_over.durable_when_told(self.paper.changelog(hand.message.place), hand)

    def committing(self, commit: Commit) -> None:
        """A session waits for its commit."""
        self.paper.commits.append(commit)
        for hand in commit.hands:
            hand.is_doubted = True
            self.paper.committing[hand.message.place, hand.message.offset].append(commit)
        received = ", ".join(str(hand.message) for hand in commit.hands)
        self._note(f"commit {commit.name} of [{received}] with {sorted(commit.sends)}")

    def commit_ended(self, commit: Commit, error: Exception | None) -> None:
        """The session is told how its commit ended."""
        self.paper.version += 1
        if error is None:
            commit.outcome = "committed"
        else:
            commit.outcome = "rolled back" if isinstance(error, TransactionRolledBackError) else "in doubt"
        self._note(f"commit {commit.name} {commit.outcome} {error or ''}")
        for hand in commit.hands:
            hand.is_doubted = False
            if error is None:
                self.left(hand)
                hand.epoch.finished.add(hand.message.offset)

    def left(self, hand: HandOver) -> None:
        """Its application has it no more."""
        if hand.epoch.hand.get(hand.message.offset) is hand:
            del hand.epoch.hand[hand.message.offset]


def _copy_name(record: MemoryRecord, topic: str) -> str:
    """The name of what was sent or copied, and of which subscription it is a copy."""
    name = (record.value() or b"").decode()
    told = decode_headers(record.headers()).properties.get(ORIG_SUBSCRIPTION)
    of = MOVED_OF.get(topic) if told is None else told.value
    return name if of is None else f"{name} of {of}"


def _message(place: Place, record: MemoryRecord, subscription: str) -> Message:
    headers = dict(record.headers() or ())
    name = (record.value() or b"").decode()
    return Message(
        place=place,
        offset=record.offset(),
        name=name,
        copy=f"{name} of {subscription}" if subscription else name,
        unit=record.key(),
        expiration_ms=int(headers.get("JMSExpiration") or b"0"),
        delivery_time_ms=int(headers.get("JMSDeliveryTime") or b"0") - int(headers.get(AHEAD_HEADER) or b"0"),
    )
