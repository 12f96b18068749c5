"""One turn of a group worker: what its thread does again and again. On the group's owner thread only."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.ports import GroupConsumer, PartitionGone, PartitionUnreadable, PositionOutOfRange
from jbm_kafka.sidecar.connection_lines import ConnectionLines
from jbm_kafka.sidecar.departures import Departures
from jbm_kafka.sidecar.dispatch import Dispatch
from jbm_kafka.sidecar.flow import Flow
from jbm_kafka.sidecar.group_data import GroupData
from jbm_kafka.sidecar.lane.assignment import Assignment
from jbm_kafka.sidecar.lane.drain_watch import CatchUp
from jbm_kafka.sidecar.lane.fetching import Fetching
from jbm_kafka.sidecar.lane.group_pause import GroupPause
from jbm_kafka.sidecar.owner_commands import OwnerCommands
from jbm_kafka.sidecar.pauses import Pausing
from jbm_kafka.sidecar.repeated_messages import RepeatedMessages
from jbm_kafka.sidecar.settle import Settle
from jbm_kafka.sidecar.steps import GO_ON, Wait
from jbm_kafka.sidecar.targets import TargetTopics
from jbm_kafka.sidecar.unit_routes import UnitRoutes


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
        self.catch_up = CatchUp(data)
        self._note_dirty = note_dirty
        self._pause = GroupPause(data, pausing)
        self._look_at_topics = look_at_topics

    def once(self, consumer: GroupConsumer) -> Wait:
        """Once around: fetch, settle, hand over, keep within memory, ask for a checkpoint. Returns how to go on."""
        signal = self._data.mailbox.signal
        if signal.is_set():
            self.fetching.rest.note_active()
            signal.clear()
        self.pump()  # first, so that what is read takes the memory of what is settled, still in the processor's cache
        ahead = self.fetching.ahead()
        is_beside = not ahead and self.fetching.rest.is_beside()
        has_fetched = self._fetch(consumer, ahead, 0 if is_beside else self._rest_s(is_beside=False))
        self.pump()
        self.serve(consumer)
        if has_fetched or self.dispatch.has_delivered:
            self.fetching.rest.note_active()
        # Asleep in the consumer it would hear nobody, and a fast receiver asks every few milliseconds.
        is_satisfied = self.dispatch.has_delivered and not self._data.credit()
        may_wait = is_satisfied or ((ahead or is_beside) and not has_fetched)
        return Wait(self._rest_s(is_beside=is_beside), signal) if may_wait else GO_ON

    def pump(self) -> None:
        """Carry out what others enqueued: commands, acknowledgements, dispositions."""
        self._data.mailbox.carry_out()
        self._settle.take_all()

    def pass_time(self) -> None:
        """Let delays end, take back what idle receivers leave unread, and have lazy ones acknowledge."""
        now_ms, set_back_ms = self._data.clock.now_ms(), self._data.clock.set_back_ms
        for channel in self._data.channels.values():
            channel.pass_time(now_ms, set_back_ms)
        self.departures.retry(now_ms)
        self._commands.go_on()
        self.departures.lines.log_counts(self._data.clock.monotonic_ms())
        self.dispatch.pass_time()

    def keep_within_memory(self, consumer: GroupConsumer) -> None:
        """Pause, spill and load; open anew what the held store has lost."""
        for channel in self.flow.keep_within_memory(self._data, consumer):
            consumer.resume([channel.partition])  # the channel that opens anew is not paused
            self._assignment.reopen(channel)

    def notify_checkpointer(self) -> None:
        """Ask for a checkpoint when anything is not in the changelog yet."""
        if any(channel.needs_checkpoint for channel in self._data.channels.values()):
            awaited = any(channel.is_awaited for channel in self._data.channels.values())
            self._note_dirty(awaited)

    def _fetch(self, consumer: GroupConsumer, ahead: int, rest_s: float) -> bool:
        try:
            return self.fetching.fetch(consumer, ahead=ahead, rest_s=rest_s)
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

    def _rest_s(self, *, is_beside: bool) -> float:
        return self.fetching.rest.seconds(has_unmet_credit=self.dispatch.has_unmet_credit, is_beside=is_beside)

    def serve(self, consumer: GroupConsumer) -> None:
        """What a turn does with what was read and settled."""
        self.pass_time()
        self.keep_within_memory(consumer)  # before `grant`: it may open a channel anew, and with it revoke leases
        is_paused = self._pause.is_in_force()
        if is_paused:
            self.dispatch.take_back()
        else:
            self.dispatch.grant()
        self.notify_checkpointer()
        self.dispatch.deliver()
        self.catch_up.notify_watchers(is_paused=is_paused)


def _unit_places(data: GroupData, targets: TargetTopics) -> UnitPlaces | None:
    if data.group.is_temporary:
        return None  # where a unit is, its destination decides
    info = targets.known(data.group.destination.name)
    return None if info is None else info.places or UnitPlaces(info.unit_partitions)
