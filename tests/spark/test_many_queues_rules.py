"""What jobs over many queues decide without Spark."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka import Queue, Topic
from jbm_kafka.core.settings.address_pattern import matches
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import LogPlace
from jbm_spark.archiving.archive_folder import ArchiveIdentity
from jbm_spark.archiving.manifest import Manifest, Span, compacted
from jbm_spark.archiving.next_span import TopicState, shared_out, topic_states
from jbm_spark.errors import SparkJobError
from jbm_spark.fault_by_halves import FAULTS_MAX, AtFault, by_halves
from jbm_spark.log_positions import OF_ONE_TOPIC, log_positions
from jbm_spark.queue_pattern import pattern_regex
from tests.support.manual_clock import ManualClock

WORDS = st.lists(st.sampled_from(["a", "a-b", "b+", "1"]), min_size=1, max_size=4)


@given(st.lists(st.sampled_from(["a", "a-b", "b+", "1", "*", "#"]), min_size=1, max_size=4), WORDS)
def test_the_expression_of_a_pattern_says_what_the_pattern_says(pattern: list[str], name: list[str]) -> None:
    """SPARK-16: events of a queue that has no name as in the pattern would be kept, or others not."""
    told = re.search(pattern_regex(".".join(pattern)), "." + ".".join(name)) is not None
    assert told == matches(".".join(pattern), ".".join(name))


@pytest.mark.parametrize("bad", [set(), {3}, {0, 4}, set(range(FAULTS_MAX))])
def test_who_is_at_fault_is_found_and_the_others_are_done_once(bad: set[int]) -> None:
    """SPARK-16: and where nothing fails there is one attempt."""
    attempts: list[Sequence[int]] = []

    def work(part: Sequence[int]) -> list[int]:
        attempts.append(part)
        if bad & set(part):
            raise SparkJobError(f"cannot: {part}")
        return [*part]

    found = [*by_halves(range(20), work)]
    failed = [each for each in found if isinstance(each, AtFault)]
    done = [number for each in found if not isinstance(each, AtFault) for number in each]
    assert {each.item for each in failed} == bad
    assert sorted(done) == [number for number in range(20) if number not in bad]
    assert all(each.why.startswith("cannot: ") for each in failed)
    assert bad or attempts == [range(20)]


def test_where_nearly_all_fail_it_ends() -> None:
    """SPARK-16: of a cluster that is gone 500 queues would be tried one by one."""
    attempts: list[Sequence[int]] = []

    def work(part: Sequence[int]) -> None:
        attempts.append(part)
        raise SparkJobError("gone")

    with pytest.raises(SparkJobError, match="gone"):
        [*by_halves(range(500), work)]
    assert len(attempts) < 5 * FAULTS_MAX


@given(st.dictionaries(st.text(max_size=2), st.integers(1, 1_000), min_size=1, max_size=20), st.integers(20, 2_000))
def test_a_batch_is_shared_out_so_that_small_queues_are_whole(waiting: dict[str, int], most: int) -> None:
    """SPARK-16: one with a million messages would take a batch for a few of each of the others."""
    shares = shared_out(waiting, most)
    assert shares.keys() == waiting.keys()
    assert all(1 <= shares[name] <= count for name, count in waiting.items())
    assert sum(shares.values()) <= most
    assert sum(shares.values()) == min(most, sum(waiting.values()))
    cut = [shares[name] for name, count in waiting.items() if shares[name] < count]
    assert not cut or max(cut) - min(cut) <= 1
    assert all(shares[name] == count for name, count in waiting.items() if cut and count < min(cut))


def test_spans_of_many_topics_are_compacted_topic_by_topic() -> None:
    """SPARK-16: of one topic they stand one after the other, and of many they are mixed."""
    batches = [
        Manifest(0, 0, 3, 1, [Span("a", {0: 0}, {0: 2}, {}, "a"), Span("b", {0: 0}, {0: 1}, {}, "b")]),
        Manifest(1, 1, 2, 1, [Span("b", {0: 1}, {0: 2}, {}, "b"), Span("a", {0: 2}, {0: 3}, {}, "a")]),
        Manifest(2, 2, 1, 1, [Span("a", {0: 9}, {0: 10}, {0: 3}, "a")]),
    ]
    assert compacted(batches, data_bytes=1).spans == [
        Span("a", {0: 0}, {0: 3}, {}, "a"),
        Span("b", {0: 0}, {0: 2}, {}, "b"),
        Span("a", {0: 9}, {0: 10}, {0: 3}, "a"),
    ]


def test_an_archive_of_a_pattern_has_the_queues_that_it_names() -> None:
    many = ArchiveIdentity("id", "queues:orders.*", "c")
    assert many.has(Queue("orders.eu"))
    assert not many.has(Queue("orders"))
    assert not many.has(Topic("orders.eu"))
    assert ArchiveIdentity("id", "topic:prices", "c").has(Topic("prices"))


def test_a_topic_of_which_nothing_is_known_is_told_by_itself() -> None:
    """SPARK-16: the question about all at once leaves it out, and a KeyError would have told of it."""
    admin = MemoryKafka(MemoryCluster(ManualClock())).admin()
    for name in ("one", "other"):
        admin.create_topic(name, partitions=2, config={})
    states = topic_states(admin, ["one", "gone", "other"])
    nothing = {0: 0, 1: 0}
    assert states == {each: TopicState(each, states[each].topic_id, nothing, nothing) for each in ("one", "other")}
    assert log_positions(admin, {"one": 2}, LogPlace.END) == {"one": nothing}
    with pytest.raises(OF_ONE_TOPIC, match="gone"):
        log_positions(admin, {"one": 2, "gone": 1}, LogPlace.BEGIN)
