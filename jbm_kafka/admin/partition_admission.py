"""Routing the units of a queue or topic by more partitions than before, and ending what that leaves behind (UNIT-11).

Decision 41 tells why each step waits, and what a killed one leaves.
"""

from __future__ import annotations

import logging
import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jbm_kafka.admin.cluster.admin_core import Tell
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError
from jbm_kafka.ports import KafkaAdmin, TopicDescription
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.unit_paths import UnitPaths

log = logging.getLogger(__name__)

PATHS_MAX = 100_000
"""Every process keeps them in memory."""
OPEN_TRANSACTION_S = 30.0
"""Longer than any transaction of ours may last."""
LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class PathsEnded:
    """The outcome of `end_paths`."""

    ended: int
    """Units that are where their hash says, from now on."""
    left: int
    """Units that keep their path: something of them is held, or somebody sent to them meanwhile."""


@dataclass(frozen=True, slots=True)
class DestinationInUse:
    """One queue or topic, and the means to read and change where its units are. The registry was read."""

    destination: Queue | Topic
    found: TopicDescription
    places: UnitPaths
    admin: KafkaAdmin
    held: Callable[[], Iterable[Seen]]
    """All that the queue holds, or any subscription of the topic, settled by nobody; some several times."""
    heard: Callable[[float], object] | None = None
    """As of `Administered`."""

    def now(self) -> UnitPlaces:
        """Where its units are, as read last."""
        return self.places.of(self.destination.name, self.found.topic_id) or UnitPlaces(self.found.partitions)

    def change(self, changed: Callable[[UnitPlaces], UnitPlaces]) -> UnitPlaces:
        """Record it; where its units are then."""
        self.places.change(self.destination.name, self.found.topic_id, changed)
        return self.now()

    def units_held(self) -> Iterator[bytes]:
        """Units with anything that is not settled, sent before now; some several times.

        Raises:
            IllegalStateError: an open transaction hides some of it.
        """
        self._wait_for_transactions()
        for seen in self.held():
            if key := seen.record.key():
                yield key

    def _wait_for_transactions(self) -> None:
        partitions = range(self.found.partitions)
        heads = self.admin.end_positions(self.found.name, partitions, stable=False)
        deadline_s = time.monotonic() + OPEN_TRANSACTION_S
        while True:
            ends = self.admin.end_positions(self.found.name, partitions, stable=True)
            behind = [partition for partition in partitions if ends[partition] < heads[partition]]
            if not behind:
                return
            if time.monotonic() > deadline_s:
                raise IllegalStateError(
                    f"{self.destination}: an open transaction hides what is in partition {behind[0]} from offset "
                    f"{ends[behind[0]]} on, so it is not known which units are there. Do this again when it has ended; "
                    f"one that does not end is found and aborted with kafka-transactions.sh",
                    destination=self.destination.name,
                    partition=behind[0],
                    offset=ends[behind[0]],
                )
            time.sleep(LOOK_AGAIN_S)


def admit(
    used: DestinationInUse,
    partitions: int,
    *,
    add: Callable[[int], None],
    others: Iterable[str],
    force: bool,
    wait_s: float,
    tell: Tell = log.info,
) -> tuple[int, int]:
    """Route its units by so many partitions: the count before, and now. `add` has the topic have them.

    Args:
        others: namespaces in which the topic is a queue, too.
        force: at once, and units are moved away from what is left of them.
        wait_s: until nothing arrives any more of senders that have not heard of it.
        tell: is called before the wait.

    Raises:
        IllegalStateError: it cannot be done without moving a unit; nothing is changed.
        KafkaClientError: it cannot be read or recorded; again goes on.
    """
    before = used.now()
    if partitions < used.found.partitions:
        raise InvalidSettingError(
            f"partitions is {partitions}: {used.destination} has {used.found.partitions}, and Kafka takes none away",
            setting="partitions",
            value=partitions,
        )
    if before.partitions == partitions:
        if before.next_partitions:
            used.change(lambda places: places.given_up(before.admission))
        return partitions, partitions
    if force:
        add(partitions)
        used.change(lambda _: UnitPlaces(partitions))
        return before.partitions, partitions
    _check_one_namespace(used, others)
    mark = _begun(used, partitions, tell)
    _wait(used, wait_s, tell)
    try:
        held = frozenset(used.units_held())
        _check_few(used, held, partitions)
        add(partitions)
    except IllegalStateError:
        used.change(lambda places: places.given_up(mark))
        raise
    after = used.change(lambda places: places.admitted(mark, held) or places)
    if after.partitions != partitions:
        raise IllegalStateError(
            f"{used.destination}: somebody else has admitted its partitions meanwhile, {after.partitions} of them, or "
            f"has begun to",
            destination=used.destination.name,
            partitions=after.partitions,
        )
    log.info("%s: units are routed by %d partitions; %d keep theirs", used.destination, partitions, len(after.paths))
    return before.partitions, partitions


def end_paths(used: DestinationInUse, *, wait_s: float, tell: Tell = log.info) -> PathsEnded:
    """Route those units by their hash again of which nothing is held; `tell` is called before the wait.

    Raises:
        IllegalStateError: an open transaction hides what is held.
        KafkaClientError: it cannot be read or recorded; again goes on.
    """
    if not used.now().paths:
        return PathsEnded(0, 0)
    mark, held = _mark(), frozenset(used.units_held())
    before = used.change(lambda places: places.ending(places.paths.keys() - held, mark))
    marked = [unit for unit, path in before.paths.items() if path.ending == mark]
    if marked:
        _wait(used, wait_s, tell)
        held = frozenset(used.units_held())
        used.change(lambda places: places.ended(mark, held))
    left = used.now().paths
    return PathsEnded(sum(unit not in left for unit in marked), len(left))


def unit_paths(places: UnitPlaces) -> Mapping[str, int]:
    """The partition of each unit that is not where its hash says, or need not be, by its name."""
    return {unit.decode(errors="replace"): path.partition for unit, path in places.paths.items()}


def _wait(used: DestinationInUse, wait_s: float, tell: Tell) -> None:
    if used.heard is not None:
        used.heard(wait_s)
    elif wait_s > 0:
        until = datetime.now(UTC) + timedelta(seconds=wait_s)
        tell(
            f"{used.destination}: waiting until {until:%H:%M:%S} UTC ({wait_s:g} s), so that all senders have heard of "
            f"it"
        )
        time.sleep(wait_s)


def _check_one_namespace(used: DestinationInUse, others: Iterable[str]) -> None:
    names, name = list(others), used.destination.name
    if named := ", ".join(repr(each) if each else "that without a name" for each in names):
        raise IllegalStateError(
            f"{used.destination}: its Kafka topic is used in other namespaces too ({named}), whose senders go by a "
            f"count of their own: stop them all, let it run empty, and admit its partitions with force in each. Where "
            f"nobody uses it any more, what is left there is removed with: "
            f"{', '.join(f'jbm-kafka delete {name} --namespace {shlex.quote(each)}' for each in names)}",
            destination=used.destination.name,
        )


def _begun(used: DestinationInUse, partitions: int, tell: Tell) -> str:
    """Record that an admission of so many has begun; its mark, which is an earlier one's that has not ended."""
    if used.now().next_partitions == partitions:
        tell(
            f"{used.destination}: an admission of {partitions} partitions has begun already, and runs still or was "
            f"killed; this one goes on with it"
        )
    return used.change(lambda places: places.admitting(partitions, _mark())).admission


def _check_few(used: DestinationInUse, held: frozenset[bytes], partitions: int) -> None:
    places = used.now()
    count = len(places.paths) + sum(unit not in places.paths and places.partition(unit) is None for unit in held)
    if count > PATHS_MAX:
        raise IllegalStateError(
            f"{used.destination} holds messages of {count} units that {partitions} partitions would move, and at most "
            f"{PATHS_MAX} can keep their partition: let it run down, and do this again",
            destination=used.destination.name,
            units=count,
        )


def _mark() -> str:
    return uuid.uuid4().hex[:12]
