"""The data that the stages of one group worker share. They take it; none of them holds the worker or another stage
above it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from jbm_kafka.browsing.intake import what_it_has
from jbm_kafka.core.channel.changes import UndeliverableHere
from jbm_kafka.core.channel.counters import SourceCounters
from jbm_kafka.core.channel.reference import EVERYONE
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.ports import GroupConsumer
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.wake_up import WakeUp
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.channel.selections import Selections
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock

log = logging.getLogger(__name__)


class Mailbox:
    """Any thread posts; one thread, the owner, carries out, until it ends."""

    def __init__(self) -> None:
        self._commands: deque[Callable[[], object]] = deque()
        self._has_ended = False
        self.signal = WakeUp()
        """Set after every change that may be work for an owner that waits for this; the owner clears it."""
        self.also_wake: Callable[[], None] | None = None
        """Called then, for an owner that waits elsewhere."""

    def __len__(self) -> int:
        return len(self._commands)

    def post(self, command: Callable[[], object]) -> bool:
        """Have a command carried out soon. False: it never will be, for the owner has ended."""
        self._commands.append(command)
        self.wake()
        if self._has_ended:  # asked last: an owner that ends after this finds the command
            with suppress(ValueError):  # it is not there any more: the owner's last act was to carry it out
                self._commands.remove(command)
                return False
        return True

    def wake(self) -> None:
        """Something changed that is not a command."""
        self.signal.set()
        if self.also_wake is not None:
            self.also_wake()

    def carry_out(self) -> bool:
        """Carry out what is there now, in the order posted; what that posts comes next time. The owner only.

        True: there was something.
        """
        count = len(self._commands)
        for _ in range(count):
            try:
                command = self._commands.popleft()
            except IndexError:  # one that ends the owner carried out the others; or who posted it took it back
                break
            command()
        return count > 0

    def end(self) -> None:
        """Carry out what was posted until now; what is posted from now on is refused. The owner only."""
        self._has_ended = True
        while self._commands:
            try:
                self.carry_out()
            except Exception:  # a bug: whoever waits for one of the others must not wait for ever
                log.exception("a command to a group worker that ends failed; the others are carried out")


class GroupData:
    """The part of one channel group that this process owns. The owner thread's, but for the mailbox."""

    def __init__(
        self,
        group: ChannelGroup,
        *,
        clock: SlewedClock,
        config: SidecarConfig,
        counters: SourceCounters | None = None,
    ) -> None:
        """`counters`: those that somebody looks at; None: nobody does."""
        self.group = group
        self.counters = counters or SourceCounters()
        self.has = None if group.subscription is None else what_it_has(group.subscription)
        """Tells what a subscription has of its topic; None: everything. The rest counts as never there."""
        self.turned_ms = clock.monotonic_ms()
        """When its thread turned last, monotonic; any thread may look."""
        self.clock = clock
        self.config = config
        self.mailbox = Mailbox()
        """Commands to the owner thread; what any thread may use."""
        self.channels: dict[int, OwnedChannel] = {}
        """The open channels by partition."""
        self.settings: ResolvedSettings | None = None
        """The settings that were changed last while this runs; None: none were."""
        self.opening: dict[int, object] = {}
        """Partitions whose channels are being recovered, each with the token of its assignment."""
        self.feeding: list[OwnedChannel] = []
        """Channels that read what is parked, before their logs."""
        self.links: dict[str, Link] = {}
        """The receivers that are served, by id."""
        self.selections = Selections(counts_selectors=group.subscription is None)
        self.consumer: GroupConsumer | None = None
        """None before the group is joined."""
        self.opened = 0
        """How many channels were opened so far. Any thread may look."""
        self.given_up_ms: int | None = None
        """When partitions were given up last, or are being given up now, monotonic; any thread may look."""
        self.unrecorded: JMSError | None = None
        """Why Kafka refuses to record anything, however often one tries: nothing more is handed over. Any thread may
        look."""
        self._waiting: list[Completion] = []
        """Calls that wait until what they said is recorded."""
        self.is_abandoned = False
        """The process leaves, and Kafka does not answer: nothing is waited for."""

    def note_unrecorded(self, error: JMSError | None) -> None:
        """Note why Kafka refuses to record; None: it does so no more."""
        if error is self.unrecorded:
            return
        # Before a receiver hears of it health says so, and it says so until the last has heard of the end.
        self.unrecorded = error or self.unrecorded
        for link in self.links.values():
            link.notices.hinder(error)
        self.unrecorded = error
        self._refuse_waiting()
        if error is not None:
            log.warning("%s: %s", self.group, error)
        else:
            log.warning("%s: what is said of its messages is recorded again", self.group)

    def note_waiting(self, done: Completion) -> None:
        """A call waits until what it said is recorded."""
        self._waiting = [each for each in (*self._waiting, done) if not each.is_done]
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        if self.unrecorded is not None:
            for done in self._waiting:
                done.complete(self.unrecorded)

    @property
    def is_settled(self) -> bool:
        """The first assignment is there, and every assigned channel is open and reads its log. Any thread may ask."""
        return self.consumer is not None and self.consumer.joined() and not self.opening and not self.feeding

    def credit(self) -> int:
        """How many more messages the receivers want together."""
        return sum([link.demand.credit for link in self.links.values()])

    def links_changed(self) -> None:
        """A receiver came or went, maybe with a selector of its own."""
        self.selections.take(self.links.values(), [channel.state for channel in self.channels.values()])

    def note_undeliverable(self, link: Link, channel: OwnedChannel, offset: int) -> None:
        """The receiver must not get this one again, which is about to go back if its session has it in hand."""
        session, has_bit = link.terms.session_id, bool(link.undeliverable)
        if offset not in channel.state.in_hand.get(session, ()):
            return
        link.undeliverable.add((channel.partition, offset))
        if has_bit:
            channel.state.apply(UndeliverableHere(session, offset, self.selections.bit_of(link)))
        else:
            self.links_changed()

    def forget_undeliverable(self) -> None:
        """Forget what receivers must not get again once it has left the queue."""
        channels, links = self.channels, [link for link in self.links.values() if link.undeliverable]
        for link in links:
            settled = [(p, o) for p, o in link.undeliverable if p in channels and o not in channels[p].state.unsettled]
            link.undeliverable.difference_update(settled)
        if not all(link.undeliverable for link in links):
            self.links_changed()

    def wanted(self) -> int:
        """The bits of the receivers that would take more now; of all when no receiver would."""
        return self.selections.wanted_by(self.links.values()) if self.selections.is_selecting else EVERYONE

    def links_of(self, session_id: str) -> Iterator[Link]:
        """A session's receivers."""
        return (link for link in self.links.values() if link.terms.session_id == session_id)

    def notify_links(self) -> None:
        """Wake whoever waits for the group to be ready."""
        for link in self.links.values():
            with link.lock:
                link.filled.notify_all()
