"""What several processes change in the registry at once: nobody's change is lost, and nobody is asked in vain."""

import itertools
import random
import threading
from collections.abc import Mapping

import pytest

from jbm_kafka.codec.registry_records import turn_key
from jbm_kafka.memory.memory_cluster import CommitFault
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import AccessRefused, Kafka, Outgoing, Unreachable
from jbm_kafka.registry.registry_log import OVERTAKEN, RegistryLog
from tests.support.manual_clock import ManualClock

KEY = b"counter|orders"


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock())


def registry_of(kafka: Kafka) -> RegistryLog:
    return RegistryLog(kafka, kafka.admin(), "jbm.registry")


def one_more(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    return {KEY: b"%d" % (int(values.get(KEY, b"0")) + 1)}


def count_side_by_side(registries: list[RegistryLog], times: int) -> None:
    def count(registry: RegistryLog) -> None:
        for _ in range(times):
            registry.update(one_more)

    threads = [threading.Thread(target=count, args=(registry,)) for registry in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_no_change_is_lost_where_several_processes_change_one_key(cluster: MemoryCluster) -> None:
    """Written without comparing, two processes that counted at once counted once."""
    registries = [registry_of(MemoryKafka(cluster)) for _ in range(3)]
    count_side_by_side(registries, 20)
    for registry in registries:
        registry.refresh()
        assert registry.get(KEY) == b"60"
        registry.close()


def test_who_finds_the_registry_there_needs_no_right_to_make_topics(cluster: MemoryCluster) -> None:
    """The first claim of a client id, and `settings set`, made the topic without a look, and were refused."""
    registry_of(MemoryKafka(cluster)).write({KEY: b"1"})

    def refused(name: str) -> None:
        raise AccessRefused(f"create topic {name}: Topic authorization failed")

    cluster.faults.create = refused
    registry_of(MemoryKafka(cluster)).update(one_more)
    other = registry_of(MemoryKafka(cluster))
    other.make()
    other.refresh()
    assert other.get(KEY) == b"2"


def test_a_change_whose_end_nobody_knows_is_not_made_twice(cluster: MemoryCluster) -> None:
    registry = registry_of(MemoryKafka(cluster))
    asked: list[bytes | None] = []

    def claim(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        asked.append(values.get(KEY))
        return {} if values.get(KEY) == b"mine" else {KEY: b"mine"}

    for fault in (CommitFault.NOT_HEARD, CommitFault.COMMITTED):
        asked.clear()
        registry.update(lambda _: {KEY: b"free"})
        cluster.faults.commits.append(fault)
        before = cluster.log("jbm.registry", 0).end
        registry.update(claim)
        assert registry.get(KEY) == b"mine"
        assert asked[:2] == [b"free", b"free"]  # seen from afar, and again with nobody beside
        assert cluster.log("jbm.registry", 0).end >= before
    assert asked[-1] == b"mine", "the second time its own change was found"


def test_what_this_process_has_under_way_is_not_overlooked(cluster: MemoryCluster) -> None:
    """One thread waits to learn what became of its change, while another gives up what that may have recorded.

    Read to the stable end the change is not there yet, and it would stay for good.
    """
    kafka = MemoryKafka(cluster)
    is_wanted = True

    def claim(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        return {KEY: b"mine"} if is_wanted and KEY not in values else {}

    def give_up() -> None:
        registry.update(lambda values: {KEY: None} if KEY in values else {})

    def meanwhile(seconds: float) -> None:
        nonlocal is_wanted
        is_wanted = False
        other = threading.Thread(target=give_up)
        other.start()
        other.join()

    registry = RegistryLog(kafka, kafka.admin(), "jbm.registry", pause=meanwhile)
    registry.make()
    cluster.faults.commits.append(CommitFault.COMMITTED)
    delays_ms = iter((5_000,))
    cluster.faults.marks_ms = lambda: next(delays_ms, 0)
    registry.update(claim)
    registry.refresh()
    assert not is_wanted, "the other thread came in between"
    assert registry.get(KEY) is None


def test_nothing_is_written_where_there_is_nothing_to_change(cluster: MemoryCluster) -> None:
    registry = registry_of(MemoryKafka(cluster))
    registry.update(one_more)
    end = cluster.log("jbm.registry", 0).end
    registry.update(lambda _: {})
    with pytest.raises(LookupError):
        registry.update(lambda values: {KEY: values[b"missing"]})
    assert cluster.log("jbm.registry", 0).end == end


def test_a_writer_that_was_overtaken_writes_nothing_more(cluster: MemoryCluster) -> None:
    slow, fast = registry_of(MemoryKafka(cluster)), registry_of(MemoryKafka(cluster))
    asked: list[bytes | None] = []

    def late(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        asked.append(values.get(KEY))
        if len(asked) == 2:  # between its looking and its writing
            fast.update(one_more)
        return one_more(values)

    slow.update(late)
    assert asked == [None, None, b"1", b"1"]  # when its turn has come, and when it writes
    assert slow.get(KEY) == b"2"


def test_one_that_is_overtaken_for_longer_than_it_would_try_waits_for_its_turn() -> None:
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    slow, fast = waiting_registry(cluster, clock), registry_of(MemoryKafka(cluster))
    asked = itertools.count(1)

    def late(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        if next(asked) in (2, 4, 6):  # between its looking and its writing
            clock.advance(20_000)
            fast.update(one_more)
        return one_more(values)

    slow.update(late)
    assert slow.get(KEY) == b"4"
    assert next(asked) > 8, "it was overtaken three times"


def test_one_that_gets_no_answer_gives_up_and_says_what_it_heard() -> None:
    clock = ManualClock()
    cluster = MemoryCluster(clock)

    def unheard(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        clock.advance(20_000)
        cluster.faults.commits.append(CommitFault.NOT_HEARD)
        return one_more(values)

    with pytest.raises(Unreachable, match=r"not changed in 40000 ms of trying: .*commit"):
        waiting_registry(cluster, clock).update(unheard)


def test_the_open_transaction_of_a_killed_writer_is_ended(cluster: MemoryCluster) -> None:
    kafka = MemoryKafka(cluster)
    killed = kafka.transactional_producer("jbm.registry", transaction_timeout_ms=10_000)
    registry = registry_of(MemoryKafka(cluster))
    registry.update(one_more)
    killed.initialise(1.0)
    killed.begin()
    killed.produce(Outgoing("jbm.registry", 0, KEY, b"99"))
    registry.update(one_more)
    assert registry.get(KEY) == b"2"


def test_a_deleted_key_is_gone(cluster: MemoryCluster) -> None:
    registry = registry_of(MemoryKafka(cluster))
    registry.update(one_more)
    registry.update(lambda _: {KEY: None})
    assert registry.get(KEY) is None
    assert registry.values() == {}


# -- a crowd (decision 99) ---------------------------------------------------------------------------------------------


class Crowd:
    """Processes that each change a key of their own, all at once; one at a time goes on, chosen by chance."""

    def __init__(self, cluster: MemoryCluster, size: int, *, seed: int) -> None:
        self._chance = random.Random(seed)
        self._waiting: list[threading.Event] = []
        self.registries = [self._registry(MemoryKafka(cluster), cluster) for _ in range(size)]

    def _registry(self, kafka: MemoryKafka, cluster: MemoryCluster) -> RegistryLog:
        admin, chance = kafka.admin(), self._chance.random
        return RegistryLog(
            kafka, admin, "jbm.registry", clock=cluster.clock, pause=lambda _: self.let_others(), chance=chance
        )

    def let_others(self) -> None:
        """Return when chosen."""
        mine = threading.Event()
        self._waiting.append(mine)
        self.choose()
        mine.wait()

    def choose(self) -> None:
        """Have one go on."""
        if self._waiting:
            self._waiting.pop(self._chance.randrange(len(self._waiting))).set()

    def change(self, times: int) -> None:
        """Each so often. Between its looking and its writing others go on."""

        def count(number: int, registry: RegistryLog, begin: threading.Event) -> None:
            key = b"client|%d" % number

            def one_more(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
                changed: dict[bytes, bytes | None] = {key: b"%d" % (int(values.get(key, b"0")) + 1)}
                self.let_others()
                return changed

            begin.wait()
            for _ in range(times):
                registry.update(one_more)
            self.choose()

        begins = [threading.Event() for _ in self.registries]
        threads = [
            threading.Thread(target=count, args=(number, *each))
            for number, each in enumerate(zip(self.registries, begins, strict=True))
        ]
        for thread in threads:
            thread.start()
        self._waiting += begins
        self.choose()
        for thread in threads:
            thread.join()


def refusals(log: pytest.LogCaptureFixture) -> int:
    return sum(record.msg == OVERTAKEN for record in log.records)


def test_in_a_crowd_of_writers_none_is_overtaken_again_and_again(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever began last ended the tries of all others: 20 processes were ready after 115 s, of 50 some never."""
    caplog.set_level("INFO")
    crowd = Crowd(cluster, 20, seed=7)
    crowd.change(2)
    reader = registry_of(MemoryKafka(cluster))
    reader.refresh()
    assert reader.values() == {b"client|%d" % number: b"2" for number in range(20)}
    assert refusals(caplog) <= 2 * 20  # at most by who saw nobody wait


def queue_up(cluster: MemoryCluster, *numbers: int) -> None:
    """As processes do that die then."""
    sender = MemoryKafka(cluster).sender()
    for number in numbers:
        sender.send(Outgoing("jbm.registry", 0, turn_key(number), b"1"), None)
    assert sender.flush(1.0)


def waiting_registry(cluster: MemoryCluster, clock: ManualClock) -> RegistryLog:
    """Time passes while it waits."""
    kafka = MemoryKafka(cluster)
    return RegistryLog(
        kafka, kafka.admin(), "jbm.registry", clock=clock, pause=lambda seconds: clock.advance(int(seconds * 1000))
    )


def test_those_who_died_waiting_hold_up_others_once_and_not_for_long() -> None:
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    registry_of(MemoryKafka(cluster)).update(one_more)
    queue_up(cluster, 1, 2, 3)
    waits_ms = []
    for wanted in (b"2", b"3"):
        begun_ms = clock.monotonic_ms()
        registry = waiting_registry(cluster, clock)
        registry.update(one_more)
        assert registry.get(KEY) == wanted
        waits_ms.append(clock.monotonic_ms() - begun_ms)
    assert 2_000 <= waits_ms[0] <= 4_000
    assert waits_ms[1] == 0, "they are out of the queue"


def test_one_whose_turn_others_ended_waits_for_another() -> None:
    """It stood still, and they thought it dead."""
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    registry_of(MemoryKafka(cluster)).update(one_more)
    queue_up(cluster, 1)
    kafka = MemoryKafka(cluster)
    overtaken: list[RegistryLog] = []

    def stand_still(seconds: float) -> None:
        clock.advance(int(seconds * 1000))
        if not overtaken:
            overtaken.append(waiting_registry(cluster, clock))
            overtaken[0].update(one_more)

    slow = RegistryLog(kafka, kafka.admin(), "jbm.registry", clock=clock, pause=stand_still)
    slow.update(one_more)
    assert slow.get(KEY) == b"3"
    queue_is_empty = waiting_registry(cluster, clock)
    begun_ms = clock.monotonic_ms()
    queue_is_empty.update(one_more)
    assert clock.monotonic_ms() == begun_ms


def test_a_turn_that_is_not_needed_holds_up_nobody() -> None:
    """What it is for was refused when it came."""
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    registry_of(MemoryKafka(cluster)).update(one_more)
    queue_up(cluster, 1)
    asked: list[bytes | None] = []
    kafka = MemoryKafka(cluster)

    def refused(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        asked.append(values.get(KEY))
        if len(asked) > 1:
            raise LookupError(KEY)
        return {KEY: b"wanted"}

    def end_the_first(seconds: float) -> None:
        registry.write({turn_key(1): None})

    registry = RegistryLog(kafka, kafka.admin(), "jbm.registry", clock=clock, pause=end_the_first)
    with pytest.raises(LookupError):
        registry.update(refused)
    begun_ms = clock.monotonic_ms()
    waiting_registry(cluster, clock).update(one_more)
    assert clock.monotonic_ms() == begun_ms
