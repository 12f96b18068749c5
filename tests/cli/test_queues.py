"""`create`, `list`, `show`: what a queue is and holds, for people and for programs."""

import json
from typing import Any

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import World
from tests.cli.conftest import Run


def _shown(cli: Run, queue: str) -> Any:
    said = cli("show", queue, "--json")
    assert said.code == 0, said
    return json.loads(said.out)


def test_a_queue_is_created_once_and_its_partitions_are_told(cli: Run, queue: str) -> None:
    again = cli("create", queue)
    assert (again.code, again.out) == (0, f"queue:{queue} exists already, 2 partitions\n")
    other = cli("create", queue, "--partitions", "3")
    assert other.code == 1
    assert other.err.startswith(f"jbm-kafka: queue:{queue} exists with 2 partitions, not 3; ")
    said = cli("create", queue, "--json", "--partitions", "2")
    assert json.loads(said.out) == {"name": queue, "kind": "queue", "created": False, "partitions": 2}


def test_held_messages_are_counted_with_their_time_and_settled_ones_are_not(cli: Run, queue: str) -> None:
    cli("send", queue, "--text", "first", "--unit", "joe")
    cli("send", queue, "--text", "later", "--unit", "ann", "--delay-ms", "600000")
    shown = _shown(cli, queue)
    assert (shown["held"], shown["delayed"], shown["retried"], shown["in_hand"]) == (2, 1, 0, 0)
    assert sum(part["held"] for part in shown["by_partition"]) == 2
    assert shown["oldest_at_ms"] == min(p["oldest_at_ms"] for p in shown["by_partition"] if p["oldest_at_ms"])
    assert cli("receive", queue).out == "first\n"
    shown = _shown(cli, queue)
    assert (shown["held"], shown["delayed"]) == (1, 1)
    listed = {each["name"]: each for each in json.loads(cli("list", "--json").out)}
    assert (listed[queue]["held"], listed[queue]["held_is_exact"], listed[queue]["partitions"]) == (1, True, 2)
    assert queue in cli("list").out
    assert f"queue:{queue}: 1 held, 1 delayed" in cli("show", queue).out


def test_what_only_a_receiver_knows_is_not_claimed(cli: Run, queue: str, url: str) -> None:
    cli("send", queue, "--text", "in somebody's hand")
    with ConnectionFactory(url).create_connection() as connection:
        consumer = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(Queue(queue))
        assert consumer.receive(timeout=20) is not None
        shown = _shown(cli, queue)
        assert (shown["held"], shown["in_hand"], shown["receivers"]) == (1, None, 1)
        assert "1 receiver, only its receivers know how many are in hand" in cli("show", queue).out


def test_messages_that_came_back_are_told(cli: Run, queue: str, url: str) -> None:
    cli("send", queue, "--text", "try me")
    with (
        ConnectionFactory(url).create_connection() as connection,
        connection.create_session(AcknowledgeMode.CLIENT) as session,
    ):
        assert session.create_consumer(Queue(queue)).receive(timeout=20) is not None
    assert _shown(cli, queue)["retried"] == 1


def test_what_waits_for_the_end_of_a_transaction_is_told_until_it_ends(cli: Run, queue: str, world: World) -> None:
    """An open transaction of any producer holds its whole partition back (UNIT-4)."""
    foreigner = MemoryKafka(world.cluster).transactional_producer("shipping", transaction_timeout_ms=60_000)
    foreigner.initialise(20)
    foreigner.begin()
    foreigner.produce(Outgoing(queue, 1, None, b"in a transaction"))
    cli("send", queue, "--text", "behind it", "--count", "12")
    before, open_one = _shown(cli, queue)["by_partition"]
    assert before["uncommitted"] == 0
    assert open_one["uncommitted"] >= 1
    assert open_one["held"] == 0
    told = [line for line in cli("show", queue).out.splitlines() if "Kafka transaction" in line]
    assert len(told) == 1
    records = (
        "1 record from offset 0 on waits"
        if open_one["uncommitted"] == 1
        else (f"{open_one['uncommitted']} records from offset 0 on wait")
    )
    who = f"jbm-kafka explain {queue} tells whose it is and what ends it"
    ends = f"for the end of a Kafka transaction; if for long: {who}"
    assert told == [f"partition 1: {records} {ends}"]
    listed = {each["name"]: each for each in json.loads(cli("list", "--json").out)}
    assert listed[queue]["uncommitted"] == open_one["uncommitted"], "held is 0, and nothing told of an open transaction"
    assert f"{queue}: {records.replace(' from offset 0 on', '')} {ends}" in cli("list").out.splitlines()
    foreigner.abort(20)
    foreigner.close()
    assert [part["uncommitted"] for part in _shown(cli, queue)["by_partition"]] == [0, 0]
    assert "Kafka transaction" not in cli("show", queue).out


def test_a_backlog_too_large_to_read_is_told_as_a_bound(cli: Run, queue: str, url: str) -> None:
    cli("send", queue, "--text", "x", "--count", "12")
    with Admin(url) as admin:
        bounded = admin.counts(queue, count_max=11)
        exact = admin.counts(queue, count_max=12)
    assert (bounded.held, bounded.is_exact, bounded.oldest_at_ms) == (12, False, None)
    assert (exact.held, exact.is_exact) == (12, True)


def test_looking_joins_no_group_and_makes_no_topic(cli: Run, queue: str, world: World) -> None:
    cli("send", queue, "--text", "still here")
    admin = MemoryKafka(world.cluster).admin()
    before = admin.topic_names()
    for command in (("list",), ("show", queue), ("browse", queue, "--all"), ("dead-letters", "list")):
        assert cli(*command).code == 0
    assert admin.group_members(Queue(queue).group_id()) == 0
    assert admin.topic_names() == before
    admin.close()


def test_partitions_that_hold_nothing_are_counted_not_shown(cli: Run, queue: str, kafka_name: str) -> None:
    """A new queue was a page of zeros."""
    empty = cli("show", queue).out.splitlines()
    assert empty[-1] == "2 of 2 partitions hold nothing (--all-partitions shows all)"
    assert len(empty) == 4
    cli("send", queue, "--text", "x", "--unit", "joe")
    one = cli("show", queue).out.splitlines()
    assert one[-2:] == [
        "1 of 2 partitions hold nothing (--all-partitions shows all)",
        f"why they wait: jbm-kafka explain {queue}",
    ]
    assert [line.split()[1] for line in one[4:-2]] == ["1"]  # held
    both = cli("show", queue, "--all-partitions").out.splitlines()
    assert sorted(line.split()[1] for line in both[4:-1]) == ["0", "1"]


def test_a_namespace_without_anything_is_named(cli: Run, kafka_name: str) -> None:
    """A misspelt one looked like an empty cluster."""
    said = cli("list", "--namespace", kafka_name)
    assert (said.code, said.out.startswith(f"no queues or topics in namespace '{kafka_name}' at ")) == (0, True)
