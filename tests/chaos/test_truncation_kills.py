"""Workers that delete what is settled are killed and frozen while a reader, a foreign group and a sleeping subscription
need more of the log.

The checker knows what was sent, what the workers wrote down before they settled it, what others had committed, and
where the log began; it reads nothing of ours.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from jbm_kafka import Topic
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.registry.readers import renew_reader
from jbm_kafka.registry.registry_log import RegistryLog
from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_input import Input
from tests.support.chaos_journal import DONE, GOT, NACKING, SETTLING, read_journals
from tests.support.chaos_run import Run
from tests.support.chaos_topics import committed_offsets, end_offsets
from tests.support.chaos_worker import Task
from tests.support.topics import ADMIN_TIMEOUT_S, admin_client, create_topic
from tests.support.waiting import wait_until

LOOK_MS = 300
"""So often the workers look what they may delete: a hundred times as often as by default."""
SAMPLE_S = 0.25
PARTITIONS = 4
READ_UP_TO = 20
"""The registered reader stands still there, in partition 0."""
FOREIGN = "theirs"
SLOW_S = 0.3
"""Between two hundred messages of the foreign group."""
EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]


def begins_of(bootstrap: str, topic: str) -> Mapping[int, int]:
    """Where the log of each partition begins."""
    asked = {TopicPartition(topic, partition): EARLIEST for partition in range(PARTITIONS)}
    admin = admin_client(bootstrap)  # without a name it would be gone before the answer is there
    futures = admin.list_offsets(dict(asked), request_timeout=ADMIN_TIMEOUT_S)
    return {place.partition: future.result(ADMIN_TIMEOUT_S).offset for place, future in futures.items()}


class Checker:
    """Looks again and again whether the log begins behind something that somebody needs. A context manager."""

    def __init__(self, bootstrap: str, topic: str, needed: Callable[[], list[Mapping[int, int]]]) -> None:
        """`needed`: by partition the lowest offsets that are needed, of everybody; they only rise."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._needed = needed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_on)
        self.wrong: list[str] = []
        self.most: Counter[int] = Counter()
        """The highest beginning that was seen, by partition."""

    def look(self) -> None:
        begins = begins_of(self._bootstrap, self._topic)
        for number, needed in enumerate(self._needed()):  # later: what was deleted before was not needed then either
            for partition, offset in needed.items():
                if begins[partition] > offset:
                    self.wrong.append(f"[{partition}] begins at {begins[partition]}, and {number} needs {offset}")
        self.most |= Counter(begins)

    def _look_on(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self.look()

    def __enter__(self) -> Checker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def unsettled(folder: Path, sent: Input, ends: Mapping[int, int], max_attempts: int) -> Mapping[int, int]:
    """By partition the first offset that no worker was about to settle, by what they wrote down before."""
    finished: dict[int, set[int]] = {partition: set() for partition in ends}
    nacked: Counter[tuple[int, int]] = Counter()
    for step in read_journals(folder):
        if step.kind == SETTLING:
            finished[step.partition].add(step.offset)
        elif step.kind == NACKING and step.message in sent.poison:
            nacked[step.partition, step.offset] += 1
            if nacked[step.partition, step.offset] >= max_attempts:
                finished[step.partition].add(step.offset)
    return {p: next((o for o in range(end) if o not in finished[p]), end) for p, end in ends.items()}


class ForeignGroup:
    """A plain consumer that reads slowly, from the start, and fails at any gap. A context manager."""

    def __init__(self, bootstrap: str, topic: str, ends: Mapping[int, int]) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": FOREIGN + topic, "enable.auto.commit": False,
             "auto.offset.reset": "error"}
        )  # fmt: skip
        self._topic = topic
        self._ends = ends
        self.read = dict.fromkeys(ends, 0)
        self.committed = dict(self.read)
        """No higher than what is committed."""
        self.failure: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._commit()
        self._consumer.assign(self._places())

    def wait_end(self) -> None:
        wait_until(lambda: self.failure is not None or self.read == self._ends, about="the foreign group", timeout_s=90)
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            while self.read != self._ends and not self._stopped.wait(SLOW_S):
                for message in self._consumer.consume(200, 1.0):
                    self._note(message)
                self._commit()
        except BaseException as error:
            self.failure = error

    def _note(self, message: Message) -> None:
        assert message.error() is None, message.error()
        partition, offset = message.partition() or 0, message.offset() or 0
        assert offset == self.read[partition], f"[{partition}] {offset} after {self.read[partition]}"
        self.read[partition] = offset + 1

    def _commit(self) -> None:
        self._consumer.commit(offsets=self._places(), asynchronous=False)
        self.committed = dict(self.read)

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition, offset) for partition, offset in self.read.items()]

    def __enter__(self) -> ForeignGroup:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._consumer.close()


def register_reader(bootstrap: str, topic: str) -> None:
    """As a streaming query does, and then it stands still."""
    kafka = ConfluentKafka(bootstrap)
    admin = kafka.admin()
    registry = RegistryLog(kafka, admin, "jbm.registry")
    positions = {partition: READ_UP_TO if partition == 0 else 10**9 for partition in range(PARTITIONS)}
    topic_id = admin.describe([topic])[topic].topic_id
    renew_reader(registry, RegisteredReader("spark", topic, topic, topic_id, positions, 0, 2**50))
    registry.close()
    admin.close()


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_kills_never_have_deleted_what_somebody_needs(
    bootstrap: str, queue_name: str, tmp_path: Path, seed: int
) -> None:
    """LOG-4, of LOG-2: a queue; a reader stands still, a foreign group is slow, and an operator resets at the end."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=40, each=60, seed=seed, partitions=PARTITIONS,
        truncate="settled", truncate_look_ms=LOOK_MS,
    )  # fmt: skip
    ends = end_offsets(bootstrap, queue_name)
    foreign = ForeignGroup(bootstrap, queue_name, ends)  # has read nothing, so nothing is deleted yet
    with Crew(run.task, seed=seed) as crew:
        crew.hire_ready(1)  # the registry is there
        register_reader(bootstrap, queue_name)
        crew.hire_ready(2)

        def needed() -> list[Mapping[int, int]]:
            committed = foreign.committed
            return [unsettled(run.folder, run.sent, ends, run.task.max_attempts), committed, {0: READ_UP_TO}]

        with foreign, Checker(bootstrap, queue_name, needed) as checker:
            run.at_progress(3, crew.kill_one)
            run.wait_done()
            foreign.wait_end()
            wanted = {**ends, 0: READ_UP_TO}
            wait_until(
                lambda: checker.wrong or begins_of(bootstrap, queue_name) == wanted,
                about=run.explain("all else deleted"),
                timeout_s=60,
            )
        crew.stop()
        run.assert_right([*checker.wrong, *what_is_wrong(run.evidence(crew.kills))])
        again = reset_by_an_operator(run, crew, READ_UP_TO + 5)
    assert again == set(range(READ_UP_TO + 5, ends[0]))


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_kills_lose_nothing_of_what_the_changelog_alone_has(
    bootstrap: str, queue_name: str, tmp_path: Path, seed: int
) -> None:
    """LOG-8, UNIT-1, REDELIVER-5: what came back waits for seconds, and the log is deleted behind it."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=40, each=60, seed=seed, partitions=PARTITIONS, refused=0.01,
        delay_ms=4_000, max_attempts=3, truncate="settled", truncate_look_ms=LOOK_MS, park_look_ms=LOOK_MS,
    )  # fmt: skip
    ends = end_offsets(bootstrap, queue_name)
    with Crew(run.task, seed=seed) as crew:
        crew.hire_ready(3)

        def needed() -> list[Mapping[int, int]]:
            return [unsettled(run.folder, run.sent, ends, run.task.max_attempts)]

        with Checker(bootstrap, queue_name, needed) as checker:
            run.at_progress(5, crew.kill_one)
            run.wait_done()
            run.wait_dead_letters(len(run.sent.poison))
        wait_until(lambda: begins_of(bootstrap, queue_name) == ends, about=run.explain("all deleted"), timeout_s=60)
        crew.stop()
    run.assert_right(what_is_wrong(run.evidence(crew.kills)))
    assert checker.wrong, run.explain("the log was deleted behind what was parked")


def reset_by_an_operator(run: Run, crew: Crew, offset: int) -> set[int]:
    """Of partition 0, while nobody receives; which offsets come again."""
    before = len(read_journals(run.folder))
    place = TopicPartition(run.task.queue, 0, offset)
    client = Consumer({"bootstrap.servers": run.bootstrap, "group.id": run.task.group, "enable.auto.commit": False})
    client.commit(offsets=[place], asynchronous=False)
    client.close()
    crew.hire_ready(1)
    end = end_offsets(run.bootstrap, run.task.queue)[0]
    wait_until(
        lambda: committed_offsets(run.bootstrap, run.task.group).get(0) == end, about=run.explain("0"), timeout_s=60
    )
    crew.stop()
    return {step.offset for step in read_journals(run.folder)[before:] if step.kind == GOT and step.partition == 0}


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_subscription_that_sleeps_among_kills_misses_nothing(bootstrap: str, queue_name: str, tmp_path: Path) -> None:
    """LOG-4, TOPIC-5: one sleeps from the middle on, one process of the other is killed and one stands still."""
    create_topic(bootstrap, queue_name, partitions=PARTITIONS, config={"retention.ms": "-1", "retention.bytes": "-1"})
    create_topic(bootstrap, f"{queue_name}.dlq", partitions=2, config={"retention.ms": "-1"})
    first, second = (Input.mixed(units=40, each=30, seed=seed, refused=0.05, poison=0) for seed in (7, 8))
    task = Task(
        name="", folder=str(tmp_path / "crew"), state_dir="", bootstrap=bootstrap, queue=queue_name,
        dead_letters=f"{queue_name}.dlq", partitions=PARTITIONS, seed=7, subscription="team",
        truncate="settled", truncate_look_ms=LOOK_MS,
    )  # fmt: skip
    sleeper = dataclasses.replace(task, name="sleeper", state_dir=str(tmp_path / "sleeper"), client_id="s" + queue_name)
    with ExitStack() as stack:
        crew = stack.enter_context(Crew(task, seed=7))
        crew.hire_ready(2)
        assert received(sleeper, queue_name, 0) == []  # from now on the subscription is there
        first.send(bootstrap, queue_name, partitions=PARTITIONS)
        run = Run(bootstrap, task, first, 7)
        run.wait_done()
        assert sum(begins_of(bootstrap, queue_name).values()) == 0  # the sleeper needs all
        woken = received(sleeper, queue_name, len(first.bodies))
        middle = end_offsets(bootstrap, queue_name)
        wait_until(lambda: begins_of(bootstrap, queue_name) == middle, about=run.explain("deleted"), timeout_s=60)
        later = Run(bootstrap, task, second, 7)
        with Checker(bootstrap, queue_name, lambda: [middle]) as checker:
            second.send(bootstrap, queue_name, partitions=PARTITIONS)
            crew.kill_one()
            crew.freeze_one()
            wait_until(lambda: later.lag() < 400, about=later.explain("most is done"), timeout_s=90)
            crew.thaw()
            later.wait_settled()
        assert checker.wrong == []
        woken += received(sleeper, queue_name, len(second.bodies))
        ends = end_offsets(bootstrap, queue_name)
        wait_until(lambda: begins_of(bootstrap, queue_name) == ends, about=run.explain("all deleted"), timeout_s=60)
        crew.stop()
    done = {(step.partition, step.offset) for step in read_journals(run.folder) if step.kind == DONE}
    assert done == {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    assert sorted(woken) == sorted(body for _, body in [*first.bodies, *second.bodies])


def received(task: Task, topic: str, count: int) -> list[str]:
    """The bodies of so many messages of a durable subscription, which sleeps before and afterwards."""
    with task.factory().create_connection() as connection, connection.create_session() as session:
        consumer = session.create_durable_consumer(Topic(topic), task.subscription)
        return [str(consumer.receive_body(str, 30)) for _ in range(count)]
