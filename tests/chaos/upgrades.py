"""From the released version to this one and back, with kills, judged from topics and the workers' journals alone.

`python -m tests.chaos.upgrades` plays it on a local Kafka, once with all processes replaced at once, and once with one
after the other, and prints a row for each queue: what was lost, out of order or wrong. Something wrong is exit code 1.

Whoever is replaced is killed: in the midst of transactions, with messages in hand, nacked, delayed, parked, given up,
and doubled. The subscription and the selectors of the older processes are taken over by the newer ones, and back.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from jbm_kafka.devbroker import LocalBroker
from tests.support.chaos_checks import forwarded, out_of_order, what_is_wrong
from tests.support.chaos_crew import ROOT, Crew
from tests.support.chaos_journal import DONE, read_journals
from tests.support.chaos_run import DONE_S, Run
from tests.support.chaos_topics import bodies, group_members, read_committed
from tests.support.releases import Release, released
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

PARTITIONS = 4
UNITS, EACH = 24, 50
FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def runs(bootstrap: str, folder: Path, name: str) -> dict[str, Run]:
    """Each a queue or subscription of its own, by what it shows. Nothing is sent yet."""

    def made(kind: str, **options: object) -> Run:
        return Run.prepare(
            bootstrap, f"{name}.{kind}", folder / kind, units=UNITS, each=EACH, seed=len(kind), partitions=PARTITIONS,
            work_ms=(10.0, 20.0), is_sent=False, **options,  # type: ignore[arg-type]
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
        "durable subscription": made("durable", subscription="audit", client_id=f"auditor-{name}"),
        "shared subscription": made("shared", subscription=f"team-{name}"),
    }  # fmt: skip


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
    """Up and back again, in the midst of each share of the input: what was wrong.

    The next share is sent when all that are there have partitions: so each worker gets some, beside those of the other
    version where one follows the other.
    """
    blows = moves(crew, release, is_rolling=is_rolling)
    share = len(run.sent.bodies) // (len(blows) + 1)
    about = run.explain("each worker has partitions, and nobody else")

    def have_joined() -> bool:
        members = group_members(run.bootstrap, run.task.group)  # jbm-kafka@<host>/<process id>…; the killed for a while
        there = {found[1] for each in members if (found := re.search(r"/(\d+)", each))}
        return there == {str(each.process.pid) for each in crew.present.values()} and all(members.values())

    def strike(sent: int) -> None:
        if sent % share:
            return
        if sent and blows:
            run.wait_done(sent - share // 2)
            wait_until(lambda: crew.present.keys() <= worked(run), about=about, timeout_s=DONE_S)
            blows.pop(0)()
        wait_until(have_joined, about=about, timeout_s=DONE_S)

    run.sent.send(run.bootstrap, run.task.queue, partitions=PARTITIONS, wait_turn=strike, types=run.task.types)
    run.wait_done()
    hired = {*crew.kills, *crew.present}
    crew.stop()
    evidence = run.evidence(crew.kills)
    wrong = what_is_wrong(evidence)
    if run.task.forward_to:
        copies = bodies(read_committed(run.bootstrap, run.task.forward_to))
        wrong += forwarded(run.sent, copies)
    ours = {name for name in hired if f"that of {ROOT / 'jbm_kafka'}" in (run.folder / f"{name}.log").read_text()}
    if worked(run) != hired or len(ours) * 3 != len(hired):
        wrong.append(f"of {sorted(hired)}, of this version {sorted(ours)}, only {sorted(worked(run))} have worked")
    return wrong


def worked(run: Run) -> set[str]:
    """Who has done a message."""
    return {step.worker for step in read_journals(run.folder) if step.kind == DONE}


def parked(run: Run) -> int:
    """How many messages were parked."""
    entries = read_committed(run.bootstrap, f"{run.task.queue}.jbm-changelog")
    return len({entry.key() for entry in entries if (entry.key() or b"").split(b"|")[1:2] == [b"parked"]})


def upgrade(bootstrap: str, folder: Path, release: Release, name: str, *, is_rolling: bool) -> bool:
    """All of it, side by side; True when nothing was wrong."""
    all_runs = runs(bootstrap, folder, name)
    with ExitStack() as gone, ThreadPoolExecutor() as side_by_side:
        crews: dict[str, Crew] = {}
        for kind, run in all_runs.items():
            crew = crews[kind] = gone.enter_context(Crew(run.task, seed=run.seed))
            crew.code, crew.python = release.folder, release.python
            crew.hire_ready(1 if run.task.client_id else 2)
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
