"""From the released version to this one and back, with kills, judged from topics and the workers' journals alone.

`python -m tests.chaos.upgrades` plays it on a local Kafka, once with all processes replaced at once, and once with one
after the other, and prints a row for each queue: what was lost, out of order or wrong. Something wrong is exit code 1.

Whoever is replaced is killed: in the midst of transactions, with messages in hand, nacked, delayed, parked, given up,
and doubled. The subscription and the selectors of the older processes are taken over by the newer ones, and back.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from jbm_kafka.devbroker import LocalBroker
from tests.support.chaos_checks import forwarded, out_of_order, what_is_wrong
from tests.support.chaos_crew import ROOT, Crew
from tests.support.chaos_journal import DONE
from tests.support.chaos_run import Run
from tests.support.chaos_topics import bodies, read_committed
from tests.support.releases import Release, released
from tests.support.topics import create_topic

PARTITIONS = 4
UNITS, EACH = 24, 25
FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def runs(bootstrap: str, folder: Path, name: str) -> dict[str, Run]:
    """Each a queue or subscription of its own, by what it shows."""

    def made(kind: str, **options: object) -> Run:
        return Run.prepare(
            bootstrap, f"{name}.{kind}", folder / kind, units=UNITS, each=EACH, seed=len(kind), partitions=PARTITIONS,
            work_ms=(10.0, 20.0), **options,  # type: ignore[arg-type]
        )  # fmt: skip

    create_topic(bootstrap, f"{name}.copies", partitions=PARTITIONS, config=FOREVER)
    return {
        "delayed, parked, doubled": made(
            "held", delay_ms=3_000, odd=0.1, refused=0.02, max_attempts=3,
            truncate="settled", truncate_look_ms=500, park_look_ms=500,
        ),
        "transactions": made(
            "transacted", mode="TRANSACTED", forward_to=f"{name}.copies", batch=3, poison=0, refused=0.0,
            max_attempts=-1,
        ),
        "selectors": made("selectors", types=("order", "bill")),
    }  # fmt: skip


def durable(bootstrap: str, folder: Path, name: str) -> Run:
    """A durable subscription with a client id, of a topic that is sent to when it is there."""
    topic = create_topic(bootstrap, f"{name}.topic", partitions=PARTITIONS, config=FOREVER)
    queue = Run.prepare(
        bootstrap, f"{name}.unused", folder / "durable", units=UNITS, each=EACH, seed=5, partitions=PARTITIONS,
        work_ms=(10.0, 20.0), subscription="audit", client_id=f"auditor-{name}",
    )  # fmt: skip
    return replace(queue, task=replace(queue.task, queue=topic))


def moves(crew: Crew, release: Release, *, is_rolling: bool) -> list[Callable[[], None]]:
    """Kills, each with its replacements: up to this version, and back."""

    def put(names: Sequence[str], code: Path, python: Path) -> None:
        crew.code, crew.python = code, python
        crew.replace(*(names or crew.present))

    ways = ((ROOT, Path(sys.executable)), (release.folder, release.python))
    if not is_rolling:
        return [lambda way=way: put((), *way) for way in ways]  # type: ignore[misc]
    count = len(crew.present)
    # The first of those present is the oldest one: replacements come last.
    return [lambda way=way: put([next(iter(crew.present))], *way) for way in ways for _ in range(count)]  # type: ignore[misc]


def play(run: Run, crew: Crew, release: Release, *, is_rolling: bool) -> list[str]:
    """Up and back again, by its own progress: what was wrong."""
    blows = moves(crew, release, is_rolling=is_rolling)

    def strike() -> None:
        blows.pop(0)()

    run.at_progress(len(blows), strike)
    run.wait_done()
    crew.stop()
    evidence = run.evidence(crew.kills)
    wrong = what_is_wrong(evidence)
    if run.task.forward_to:
        copies = bodies(read_committed(run.bootstrap, run.task.forward_to))
        wrong += forwarded(run.sent, copies)
    worked = {step.worker for step in evidence.steps if step.kind == DONE}
    ours = {name for name in worked if f"that of {ROOT / 'jbm_kafka'}" in (run.folder / f"{name}.log").read_text()}
    if not ours or ours == worked:
        wrong.append(f"of {sorted(worked)} those of this version are {sorted(ours)}: both should have worked")
    return wrong


def parked(run: Run) -> int:
    """How many messages were parked."""
    entries = read_committed(run.bootstrap, f"{run.task.queue}.jbm-changelog")
    return len({entry.key() for entry in entries if (entry.key() or b"").split(b"|")[1:2] == [b"parked"]})


def upgrade(bootstrap: str, folder: Path, release: Release, name: str, *, is_rolling: bool) -> bool:
    """All of it, side by side; True when nothing was wrong."""
    all_runs = runs(bootstrap, folder, name)
    subscribed = durable(bootstrap, folder, name)
    with ExitStack() as gone, ThreadPoolExecutor() as side_by_side:
        crews: dict[str, Crew] = {}
        for kind, run in [*all_runs.items(), ("durable subscription", subscribed)]:
            crew = crews[kind] = gone.enter_context(Crew(run.task, seed=run.seed))
            crew.code, crew.python = release.folder, release.python
            crew.hire_ready(1 if run is subscribed else 2)
        subscribed.sent.send(bootstrap, subscribed.task.queue, partitions=PARTITIONS)
        all_runs["durable subscription"] = subscribed
        ended = {
            kind: side_by_side.submit(play, run, crews[kind], release, is_rolling=is_rolling)
            for kind, run in all_runs.items()
        }
        wrong = {kind: future.result() for kind, future in ended.items()}
    how = "one after the other" if is_rolling else "all at once"
    for kind, run in all_runs.items():
        misplaced = len(list(out_of_order(run.evidence(crews[kind].kills).steps)))
        print(
            f"{how}: {kind}: {len(run.sent.bodies)} messages, {len(crews[kind].kills)} kills, {parked(run)} parked, "
            f"{misplaced} out of order, {len(wrong[kind])} findings",
            *wrong[kind],
            sep="\n  ",
            flush=True,
        )
    return not any(wrong.values())


def main() -> int:
    """Whole and rolling."""
    release = released("0.1.0")
    with tempfile.TemporaryDirectory() as made, LocalBroker(Path(made) / "broker") as broker:
        were_right = [
            upgrade(broker.bootstrap, Path(made) / name, release, name, is_rolling=is_rolling)
            for name, is_rolling in (("whole", False), ("rolling", True))
        ]
    return 0 if all(were_right) else 1


if __name__ == "__main__":
    sys.exit(main())
