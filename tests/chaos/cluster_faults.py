"""Faults of a cluster of three brokers under a workload, judged from topics and the workers' journals alone.

`python -m tests.chaos.cluster_faults [FAULT ...]` plays them, each on a cluster of its own, prints a row for each, and
adds it to `build/chaos-cluster.md`; without names all of them. A fault that broke a promise ends with exit code 1.
"""

import itertools
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from confluent_kafka import ElectionType, TopicPartition

from tests.support.chaos_checks import (
    forwarded,
    lost,
    out_of_order,
    settled_more_than_once,
    unflagged_repeats,
    wrong_dead_letters,
)
from tests.support.chaos_crew import Crew
from tests.support.chaos_journal import DONE, Step
from tests.support.chaos_run import Run
from tests.support.chaos_topics import bodies, read_committed
from tests.support.cluster import Cluster, Node, three_brokers
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

TABLE = Path("build/chaos-cluster.md")
UNITS = 30
EACH = 120
"""Messages of a unit; so many that the work goes on while a fault lasts."""
AWAY_S = 30.0
"""How long two of three are away; nothing is waited for meanwhile but the time."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may touch."""

    cluster: Cluster
    taken: Run
    """INDIVIDUAL: some messages are refused once, some always."""
    forwarding: Run
    """TRANSACTED: each message is sent on in the transaction that settles it."""
    crew: Crew
    """Of `taken`."""
    pause: Callable[[float], object]

    def wait_third(self) -> None:
        """Return when a third of the work is done: whom a fault strikes is chosen before, for that takes a while."""
        for run in (self.taken, self.forwarding):
            run.wait_done(len(run.sent.good) // 3)


def _down_and_up(scene: Scene, node: Node) -> None:
    """Killed in the midst of the work; up again when somebody else has what it had."""
    scene.wait_third()
    node.kill()
    scene.cluster.wait_led()
    node.start()


def leader(scene: Scene) -> None:
    """The leader of a partition is killed."""
    _down_and_up(scene, scene.cluster.leader(scene.taken.task.queue))


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
    """A leader and a worker are killed in the same moment."""
    node = scene.cluster.leader(scene.taken.task.queue)
    scene.wait_third()
    scene.crew.kill_one()
    _down_and_up(scene, node)


def frozen(scene: Scene) -> None:
    """A leader stands still until others have what it led, and then goes on as if nothing had been."""
    node = scene.cluster.leader(scene.taken.task.queue)
    scene.wait_third()
    node.pause()
    try:
        scene.cluster.wait_led(besides=node)
    finally:
        node.resume()


def rolling_restart(scene: Scene) -> None:
    """One after the other ends in order and comes back."""
    scene.wait_third()
    for node in scene.cluster.nodes.values():
        node.stop()
        node.start()
        scene.cluster.wait_whole()


def two_away(scene: Scene) -> None:
    """Two of three are killed: nothing can be written until one of them is back."""
    gone = sorted(scene.cluster.nodes.values(), key=lambda node: node.number)[:2]
    scene.wait_third()
    for node in gone:
        node.kill()
    scene.pause(AWAY_S)
    for node in gone:
        node.start()


def all_killed(scene: Scene) -> None:
    """All three are killed at once: what none of them had written to its disk is in the system's memory."""
    scene.wait_third()
    for node in scene.cluster.nodes.values():
        node.kill()
    for node in scene.cluster.nodes.values():
        node.start()


def disk_wiped(scene: Scene) -> None:
    """A broker comes back with an empty disk, and copies all from the others."""
    node = scene.cluster.leader(scene.taken.task.queue)
    scene.wait_third()
    node.kill()
    scene.cluster.wait_led()
    node.wipe()
    node.start()


def preferred_election(scene: Scene) -> None:
    """A broker was away, and the partitions that it should lead are given back to it while all works."""
    node = scene.cluster.leader(scene.taken.task.queue)
    _down_and_up(scene, node)
    scene.cluster.wait_whole()
    admin = scene.cluster.admin()
    topics = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
    places = [TopicPartition(name, partition) for name, topic in topics.items() for partition in topic.partitions]
    admin.elect_leaders(ElectionType.PREFERRED, places).result(ADMIN_TIMEOUT_S)


FAULTS: Mapping[str, Callable[[Scene], None]] = {
    each.__name__: each
    for each in (
        leader, group_coordinator, transaction_coordinator, controller, leader_and_worker, frozen, rolling_restart,
        two_away, all_killed, disk_wiped, preferred_election,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """How one fault went."""

    fault: str
    messages: int
    """Sent, to both queues."""
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
    """In which no worker completed anything."""

    @property
    def is_right(self) -> bool:
        """Every promise was kept."""
        return not (self.lost or self.out_of_order or self.false_letters or self.unmarked or self.wrong_in_transactions)

    def as_line(self) -> str:
        """Of the table."""
        return "| " + " | ".join(str(value) for value in astuple(self)) + " |"


HEAD = "| " + " | ".join(each.name.replace("_", " ") for each in fields(Row)) + " |\n" + "|---" * len(fields(Row)) + "|"


def play(
    cluster: Cluster, fault: str, folder: Path, *, seed: int, pause: Callable[[float], object], each: int = EACH
) -> Row:
    """Two queues with two workers and `each` messages a unit; the fault falls when a third is done.

    Raises:
        AssertionError: it does not come to its end; the text names the folder with journals and logs.
    """
    name = f"{fault}-{random.Random(f'{fault} {seed}').randrange(10**6)}".replace("_", "-")
    bootstrap, work = cluster.bootstrap, (10.0, 25.0)
    create_topic(bootstrap, f"{name}.out", partitions=4, config={"retention.ms": "-1"})
    taken = Run.prepare(
        bootstrap, name, folder / "taken", units=UNITS, each=each, seed=seed, partitions=4, work_ms=work
    )
    forwarding = Run.prepare(
        bootstrap, f"{name}.in", folder / "forwarding", units=UNITS, each=each, seed=seed, poison=0, refused=0.0,
        partitions=4, work_ms=work, mode="TRANSACTED", batch=5, forward_to=f"{name}.out", max_attempts=-1,
    )  # fmt: skip
    with ExitStack() as stack:
        crews = [stack.enter_context(Crew(run.task, seed=seed)) for run in (taken, forwarding)]
        for crew in crews:
            crew.hire_ready(2)
        FAULTS[fault](Scene(cluster, taken, forwarding, crews[0], pause))
        cluster.wait_whole()
        for run in (taken, forwarding):
            run.wait_done()
        taken.wait_dead_letters(len(taken.sent.poison))
        for crew in crews:
            crew.stop()
        return _judged(fault, taken, forwarding, crews)


def _judged(fault: str, taken: Run, forwarding: Run, crews: Sequence[Crew]) -> Row:
    seen, sent_on = (run.evidence(crew.kills) for run, crew in zip((taken, forwarding), crews, strict=True))
    copies = bodies(read_committed(taken.bootstrap, forwarding.task.forward_to))
    done = Counter(step.message for step in seen.steps if step.kind == DONE)
    wrong = [*forwarded(forwarding.sent, copies), *settled_more_than_once(sent_on.events)]
    findings = {
        "lost": [*lost(seen), *lost(sent_on)],
        "order": [*out_of_order(seen.steps), *out_of_order(sent_on.steps)],
        "letters": list(wrong_dead_letters(seen)),
        "unmarked": list(unflagged_repeats(seen.steps)),
        "transactions": wrong,
    }
    for lines in findings.values():
        for line in lines[:5]:
            print(taken.explain(line), file=sys.stderr)
    return Row(
        fault=fault,
        messages=len(taken.sent.bodies) + len(forwarding.sent.bodies),
        lost=len(findings["lost"]),
        out_of_order=len(findings["order"]),
        false_letters=len(findings["letters"]),
        twice=sum(count - 1 for count in done.values()),
        unmarked=len(findings["unmarked"]),
        wrong_in_transactions=len(wrong),
        longest_gap_s=round(_longest_gap_s(seen.steps), 1),
    )


def _longest_gap_s(steps: Sequence[Step]) -> float:
    times = [step.at_ns for step in steps if step.kind == DONE]
    return max((after - before for before, after in itertools.pairwise(times)), default=0) / 1e9


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
        with three_brokers(folder / "cluster") as cluster:
            row = play(cluster, name, folder, seed=1, pause=threading.Event().wait)
        print(row.as_line(), flush=True)
        with TABLE.open("a", encoding="utf-8") as table:
            table.write(row.as_line() + "\n")
        is_right = is_right and row.is_right
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
