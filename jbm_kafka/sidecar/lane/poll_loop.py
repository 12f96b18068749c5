"""One turn of a group worker: what its thread does again and again. On the group's owner thread only.

A turn looks at what changed. Where nothing was asked, said or read since the channels were looked at last, and what
they did then changed none of them, there is nothing to decide: it only asks Kafka's client for more, and sleeps. What
time alone brings is looked at every `LOOK_MS`, however busy the turns are, and delays when they end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.ports import GroupConsumer, PartitionGone, PartitionUnreadable, PositionOutOfRange
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.steps import GO_ON, Wait
from jbm_kafka.registry.pauses import Pausing
from jbm_kafka.sidecar.channel import tuning as numbers
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.lane.assignment import Assignment
from jbm_kafka.sidecar.lane.fetching import Fetching
from jbm_kafka.sidecar.log_lines.connection_lines import ConnectionLines
from jbm_kafka.sidecar.operators.owner_commands import OwnerCommands
from jbm_kafka.sidecar.stages.departures import Departures
from jbm_kafka.sidecar.stages.dispatch import Dispatch
from jbm_kafka.sidecar.stages.flow import Flow
from jbm_kafka.sidecar.stages.misrouted_units import UnitRoutes
from jbm_kafka.sidecar.stages.parked import Parking
from jbm_kafka.sidecar.stages.repeated_messages import RepeatedMessages
from jbm_kafka.sidecar.stages.settle import Settle
from jbm_kafka.sidecar.topics.address_topics import TargetTopics

log = logging.getLogger("jbm_kafka.sidecar.lane.poll_loop")
"""Where its lines have always been: people set levels by the names."""

LOOK_MS = 200
"""How often a group worker looks at what no message brings: a queue may be paused or its memory's share smaller, lines
may be due, and receivers may be away for long."""


class Turn:
    """Fetches, settles, hands over, keeps within memory and asks for checkpoints."""

    def __init__(
        self,
        data: GroupData,
        *,
        settle: Settle,
        departures: Departures,
        flow: Flow,
        repeated: RepeatedMessages,
        assignment: Assignment,
        commands: OwnerCommands,
        note_dirty: Callable[[bool], None],
        targets: TargetTopics,
        pausing: Pausing,
        look_at_topics: Callable[[], None],
        look_at_branches: Callable[[], None],
        parking: Parking,
    ) -> None:
        """`note_dirty` tells the checkpointer that there is work, and whether somebody waits for it."""
        self._data = data
        self._settle = settle
        self.departures = departures
        self.flow = flow
        self._assignment = assignment
        self._commands = commands
        self.dispatch = Dispatch(data, settle, departures)
        self.fetching = Fetching(
            data,
            note_break=ConnectionLines(data.group, data.clock, look_at_topics).broke,
            routes=UnitRoutes(
                lambda: _unit_places(data, targets),
                lambda place, message, home: departures.lines.misplaced(
                    data.group.topic, place, message, home, data.clock.monotonic_ms()
                ),
            ),
            repeated=repeated,
        )
        self._note_dirty = note_dirty
        self._pausing = pausing
        self._is_pause_told = False
        """Somebody who waited has heard of the pause that is in force, and is to hear of its end."""
        self._look_at_topics = look_at_topics
        self._look_at_branches = look_at_branches
        self._parking = parking
        self._watchers: list[tuple[Link, Mapping[int, int], Completion]] = []
        self._active_at_ms = 0
        """When somebody last asked for something, or there was something to do."""
        self.has_served = False
        """The last turn looked at the channels: something had changed, or it was time to."""
        self.has_looked = False
        """The last turn looked around, or was to: it was time to."""
        self._looked_at_ms = -LOOK_MS
        self._is_paused = False
        """Nothing may be handed over, as of the last look around."""
        self._before: object = None
        """The state of channels and receivers when the last look at them began."""
        self._ahead = 0
        self._holds_nothing = True
        """No session has anything in hand."""
        self._is_owing = False
        """Something is not recorded, or is being."""
        self._next_at_ms = 0
        """When the next delay ends, wall clock."""

    # -- the turn ------------------------------------------------------------------------------------------------------

    def once(self, consumer: GroupConsumer) -> Wait:
        """Once around: fetch, settle, hand over, keep within memory, ask for a checkpoint. Returns how to go on."""
        self.has_looked = self._data.clock.monotonic_ms() - self._looked_at_ms >= LOOK_MS
        signal = self._data.mailbox.signal
        is_new = signal.is_set()
        if is_new:
            signal.clear()
        # First, so that what is read takes the memory of what is settled, still in the processor's cache.
        is_new |= self.pump()
        credit = self._data.credit()
        if is_new or self._has_changed(credit):
            self._look()
            is_new = True
        is_fed = not self._data.group.is_recorded  # its consumer never waits, and records wake it beside
        is_beside = is_fed or (not self._ahead and self.is_beside())
        has_fetched = self._fetch(consumer, credit, 0 if is_beside else self.rest_s(is_beside=False))
        is_new |= self.pump() or has_fetched
        now_ms = self._data.turned_ms = self._data.clock.monotonic_ms()
        if is_new:
            self._active_at_ms = now_ms
        self.has_served = is_new or self._is_due(now_ms) or self._has_changed(self._data.credit())
        if self.has_served:
            self.serve(consumer)
            self._look()
        has_delivered = self.has_served and self.dispatch.has_delivered
        # Asleep in the consumer it would hear nobody, and a fast receiver asks every few milliseconds.
        is_satisfied = has_delivered and not self._data.credit()
        may_wait = is_satisfied or ((self._ahead or is_beside) and not has_fetched)
        if not may_wait:
            return GO_ON
        return Wait(self._fed_rest_s() if is_fed else self.rest_s(is_beside=is_beside), signal)

    def pump(self) -> bool:
        """Carry out what others enqueued: commands, acknowledgements, dispositions. True: there was something."""
        is_new = self._data.mailbox.carry_out()
        return self._settle.take_all() or is_new

    def serve(self, consumer: GroupConsumer) -> None:
        """Do what a turn does with what was read and settled."""
        self._before = self._state_of(self._data.credit())
        now_ms = self._data.clock.monotonic_ms()
        if now_ms - self._looked_at_ms >= LOOK_MS:
            self._look_around(now_ms)
        self.pass_time(now_ms)
        self.keep_within_memory(consumer)  # before `grant`: it may open a channel anew, and with it revoke leases
        self._look_at_pause()  # each time: in memory a pause holds when its call returns
        if self._is_paused or self._data.unrecorded is not None:
            self.dispatch.take_back()
        else:
            self.dispatch.grant()
        self.notify_checkpointer()
        self.dispatch.deliver()
        if self._watchers:
            self._notify_watchers()

    def _state_of(self, credit: int) -> tuple[int, dict[int, int]]:
        """Another one when a channel changed, came or went, or receivers ask for more."""
        return credit, {partition: channel.state.changes for partition, channel in self._data.channels.items()}

    def _has_changed(self, credit: int) -> bool:
        """Since the last look began: what that did itself may be followed by more."""
        return self._before != self._state_of(credit)

    def _is_due(self, now_ms: int) -> bool:
        """Time alone may have brought something, or there was more than one turn does."""
        if now_ms - self._looked_at_ms >= LOOK_MS or self._watchers:
            return True
        return self._data.clock.now_ms() >= self._next_at_ms or self.flow.is_pressed

    def _look(self) -> None:
        """Note what the channels are like, for as long as nothing changes."""
        channels = self._data.channels.values()
        self._ahead = self.fetching.ahead()
        self._holds_nothing = all(channel.holds_nothing for channel in channels)
        self._is_owing = any(channel.needs_checkpoint or channel.checkpoints.freeze is not None for channel in channels)
        self._next_at_ms = min([channel.next_at_ms for channel in channels], default=NEVER_MS)
        if self._data.unrecorded is not None and not self._is_owing:  # as after its partitions went to others
            self._data.note_unrecorded(None)

    # -- its parts -----------------------------------------------------------------------------------------------------

    def _look_around(self, now_ms: int) -> None:
        """Look at what no message brings, but time, other processes or people: no oftener than every `LOOK_MS`."""
        self._looked_at_ms, self.has_looked = now_ms, True
        self.flow.look_at_share()
        self.dispatch.take_back_from_idle(now_ms)
        if self._data.selections.is_selecting:
            self._data.forget_undeliverable()
        self.departures.retry(self._data.clock.now_ms())
        self._look_at_branches()
        self._parking.look(now_ms)
        self.departures.lines.log_counts(now_ms)

    def pass_time(self, monotonic_ms: int) -> None:
        """Let delays end, let leave what an operator sends away, and have lazy receivers acknowledge."""
        now_ms, set_back_ms = self._data.clock.now_ms(), self._data.clock.set_back_ms
        for channel in self._data.channels.values():
            channel.pass_time(now_ms, set_back_ms)
        if self._commands.is_leaving:
            self._commands.go_on()
        for link in self._data.links.values():
            if link.notices.on_turn is not None:
                link.notices.on_turn(monotonic_ms)

    def keep_within_memory(self, consumer: GroupConsumer) -> None:
        """Pause, spill and load; open anew what the held store has lost."""
        for channel in self.flow.keep_within_memory(self._data, consumer):
            consumer.resume([channel.partition])  # the channel that opens anew is not paused
            self._assignment.reopen(channel)

    def notify_checkpointer(self) -> None:
        """Ask for a checkpoint when anything is not in the changelog yet."""
        if any(channel.needs_checkpoint for channel in self._data.channels.values()):
            self._note_dirty(any(channel.is_awaited for channel in self._data.channels.values()))

    def _fetch(self, consumer: GroupConsumer, credit: int, rest_s: float) -> bool:
        try:
            return self.fetching.fetch(consumer, ahead=self._ahead, credit=credit, rest_s=rest_s)
        except PositionOutOfRange as error:
            self._assignment.reposition(error.partition)
            return False
        except PartitionGone as error:
            self._assignment.partition_gone(error.partition, str(error))
            self._look_at_topics()
            return False
        except PartitionUnreadable as error:
            self._assignment.notify_unreadable(error.partition, str(error))
            return False

    # -- how long it sleeps, and where -------------------------------------------------------------------------------
    # In Kafka's client while somebody waits for what he may get: the next record wakes it there, nobody else. Beside it
    # while there is something to hand over, somebody has just got what he asked for and will ask again, or all who
    # received work on that and may commit: whoever asks wakes it there, and no record does. While somebody is active it
    # looks at the other every few milliseconds. Once nothing happens and nobody has anything in hand, a few times a
    # second are enough: what somebody asks for first after that is heard a little later.

    def is_beside(self) -> bool:
        """No receiver waits for a message, and one may soon ask for something else: a commit, or the end of its
        acknowledgement's record. In the client the group worker would hear that `BUSY_POLL_S` late."""
        if self._holds_nothing and not self._is_owing:
            return False
        if [link for link in self._data.links.values() if link.demand.is_waiting and link.demand.credit > 0]:
            return False
        return self._data.is_settled  # else what must come soon is the group's answer

    def rest_s(self, *, is_beside: bool) -> float:
        """How long to sleep at most."""
        if self._holds_nothing and not self.dispatch.has_unmet_credit:
            return numbers.IDLE_POLL_S
        if self._is_owing or not (self._holds_nothing or is_beside) or not self._data.is_settled:
            return numbers.BUSY_POLL_S
        if self._data.clock.monotonic_ms() - self._active_at_ms < numbers.QUIET_MS:
            return numbers.BUSY_POLL_S
        left_s = (self._next_at_ms - self._data.clock.now_ms()) / 1000
        return min(numbers.IDLE_POLL_S, max(numbers.BUSY_POLL_S, left_s))

    def _fed_rest_s(self) -> float:
        """The same where whatever happens wakes it: many share a thread, and few have something to do."""
        if self._watchers or self.flow.is_pressed:
            return numbers.BUSY_POLL_S
        has_something = any(any(channel.state.in_hand.values()) for channel in self._data.channels.values())
        longest_s = LOOK_MS / 1000 if self._ahead or self._is_owing or has_something else numbers.FED_REST_S
        return max(0.0, min(longest_s, (self._next_at_ms - self._data.clock.now_ms()) / 1000))

    # -- a pause of its queue ----------------------------------------------------------------------------------------

    def _look_at_pause(self) -> None:
        """Note whether anything may be handed over. Each consumer that waits hears once of a pause, and of its end: to
        one that waits a paused queue looks empty. docs/logging.md lists the lines."""
        destination = self._data.group.destination
        self._is_paused = self._pausing.is_paused(destination.name)
        if self._is_paused:
            for link in self._data.links.values():
                if link.demand.is_waiting and link.notices.hear_of_pause():
                    self._is_pause_told = True
                    log.warning("%s: %s", destination, self._pausing.why_nothing_comes(destination.name))
        elif self._is_pause_told:
            self._is_pause_told = False
            for link in self._data.links.values():
                link.notices.hear_of_no_pause()
            # At the level of the pause: a log of warnings alone shall show that it is over.
            log.warning("%s: receiving is not paused any more, and goes on", destination)

    # -- receivers whose time is up ------------------------------------------------------------------------------------

    def watch(self, link: Link, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when each partition of ours was read up to its end, and the link has got what it asked for."""
        self._watchers.append((link, ends, done))

    def _notify_watchers(self) -> None:
        """After hand-over. Where the queue is paused nothing will come, however far it is read."""
        if not self._data.is_settled:
            return
        self._watchers = [row for row in self._watchers if not row[2].is_done]  # its receive has ended
        channels = self._data.channels.values()
        if not self._is_paused and any(channel.mark.waits or channel.is_awaiting_store for channel in channels):
            return
        left = []
        for link, ends, done in self._watchers:
            if self._is_paused or (self._is_read(ends) and link.is_answered()):
                done.complete()
            else:
                left.append((link, ends, done))
        self._watchers = left

    def _is_read(self, ends: Mapping[int, int]) -> bool:
        consumer, channels = self._data.consumer, self._data.channels
        assert consumer is not None, self._data.group
        at_end = consumer.ends_reached()  # markers at the end of a log never come as records
        return all(
            max(channels[partition].state.read_position, at_end.get(partition, 0)) >= end
            for partition, end in ends.items()
            if partition in channels and not channels[partition].memory.is_paused
        )


NEVER_MS = 1 << 62


def _unit_places(data: GroupData, targets: TargetTopics) -> UnitPlaces | None:
    if data.group.is_temporary:
        return None  # where a unit is, its destination decides
    info = targets.known(data.group.destination.name)
    return None if info is None else info.places or UnitPlaces(info.unit_partitions)
