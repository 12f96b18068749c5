"""Faults of a cluster of three brokers under a workload, judged from topics and the workers' journals alone.

`python -m tests.chaos.cluster_faults [FAULT ...]` plays them, each on a cluster of its own, prints a row for each, and
adds it to `build/chaos-cluster.md`; without names all of them. A fault that broke a promise ends with exit code 1.
"""

import random
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType  # type: ignore[attr-defined]

from tests.chaos.cluster_workload import FOREVER, FORWARDING, PARTITIONS, TAKEN, UNITS, Workload, at_work, longest_gap_s
from tests.support.chaos_checks import (
    forwarded,
    lost,
    out_of_order,
    settled_more_than_once,
    unflagged_repeats,
    wrong_dead_letters,
)
from tests.support.chaos_crew import Crew
from tests.support.chaos_input import Input
from tests.support.chaos_journal import DONE, GOT, done_by, read_journals
from tests.support.chaos_run import Run
from tests.support.chaos_topics import bodies, committed_offsets, read_committed
from tests.support.cluster import Cluster, Node, three_brokers, three_brokers_apart, three_relayed_brokers
from tests.support.namespaces import Namespace
from tests.support.relay import Relay
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic, delete_topics
from tests.support.waiting import wait_until

TABLE = Path("build/chaos-cluster.md")
EACH = 48
"""Messages of a unit; so many that the work goes on while a fault lasts."""
AWAY_S = 30.0
"""How long two of three are away; nothing is waited for meanwhile but the time."""
AWHILE_S = 20.0
"""How long other faults last that nothing ends by itself."""
RESET_BY = 30
"""Offsets, forward and back."""
HOUR_MS = 3_600_000
STATE_BYTES = 64 * 2**20
SOON_S = 60.0


@dataclass(slots=True)
class Scene:
    """What a fault may touch."""

    cluster: Cluster
    folder: Path
    pause: Callable[[float], object]
    relay: Relay | None = None
    """Between the brokers and the first worker of both queues."""
    places: Mapping[int, Namespace] = field(default_factory=dict)
    """Of the brokers."""
    work: Workload = field(init=False)

    @property
    def taken(self) -> Run:
        """INDIVIDUAL: some messages are refused once, some always."""
        return self.work.runs[TAKEN]

    @property
    def crew(self) -> Crew:
        """Of `taken`."""
        return self.work.crews[TAKEN]

    @property
    def queue(self) -> str:
        """Of `taken`."""
        return self.taken.task.queue

    def leader(self) -> Node:
        """The broker that leads the queue's first partition."""
        return self.cluster.leader(self.queue)

    def excuse(self, gone: Iterable[tuple[str, int]], again: Iterable[tuple[str, int]] = ()) -> None:
        """The fault itself deleted or skipped those of the queue, and gave these back.

        Says how many of the former are undone, and of these handed out once: without any the round shows nothing.
        """
        gone = frozenset(gone)
        undone = (gone & self.taken.sent.good) - done_by(self.taken.folder)
        in_hand = undone & {step.message for step in read_journals(self.taken.folder) if step.kind == GOT}
        print(f"of {len(gone)} gone {len(undone)} were undone, {len(in_hand)} of them handed out", file=sys.stderr)
        self.work.runs[TAKEN] = replace(self.taken, excused=gone, again=frozenset(again))

    def send_later(self, partitions: int = PARTITIONS) -> None:
        """More messages to the queue, of other units, which nothing excuses."""
        later = Input.mixed(units=UNITS, each=20, seed=self.taken.seed, refused=0.05, poison=3, called="later")
        later.send(self.cluster.bootstrap, self.queue, partitions=partitions)
        self.work.runs[TAKEN] = replace(self.taken, sent=self.taken.sent.and_then(later))

    def configure(self, **settings: str) -> None:
        """Somebody else sets something of the queue's topic; names with _ for points."""
        _configure(self.cluster, self.queue, settings)


def _down_and_up(scene: Scene, node: Node) -> None:
    """Killed in the midst of the work; up again when somebody else has what it had."""
    scene.work.wait_third()
    scene.cluster.wait_whole()  # nobody leads what the node alone had in sync: on a busy machine others fall behind
    node.kill()
    scene.cluster.wait_led()
    node.start()


def leader(scene: Scene) -> None:
    """The leader of a partition is killed."""
    _down_and_up(scene, scene.leader())


def group_coordinator(scene: Scene) -> None:
    """The broker is killed that the members of the queue's group talk to."""
    _down_and_up(scene, scene.cluster.group_coordinator(scene.taken.task.group))


def transaction_coordinator(scene: Scene) -> None:
    """The broker is killed that keeps a worker's transactions."""
    _down_and_up(scene, scene.cluster.transaction_coordinator(scene.cluster.transactional_ids()[0]))


def controller(scene: Scene) -> None:
    """The broker is killed that leads the controllers."""
    _down_and_up(scene, scene.cluster.controller())


def leader_and_worker(scene: Scene) -> None:
    """A leader, a worker and a sidecar are killed in the same moment."""
    node = scene.leader()
    scene.work.wait_third()
    scene.cluster.wait_whole()
    scene.crew.kill_one()
    for sidecar in scene.work.sidecars[:1]:
        sidecar.restart()
    _down_and_up(scene, node)


def frozen(scene: Scene) -> None:
    """A leader stands still until others have what it led, and then goes on as if nothing had been."""
    node = scene.leader()
    scene.work.wait_third()
    node.pause()
    try:
        scene.cluster.wait_led(besides=node)
    finally:
        node.resume()


def rolling_restart(scene: Scene) -> None:
    """One after the other ends in order and comes back."""
    scene.work.wait_third()
    for node in scene.cluster.nodes.values():
        node.stop()
        node.start()
        scene.cluster.wait_whole()


def two_away(scene: Scene) -> None:
    """Two of three are killed: nothing can be written until one of them is back."""
    gone = sorted(scene.cluster.nodes.values(), key=lambda node: node.number)[:2]
    scene.work.wait_third()
    for node in gone:
        node.kill()
    scene.pause(AWAY_S)
    for node in gone:
        node.start()


def all_killed(scene: Scene) -> None:
    """All three are killed at once: what none of them had written to its disk is in the system's memory."""
    scene.work.wait_third()
    for node in scene.cluster.nodes.values():
        node.kill()
    for node in scene.cluster.nodes.values():
        node.start()


def disk_wiped(scene: Scene) -> None:
    """A broker comes back with an empty disk, and copies all from the others."""
    node = scene.leader()
    scene.work.wait_third()
    node.kill()
    scene.cluster.wait_led()
    node.wipe()
    node.start()


def preferred_election(scene: Scene) -> None:
    """A broker was away, and the partitions that it should lead are given back to it while all works."""
    node = scene.leader()
    _down_and_up(scene, node)
    scene.cluster.wait_whole()
    admin = scene.cluster.admin()
    topics = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
    places = [TopicPartition(name, partition) for name, topic in topics.items() for partition in topic.partitions]
    admin.elect_leaders(ElectionType.PREFERRED, places).result(ADMIN_TIMEOUT_S)


def partitions_added(scene: Scene) -> None:
    """Somebody adds partitions to the queue, and producers that are not ours use them at once."""
    scene.work.wait_third(TAKEN)
    admin = scene.cluster.admin()
    admin.create_partitions([NewPartitions(scene.queue, PARTITIONS + 2)])[scene.queue].result(ADMIN_TIMEOUT_S)
    scene.send_later(PARTITIONS + 2)


def queue_made_anew(scene: Scene) -> None:
    """The queue's topic is deleted with what it has, and made again under the same name."""
    scene.work.wait_third(TAKEN)
    scene.excuse(scene.taken.sent.good | scene.taken.sent.poison)
    delete_topics(scene.cluster.bootstrap, [scene.queue])

    def is_made() -> bool:
        with suppress(KafkaException):  # for a moment the old one is still there
            return bool(create_topic(scene.cluster.bootstrap, scene.queue, partitions=PARTITIONS, config=FOREVER))
        return False

    wait_until(is_made, about="the queue made anew", timeout_s=SOON_S)
    scene.send_later()


def follower_behind(scene: Scene) -> None:
    """A follower stands still for 20 s without being taken for dead, and every write waits for it."""
    node = next(node for node in scene.cluster.nodes.values() if node is not scene.leader())
    scene.work.wait_third()
    node.pause()
    try:
        scene.pause(AWHILE_S)
    finally:
        node.resume()


def worker_cut_off(scene: Scene) -> None:
    """Two workers hear nothing from any broker, nor that they hear nothing, until others have had their messages."""
    assert scene.relay
    scene.work.wait_third()
    scene.relay.cut()
    try:
        for name in (TAKEN, FORWARDING):
            scene.work.crews[name].lose("w1")
        scene.pause(AWHILE_S)
    finally:
        scene.relay.heal()
    for name in (TAKEN, FORWARDING):
        scene.work.crews[name].thaw()


def brokers_cut_off(scene: Scene) -> None:
    """A leader and the other brokers do not hear each other, and all clients hear all of them."""
    node = scene.leader()
    scene.work.wait_third()
    own, others = scene.places[node.number], [one for number, one in scene.places.items() if number != node.number]
    own.cut_from(others, is_cut=True)
    try:
        scene.cluster.wait_led(besides=node)
        scene.pause(AWHILE_S / 2)
    finally:
        own.cut_from(others, is_cut=False)


def slow_network(scene: Scene) -> None:
    """What two workers send and hear takes 400 ms, each way."""
    assert scene.relay
    scene.work.wait_third()
    scene.relay.delay_s = 0.4
    scene.pause(AWHILE_S)
    scene.relay.delay_s = 0.0


def disk_full(scene: Scene) -> None:
    """Where two workers keep their state nothing more can be written for a while."""
    scene.work.wait_third()
    filler = _state(scene) / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    scene.pause(AWHILE_S)
    filler.unlink()


def clock_ahead_and_back(scene: Scene) -> None:
    """Two workers' clocks go ahead by an hour, and back to the right time."""
    scene.work.wait_third()
    _set_clock(scene, HOUR_MS)
    scene.pause(AWHILE_S / 2)
    _set_clock(scene, 0)


def group_deleted(scene: Scene) -> None:
    """Somebody deletes the queue's consumer group when nobody receives."""
    scene.work.wait_third(TAKEN)
    scene.crew.stop()
    admin = scene.cluster.admin()
    admin.delete_consumer_groups([scene.taken.task.group])[scene.taken.task.group].result(ADMIN_TIMEOUT_S)
    scene.crew.hire_ready(2)


def offsets_reset(scene: Scene) -> None:
    """Somebody sets the group's offset forward in one partition, and back in another."""
    scene.work.wait_third(TAKEN)
    scene.crew.stop()
    bootstrap, group = scene.cluster.bootstrap, scene.taken.task.group
    before = committed_offsets(bootstrap, scene.queue)
    to = {0: before[0] + RESET_BY, 1: max(before[1] - RESET_BY, 0)}
    admin, wanted = scene.cluster.admin(), [TopicPartition(scene.queue, p, offset) for p, offset in to.items()]
    [future] = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
    future.result(ADMIN_TIMEOUT_S)
    of = {p: [m for m in read_committed(bootstrap, scene.queue) if m.partition() == p] for p in to}
    skipped = [message for message in of[0] if before[0] <= (message.offset() or 0) < to[0]]
    given_back = [message for message in of[1] if (message.offset() or 0) >= to[1]]
    scene.excuse(bodies(skipped), bodies(given_back))
    scene.crew.hire_ready(2)


def retention_by_others(scene: Scene) -> None:
    """Somebody lets the queue's topic keep everything for a second only, and takes that back."""
    scene.work.wait_third(TAKEN)
    scene.configure(retention_ms="1000")
    sent = scene.taken.sent
    wait_until(lambda: not read_committed(scene.cluster.bootstrap, scene.queue), about="all deleted", timeout_s=SOON_S)
    scene.configure(retention_ms="-1")
    scene.excuse(sent.good | sent.poison)
    scene.send_later()


def compaction_by_others(scene: Scene) -> None:
    """Somebody lets the queue's topic be compacted, so that a unit keeps its last message only, and takes that back."""
    scene.work.wait_third(TAKEN)
    scene.configure(cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.001")
    sent, bootstrap = scene.taken.sent, scene.cluster.bootstrap
    scene.send_later()  # what comes begins a new segment

    def kept() -> set[tuple[str, int]]:
        return set(bodies(read_committed(bootstrap, scene.queue)))

    wait_until(lambda: len(kept()) < len(sent.bodies), about="something is compacted", timeout_s=SOON_S)
    scene.configure(cleanup_policy="delete")
    scene.pause(AWHILE_S / 4)  # a run of the cleaner may be under way
    scene.excuse((sent.good | sent.poison) - kept())


FAULTS: Mapping[str, Callable[[Scene], None]] = {
    each.__name__: each
    for each in (
        leader, group_coordinator, transaction_coordinator, controller, leader_and_worker, frozen, rolling_restart,
        two_away, all_killed, disk_wiped, preferred_election, partitions_added, queue_made_anew, follower_behind,
        worker_cut_off, brokers_cut_off, slow_network, disk_full, clock_ahead_and_back, group_deleted, offsets_reset,
        retention_by_others, compaction_by_others,
    )
}  # fmt: skip
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "follower_behind": {"broker.session.timeout.ms": "60000"},
    "retention_by_others": {"log.retention.check.interval.ms": "1000"},
    "compaction_by_others": {"log.cleaner.backoff.ms": "1000"},
}
"""Of the brokers."""
RELAYED = ("worker_cut_off", "slow_network")


def _configure(cluster: Cluster, topic: str, settings: Mapping[str, str]) -> None:
    changes = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    admin = cluster.admin()
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result(ADMIN_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Row:
    """How one fault went."""

    fault: str
    messages: int
    """Sent, to all lanes."""
    lost: int
    out_of_order: int
    false_letters: int
    """Missing, doubled, or of messages that are none."""
    twice: int
    """Done again outside of transactions, marked as redelivered, as is promised."""
    unmarked: int
    """Done again as if it were new."""
    wrong_in_transactions: int
    """Missing, doubled or out of order where the transactions sent to."""
    longest_gap_s: float
    """In which no worker of a lane completed anything; of all lanes the longest."""

    @property
    def is_right(self) -> bool:
        """Every promise was kept."""
        return not (self.lost or self.out_of_order or self.false_letters or self.unmarked or self.wrong_in_transactions)

    def as_line(self) -> str:
        """Of the table."""
        return "| " + " | ".join(str(value) for value in astuple(self)) + " |"


HEAD = "| " + " | ".join(each.name.replace("_", " ") for each in fields(Row)) + " |\n" + "|---" * len(fields(Row)) + "|"


def _state(scene: Scene) -> Path:
    return scene.folder / "small-disk"


def _set_clock(scene: Scene, ahead_ms: int) -> Path:
    """The file that says so, whole whenever somebody reads it."""
    written = scene.folder / "clock.new"
    written.write_text(str(ahead_ms))
    return written.replace(scene.folder / "clock")


@contextmanager
def _first_workers(scene: Scene, fault: str) -> Iterator[Callable[[str], Mapping[str, object]]]:
    """What the task of a lane's first worker has otherwise, for a fault that strikes them alone."""
    if scene.relay:
        bootstrap = scene.relay.bootstrap
        yield lambda lane: {"bootstrap": bootstrap}
    elif fault == "clock_ahead_and_back":
        clock = str(_set_clock(scene, 0))
        yield lambda lane: {"clock_file": clock}
    elif fault == "disk_full":
        place = _state(scene)
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={STATE_BYTES}", "tmpfs", place], check=True)
        try:
            yield lambda lane: {"state_dir": str(place / lane)}
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
    else:
        yield lambda lane: {}


@contextmanager
def scene_of(fault: str, folder: Path, pause: Callable[[float], object]) -> Iterator[Scene]:
    """A cluster as the fault needs it."""
    place = folder / "cluster"
    if fault in RELAYED:
        with three_relayed_brokers(place) as (cluster, relay):
            yield Scene(cluster, folder, pause, relay)
    elif fault == "brokers_cut_off":
        with three_brokers_apart(place) as (cluster, places):
            yield Scene(cluster, folder, pause, places=places)
    else:
        with three_brokers(place, PROPERTIES.get(fault)) as cluster:
            yield Scene(cluster, folder, pause)


def play(scene: Scene, fault: str, *, seed: int, each: int = EACH, is_full: bool = True) -> Row:
    """The fault falls when a third of the work is done.

    Raises:
        AssertionError: it does not come to its end; the text names the folder with journals and logs.
    """
    name = f"{fault}-{random.Random(f'{fault} {seed}').randrange(10**6)}".replace("_", "-")
    bootstrap = scene.cluster.bootstrap
    with ExitStack() as stack:
        first = stack.enter_context(_first_workers(scene, fault))
        scene.work = stack.enter_context(
            at_work(bootstrap, name, scene.folder / "work", seed=seed, each=each, is_full=is_full, first=first)
        )
        FAULTS[fault](scene)
        scene.cluster.wait_whole()
        scene.work.finish()
        return _judged(fault, scene)


def _judged(fault: str, scene: Scene) -> Row:
    runs, lanes, xa = scene.work.runs, scene.work.evidence(), scene.work.xa
    copies = bodies(read_committed(scene.cluster.bootstrap, runs[FORWARDING].task.forward_to))
    wrong = [*forwarded(runs[FORWARDING].sent, copies), *settled_more_than_once(lanes[FORWARDING].events)]
    findings = {
        "lost": [line for seen in lanes.values() for line in lost(seen)],
        "order": [line for seen in lanes.values() for line in out_of_order(seen.steps, seen.excused)],
        "letters": [line for seen in lanes.values() for line in wrong_dead_letters(seen)],
        "unmarked": [line for seen in lanes.values() for line in unflagged_repeats(seen.steps, seen.again)],
        "transactions": [*wrong, *(xa.wrong() if xa else ())],
    }
    for kind, lines in findings.items():
        for line in lines[:5]:
            print(f"{kind}: {scene.taken.explain(line)}", file=sys.stderr)
    gaps = {name: round(longest_gap_s(seen.steps), 1) for name, seen in lanes.items()}
    print(f"{fault}: longest gaps {gaps}", file=sys.stderr)
    done = Counter(
        (name, step.message)
        for name, seen in lanes.items()
        for step in seen.steps
        if step.kind == DONE and name != FORWARDING and step.message not in seen.again
    )
    return Row(
        fault=fault,
        messages=sum(len(run.sent.bodies) for run in runs.values()) + (len(xa.sent.bodies) if xa else 0),
        lost=len(findings["lost"]),
        out_of_order=len(findings["order"]),
        false_letters=len(findings["letters"]),
        twice=sum(count - 1 for count in done.values()),
        unmarked=len(findings["unmarked"]),
        wrong_in_transactions=len(findings["transactions"]),
        longest_gap_s=max(gaps.values()),
    )


def main() -> int:
    """The exit code."""
    names = sys.argv[1:] or list(FAULTS)
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    TABLE.parent.mkdir(exist_ok=True)
    if not TABLE.exists():
        TABLE.write_text(HEAD + "\n", encoding="utf-8")
    print(HEAD, flush=True)
    is_right = True
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-"))
        try:
            with scene_of(name, folder, threading.Event().wait) as scene:
                row = play(scene, name, seed=1)
        except AssertionError:
            traceback.print_exc()
            print(f"{name} did not come to its end", flush=True)
            is_right = False
            continue
        print(row.as_line(), flush=True)
        with TABLE.open("a", encoding="utf-8") as table:
            table.write(row.as_line() + "\n")
        is_right = is_right and row.is_right
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
