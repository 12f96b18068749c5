"""Several processes that run one bridge into another cluster: one works, and the others stand by."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from urllib.request import urlopen

import pytest

from jbm_kafka import Context, Queue
from jbm_kafka.bridge import Bridge, BridgeEnd
from jbm_kafka.bridge.bridge_spec import checked_bridge
from jbm_kafka.bridge.bridges_together import BridgesTogether
from jbm_kafka.bridge.one_at_a_time import OneAtATime
from jbm_kafka.bridge.pumps import TakenOver
from jbm_kafka.errors import JMSError
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.metrics.server import MetricsServer
from jbm_kafka.ports import AccessRefused, Outgoing
from jbm_kafka.ports.fenced_sends import FencedOff
from jbm_kafka.registry.fenced_transactions import LEASE_MS, SIGN_MS, FencedRecords
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.sidecar.topics.topic_watch import PROBE_S
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.manual_clock import ManualClock
from tests.support.waiting import wait_until

IN, OUT = Queue("in"), Queue("out")
SOON_S = 10.0
UNITS = 4
SPEC = checked_bridge("across", BridgeEnd("memory://here", IN), BridgeEnd("memory://there", OUT))
WHO = r"process \d+ at \S+ \([0-9a-f]{8}\)"


def sent(jms: Context, numbers: range) -> None:
    producer = jms.create_producer()
    for number in numbers:
        producer.send(IN, str(number), unit_of_order=f"u{number % UNITS}")


def received(jms: Context, most: int) -> list[int]:
    """All that comes; more than `most` is told, too."""
    with jms.create_consumer(OUT) as consumer:
        found = [consumer.receive(SOON_S) for _ in range(most)]
        found.append(consumer.receive(0.3))
    return [int(message.body) for message in found if message is not None]


def check_whole(bodies: list[int], numbers: range) -> None:
    assert sorted(bodies) == list(numbers)
    for unit in range(UNITS):
        mine = [each for each in bodies if each % UNITS == unit]
        assert mine == sorted(mine)


def wait_for(bridge: Bridge, looks: Callable[[], bool]) -> None:
    wait_until(looks, about=f"{bridge!r}: {bridge.trouble}", timeout_s=SOON_S)


def test_the_second_of_two_stands_by_and_goes_on_at_once_when_the_first_ends(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """BRIDGE-9, BRIDGE-2, BRIDGE-5: they took it from each other for ever. One line says who runs it."""
    caplog.set_level(logging.INFO)
    ends = BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT)
    first = bridged(*ends)
    wait_for(first, lambda: first.trouble is None)
    second = bridged(*ends)
    wait_for(second, lambda: second.stands_by)
    with world.factory().create_context() as sender, elsewhere.factory().create_context() as receiver:
        sent(sender, range(40))
        check_whole(received(receiver, 40), range(40))
        assert first.statistics().arrived == 40
        assert (second.statistics().arrived, second.statistics().failures) == (0, 0)
        assert second.stands_by
        assert not first.stands_by
        assert re.fullmatch(f"{WHO} runs it; this process goes on with it when that one ends", second.trouble or "")
        assert first.stop()
        sent(sender, range(40, 80))
        check_whole(received(receiver, 40), range(40, 80))
    wait_for(second, lambda: second.statistics().arrived == 40)
    assert not second.stands_by
    lines = [re.sub(WHO, "WHO", record.message) for record in caplog.records if record.message.startswith("bridge ")]
    assert lines == [
        "bridge across stands by: WHO runs it; this process goes on with it when that one ends",
        "bridge across goes on",
    ]


def test_one_that_stands_by_is_ready_and_says_for_whom(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-9: a rolling deploy waits for the new process before it ends the old one."""
    ends = BridgeEnd(world.factory(), IN), BridgeEnd(elsewhere.factory(), OUT)
    first = bridged(*ends)
    wait_for(first, lambda: first.trouble is None)
    second = bridged(*ends)
    wait_for(second, lambda: second.stands_by)
    health = second.health()
    assert health.is_alive
    assert health.is_ready
    with MetricsServer(0, lambda: BridgesTogether([second])) as server:
        texts = [
            urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=SOON_S).read().decode()
            for path in ("/readyz", "/healthz")
        ]
    assert re.fullmatch(f"ok\nbridge across: {WHO} runs it; .*\n", texts[0])
    assert texts[1] == "ok\n"


def test_two_bridges_of_one_name_from_two_places_are_told(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    """Of BRIDGE-9: the second took nothing for ever, and said that it goes on with what the first one does."""
    target = BridgeEnd(elsewhere.factory(), OUT)
    with MemoryWorld() as another:
        first = bridged(BridgeEnd(world.factory(), IN), target)
        wait_for(first, lambda: first.trouble is None)
        second = bridged(BridgeEnd(another.factory(), IN), target)
        wait_for(second, lambda: second.stands_by)
        places = f"from queue:in at {world.url}, and this one is from queue:in at {another.url}: "
        assert re.match(f"{WHO} runs a bridge of this name {places}", second.trouble or ""), second.trouble
        assert "give one of the bridges another name" in second.health().reasons[0]
        assert [record.message for record in caplog.records if record.message.startswith("bridge ")] == [
            f"bridge across stands by: {second.trouble}"
        ]
        assert first.stop()
        wait_for(second, lambda: second.trouble is None)


def test_one_that_loses_its_source_lets_another_try(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-9: the other may reach it."""
    target = BridgeEnd(elsewhere.factory(), OUT)
    away = bridged(BridgeEnd("amqp://127.0.0.1:1", IN), target)
    wait_for(away, lambda: away.statistics().failures > 1)
    other = bridged(BridgeEnd(world.factory(), IN), target)
    wait_for(other, lambda: other.trouble is None)
    wait_for(away, lambda: away.stands_by)


def test_one_whose_source_is_silent_while_nothing_comes_lets_another_go_on(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-9, BRIDGE-8: it waited as for the next message, and kept the bridge."""
    target = BridgeEnd(elsewhere.factory(), OUT)
    with MemoryWorld() as reached:
        first = bridged(BridgeEnd(world.factory(), IN), target)
        wait_for(first, lambda: first.trouble is None)
        second = bridged(BridgeEnd(reached.factory(), IN), target)
        wait_for(second, lambda: second.stands_by)
        world._world.cluster.faults.is_silent = True
        world.clock.advance(int(PROBE_S * 1_000))
        wait_for(second, lambda: second.trouble is None)
        wait_for(first, lambda: first.stands_by)
        assert not first.health().is_ready
        assert second.stop()
        wait_for(first, lambda: first.trouble == f"queue:in at {world.url}: Kafka does not answer")
        world._world.cluster.faults.is_silent = False
        world.clock.advance(int(PROBE_S * 1_000))
        wait_for(first, lambda: first.trouble is None)


class Owners:
    """Two that want one name, at a time that the test tells."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._cluster = MemoryCluster(self.clock)
        self.faults = self._cluster.faults
        self._kafka = MemoryKafka(self._cluster)
        self.first, self.second = self.made("first"), self.made("second")

    @property
    def sign(self) -> bytes:
        """The latest, of any."""
        log = RegistryLog(self._kafka, self._kafka.admin(), "jbm.bridges")
        log.refresh()
        log.close()
        return log.get(b"across|owner") or b""

    def made(self, owner: str) -> FencedRecords:
        """Wants the name `across`."""
        kafka = MemoryKafka(self._cluster)
        return FencedRecords(kafka, kafka.admin(), "across", owner, "", route=lambda _: None, clock=self.clock)

    @contextmanager
    def open_transaction(self, timeout_ms: int) -> Iterator[None]:
        """Of another bridge, until its time is up."""
        producer = MemoryKafka(self._cluster).transactional_producer("other", transaction_timeout_ms=timeout_ms)
        producer.initialise(SOON_S)
        producer.begin()
        producer.produce(Outgoing("jbm.bridges", 0, b"other|batch|1", b"x"))
        yield
        producer.close()

    def close(self) -> None:
        """Both."""
        self.first.close()
        self.second.close()


def test_an_owner_that_shows_no_life_counts_as_gone_and_what_it_still_writes_is_refused() -> None:
    """BRIDGE-9, BRIDGE-2: it was killed, or frozen, which nobody else can tell from that."""
    with closing(Owners()) as owners:
        assert owners.first.holder() is None
        assert owners.first.take_over() == {}
        owners.first.commit((), {b"batch|1": b"x"})
        assert owners.second.holder() == "first"
        owners.clock.advance(LEASE_MS - 1)
        assert owners.second.holder() == "first"
        owners.clock.advance(1)
        assert owners.second.holder() is None
        assert owners.second.take_over() == {b"batch|1": b"x"}
        with pytest.raises(FencedOff):
            owners.first.commit((), {b"batch|2": b"y"})
        assert owners.first.holder() == "second"
        again = owners.made("second")
        assert again.holder() is None, "it is its own"
        assert again.take_over() == {b"batch|1": b"x"}
        again.close()


def test_an_owner_whose_signs_another_bridges_open_transaction_hides_does_not_count_as_gone() -> None:
    """BRIDGE-9: a process of the other bridge was killed within it, and brokers end it 10 to 20 s later."""
    with closing(Owners()) as owners:
        owners.first.take_over()
        assert owners.second.holder() == "first"
        with owners.open_transaction(timeout_ms=LEASE_MS + SIGN_MS):
            for _ in range(LEASE_MS // SIGN_MS + 1):
                owners.clock.advance(SIGN_MS)
                owners.first.sign()
            found: list[str | None] = []
            looks = threading.Thread(target=lambda: found.append(owners.second.holder()))
            looks.start()
            while looks.is_alive():  # until the brokers end the other's transaction, and what was hidden is read
                owners.clock.advance(100)
                looks.join(0.01)
        assert found == ["first"]


def test_an_owner_with_nothing_to_do_shows_that_it_lives() -> None:
    """BRIDGE-9."""
    with closing(Owners()) as owners:
        owners.first.take_over()
        for _ in range(3 * LEASE_MS // SIGN_MS):
            owners.clock.advance(SIGN_MS)
            owners.first.sign()
            assert owners.second.holder() == "first"
        owners.first.release({})
        assert owners.second.holder() is None


class Works:
    """Implements `Pump` by a name that it takes over; it begins, and steps, when it may."""

    def __init__(self, fenced: FencedRecords, may_begin: threading.Event, may_step: threading.Event) -> None:
        self._may_step = may_step
        fenced.take_over()
        assert may_begin.wait(SOON_S)

    def step(self) -> int:
        assert self._may_step.wait(SOON_S)
        return 1

    def close(self) -> None: ...


@pytest.mark.parametrize("patience_s", [120.0, 0.0])
def test_a_slow_beginning_or_step_is_no_death_unless_it_takes_too_long(patience_s: float) -> None:
    """BRIDGE-9: a source that reads what its queue holds, or joins a group; one that hangs leaves the bridge."""
    may_begin, may_step = threading.Event(), threading.Event()
    with closing(Owners()) as owners:
        begin = partial(Works, owners.first, may_begin, may_step)
        working = OneAtATime(owners.first, SPEC, begin, sign_s=0.001, patience_s=patience_s)
        steps: list[int | None] = []
        lane = threading.Thread(target=lambda: steps.append(working.step()))
        lane.start()
        wait_until(lambda: owners.second.holder() == "first", about="it has begun", timeout_s=SOON_S)
        for event in (may_begin, may_step):
            is_gone = stands_still(owners)
            event.set()
            assert is_gone == (not patience_s)
        lane.join()
        assert steps == [1]
        working.close()


def stands_still(owners: Owners) -> bool:
    """True when the first gives no sign for as long as others wait."""
    for _ in range(2 * LEASE_MS // SIGN_MS):
        before = owners.sign
        owners.clock.advance(SIGN_MS)
        with suppress(AssertionError):
            wait_until(lambda: owners.sign != before, about="a sign", timeout_s=0.1)  # noqa: B023
        if owners.second.holder() is None:
            return True
    return False


def test_one_whose_signs_are_refused_says_why_and_takes_the_name_over_again() -> None:
    """BRIDGE-8, BRIDGE-9: while nothing is to be sent, too."""
    at_once = threading.Event()
    at_once.set()
    with closing(Owners()) as owners:
        begin = partial(Works, owners.first, at_once, at_once)
        working = OneAtATime(owners.first, SPEC, begin, sign_s=0.001)
        assert working.step() == 1
        owners.faults.denied = frozenset({"jbm.bridges"})
        owners.clock.advance(SIGN_MS)
        with pytest.raises(JMSError, match=r"it takes Write on topic jbm.bridges"):
            wait_until(lambda: working.step() != 1, about="it fails", timeout_s=SOON_S)
        owners.faults.denied = frozenset()
        working.close()
        assert owners.first.holder() is None
        working = OneAtATime(owners.first, SPEC, begin, sign_s=0.001)
        assert working.step() == 1
        owners.second.take_over()
        owners.clock.advance(SIGN_MS)
        with pytest.raises(TakenOver):
            wait_until(lambda: working.step() != 1, about="it fails", timeout_s=SOON_S)
        working.close()


def test_while_the_target_does_not_answer_nobody_counts_as_gone() -> None:
    """BRIDGE-9: the owner can show nothing either."""
    with closing(Owners()) as owners:
        owners.first.take_over()
        assert owners.second.holder() == "first"
        owners.faults.operations_denied = {"jbm.bridges": frozenset(["DESCRIBE"])}
        with pytest.raises(AccessRefused):
            owners.second.holder()
        owners.faults.operations_denied = {}
        owners.clock.advance(LEASE_MS)
        assert owners.second.holder() == "first"


def test_who_took_a_name_over_by_an_earlier_release_is_waited_for_and_then_gone() -> None:
    """BRIDGE-9: such releases sign once, and without a number."""
    with closing(Owners()) as owners:
        owners.first.take_over()
        owners.first.commit((), {b"owner": b"0123456789abcdef"})
        assert owners.second.holder() == "0123456789abcdef"
        owners.clock.advance(LEASE_MS)
        assert owners.second.holder() is None
