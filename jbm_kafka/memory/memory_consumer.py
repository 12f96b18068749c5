"""A group member of the in-memory Kafka."""

import time
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.memory.memory_groups import Member
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import GroupFenced, GroupListener, KafkaClientError, KafkaRecord, PartitionGone, PositionOutOfRange


class MemoryGroupConsumer:
    """Implements `ports.GroupConsumer`; callbacks run inside `consume` and `close`, without the cluster's lock."""

    def __init__(
        self, process: Process, *, group: str, topic: str, listener: GroupListener, session_timeout_ms: int
    ) -> None:
        self._process = process
        self._cluster = process.cluster
        self._group = self._cluster.group(group)
        self._topic = topic
        self._listener = listener
        self._session_timeout_ms = session_timeout_ms
        self._member: Member | None = None
        self._last_generation = 0
        self._positions: dict[int, int] = {}
        """Owned partitions that have been started, with the next position to read."""
        self._paused: set[int] = set()
        self._stopped: set[int] = set()
        self._ends: dict[int, int] = {}
        self._errors: list[BaseException] = []
        self._turn = 0
        self._joined = False
        self._is_open = True

    # -- reading -----------------------------------------------------------------------------------------------------

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        assert self._is_open, f"group {self._group.name}: consume after close"
        deadline = time.monotonic() + min(timeout_s, self._cluster.poll_s)
        while True:
            self._process.check()
            self._serve_membership()
            with self._cluster.changed:
                self._process.check()
                ends = dict(self._ends)
                records = self._take(count_max) if not self._errors else []
                if self._errors:
                    raise self._errors.pop(0)
                if records or ends != self._ends or not self._cluster.wait(deadline - time.monotonic()):
                    return records

    def _take(self, count_max: int) -> list[KafkaRecord]:
        records: list[KafkaRecord] = []
        ready = sorted(p for p in self._positions if p not in self._paused and p not in self._stopped)
        self._turn += 1
        for index in range(len(ready)):
            # Another partition first each time, so that none waits for ever behind a busy one.
            partition = ready[(index + self._turn) % len(ready)]
            if partition >= len(self._cluster.topic(self._topic).logs):
                self._stopped.add(partition)
                text = f"{self._topic}[{partition}]: the topic was made anew with fewer partitions"
                self._errors.append(PartitionGone(text, partition=partition))
                continue
            log = self._cluster.log(self._topic, partition)
            position = self._positions[partition]
            if not log.begin <= position <= log.end:
                self._stopped.add(partition)
                text = f"{self._topic}[{partition}]: position {position} is outside the log [{log.begin}, {log.end}]"
                self._errors.append(PositionOutOfRange(text, partition=partition))
                continue
            found, self._positions[partition] = log.read(position, count_max - len(records), committed_only=True)
            records += found
            if self._positions[partition] == log.stable_end:
                self._ends[partition] = log.stable_end
        if records and self._errors:
            # The records go first; the error is found again by the next call.
            again = PositionOutOfRange, PartitionGone
            self._stopped -= {error.partition for error in self._errors if isinstance(error, again)}
            self._errors.clear()
        return records

    # -- positions ---------------------------------------------------------------------------------------------------

    def pause(self, partitions: Sequence[int]) -> None:
        self._process.check()
        self._paused.update(self.assignment().intersection(partitions))

    def resume(self, partitions: Sequence[int]) -> None:
        self._process.check()
        self._paused.difference_update(partitions)

    def seek(self, partition: int, position: int) -> None:
        self._process.check()
        if partition not in self.assignment():
            text = f"{self._topic}[{partition}] is not assigned to this member of group {self._group.name}"
            raise KafkaClientError(text)
        self._stopped.discard(partition)
        self._ends.pop(partition, None)
        self._positions[partition] = position

    # -- membership --------------------------------------------------------------------------------------------------

    def assignment(self) -> frozenset[int]:
        return frozenset(self._member.owned) if self._member is not None else frozenset()

    def ends_reached(self) -> Mapping[int, int]:
        return dict(self._ends)

    def breaks(self) -> int:
        return self._cluster.faults.breaks

    def joined(self) -> bool:
        return self._joined

    @property
    def member(self) -> Member | None:
        """As the group knows this consumer; None before it joined and after it lost its membership."""
        return self._member

    def group_metadata(self) -> object:
        self._process.check()
        with self._cluster.changed:
            metadata = None if self._member is None else self._group.metadata(self._member.member_id)
            if metadata is None:
                raise GroupFenced(f"group {self._group.name}: not a member at present", group=self._group.name)
            return metadata

    def close(self) -> None:
        if not self._is_open:
            return
        self._process.check()
        self._is_open = False
        member = self._member
        if member is not None and member.member_id in self._group.members:
            if member.owned:
                partitions = sorted(member.owned)
                self._guarded(lambda: self._listener.on_revoked(partitions))
            with self._cluster.changed:
                self._process.check()
                self._group.leave(member.member_id, self._cluster.partition_count(self._topic))
                self._cluster.changed.notify_all()
        elif member is not None and member.owned:
            partitions = sorted(member.owned)
            self._guarded(lambda: self._listener.on_lost(partitions))
        self._member = None
        if self._errors:
            raise self._errors.pop(0)

    def _serve_membership(self) -> None:
        """Run whatever the group wants of this member, until it wants nothing."""
        while True:
            with self._cluster.changed:
                self._cluster.tick()
                step = self._next_step()
            if step is None:
                return
            step()

    def _next_step(self) -> Callable[[], None] | None:
        member = self._member
        if member is None:
            self._join()
            return self._next_step()
        if member.member_id not in self._group.members:
            return self._lose
        if member.revoking:
            return self._revoke
        if member.assigned - member.owned:
            return self._assign
        self._joined = True
        return None

    def _join(self) -> None:
        partitions = len(self._cluster.topic(self._topic).logs)
        self._member = self._group.join(self._topic, partitions, self._session_timeout_ms)
        self._process.members.append(self._member)
        self._cluster.changed.notify_all()

    def _assign(self) -> None:
        member = self._member
        assert member is not None
        with self._cluster.changed:
            partitions = sorted(member.assigned - member.owned)
            member.owned.update(partitions)
        self._joined = True
        self._guarded(lambda: self._positions.update(self._listener.on_assigned(partitions)))

    def _revoke(self) -> None:
        member = self._member
        assert member is not None
        partitions = sorted(member.revoking)
        self._guarded(lambda: self._listener.on_revoked(partitions))
        self._process.check()
        with self._cluster.changed:
            self._forget(partitions)
            self._group.revoked(member, set(partitions), self._cluster.partition_count(self._topic))
            self._cluster.changed.notify_all()

    def _lose(self) -> None:
        member = self._member
        assert member is not None
        self._process.members.remove(member)
        partitions = sorted(member.owned)
        self._member = None
        self._forget(partitions)
        if partitions:
            self._guarded(lambda: self._listener.on_lost(partitions))

    def _forget(self, partitions: Sequence[int]) -> None:
        self._paused.difference_update(partitions)
        self._stopped.difference_update(partitions)
        for partition in partitions:
            self._positions.pop(partition, None)
            self._ends.pop(partition, None)

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run the listener; what it raises comes out of `consume` or `close` after the group has been answered."""
        try:
            call()
        except Exception as error:
            self._errors.append(error)
