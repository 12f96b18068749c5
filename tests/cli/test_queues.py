"""`create`, `list`, `show`: what a queue is and holds, for people and for programs."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from tests.cli.conftest import Run


def _shown(kafka: Run, queue: str) -> Any:
    said = kafka("show", queue, "--json")
    assert said.code == 0, said
    return json.loads(said.out)


def test_a_queue_is_created_once_and_its_partitions_are_told(kafka: Run, queue: str) -> None:
    again = kafka("create", queue)
    assert (again.code, again.out) == (0, f"queue:{queue} exists already, 2 partitions\n")
    other = kafka("create", queue, "--partitions", "3")
    assert other.code == 1
    assert other.err == (
        f"jbm-kafka: queue:{queue} exists with 2 partitions, not 3; to have more in use, each unit in its "
        f"order: jbm-kafka admit-partitions {queue} --partitions 3\n"
    )
    fewer = kafka("create", queue, "--partitions", "1")  # a command was advised that cannot do it
    assert fewer.err == f"jbm-kafka: queue:{queue} exists with 2 partitions, not 1, and Kafka takes none away\n"
    for command in ("show", "explain"):
        assert kafka(command, f"topic:{queue}").err == f"jbm-kafka: {queue!r} is a queue: jbm-kafka {command} {queue}\n"
    said = kafka("create", queue, "--json", "--partitions", "2")
    assert json.loads(said.out) == {"name": queue, "kind": "queue", "created": False, "partitions": 2}


def test_held_messages_are_counted_with_their_time_and_settled_ones_are_not(kafka: Run, queue: str) -> None:
    kafka("send", queue, "--text", "first", "--unit", "joe")
    kafka("send", queue, "--text", "later", "--unit", "ann", "--delay-ms", "600000")
    shown = _shown(kafka, queue)
    assert (shown["held"], shown["delayed"], shown["retried"], shown["in_hand"]) == (2, 1, 0, 0)
    assert sum(part["held"] for part in shown["by_partition"]) == 2
    assert shown["oldest_at_ms"] == min(p["oldest_at_ms"] for p in shown["by_partition"] if p["oldest_at_ms"])
    assert kafka("receive", queue).out == "first\n"
    shown = _shown(kafka, queue)
    assert (shown["held"], shown["delayed"]) == (1, 1)
    listed = {each["name"]: each for each in json.loads(kafka("list", "--json").out)}
    assert (listed[queue]["held"], listed[queue]["held_is_exact"], listed[queue]["partitions"]) == (1, True, 2)
    assert queue in kafka("list").out
    assert f"queue:{queue}: 1 held, 1 delayed" in kafka("show", queue).out


def test_what_only_a_receiver_knows_is_not_claimed(kafka: Run, queue: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "in somebody's hand")
    with ConnectionFactory(bootstrap).create_connection() as connection:
        consumer = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(Queue(queue))
        assert consumer.receive(timeout=20) is not None
        shown = _shown(kafka, queue)
        assert (shown["held"], shown["in_hand"], shown["receivers"]) == (1, None, 1)
        assert "1 receiver, only its receivers know how many are in hand" in kafka("show", queue).out


def test_messages_that_came_back_are_told(kafka: Run, queue: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "try me")
    with (
        ConnectionFactory(bootstrap).create_connection() as connection,
        connection.create_session(AcknowledgeMode.CLIENT) as session,
    ):
        assert session.create_consumer(Queue(queue)).receive(timeout=20) is not None
    assert _shown(kafka, queue)["retried"] == 1


def test_what_waits_for_the_end_of_a_transaction_is_told_until_it_ends(kafka: Run, queue: str, bootstrap: str) -> None:
    """An open transaction of any producer holds its whole partition back (UNIT-4)."""
    foreigner = Producer({"bootstrap.servers": bootstrap, "transactional.id": queue, "log_level": 0})
    foreigner.init_transactions(20)
    foreigner.begin_transaction()
    foreigner.produce(queue, b"in a transaction", partition=1)
    assert not foreigner.flush(20)
    kafka("send", queue, "--text", "behind it", "--count", "12")
    before, open_one = _shown(kafka, queue)["by_partition"]
    assert before["uncommitted"] == 0
    assert open_one["uncommitted"] >= 1
    assert open_one["held"] == 0
    told = [line for line in kafka("show", queue).out.splitlines() if "Kafka transaction" in line]
    assert len(told) == 1
    records = (
        "1 record from offset 0 on waits"
        if open_one["uncommitted"] == 1
        else (f"{open_one['uncommitted']} records from offset 0 on wait")
    )
    who = f"jbm-kafka explain {queue} tells whose it is and what ends it"
    ends = f"for the end of a Kafka transaction; if for long: {who}"
    assert told == [f"partition 1: {records} {ends}"]
    listed = {each["name"]: each for each in json.loads(kafka("list", "--json").out)}
    assert listed[queue]["uncommitted"] == open_one["uncommitted"], "held is 0, and nothing told of an open transaction"
    assert f"{queue}: {records.replace(' from offset 0 on', '')} {ends}" in kafka("list").out.splitlines()
    foreigner.abort_transaction(20)
    assert [part["uncommitted"] for part in _shown(kafka, queue)["by_partition"]] == [0, 0]
    assert "Kafka transaction" not in kafka("show", queue).out


def test_a_backlog_too_large_to_read_is_told_as_a_bound(kafka: Run, queue: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "x", "--count", "12")
    with Admin(bootstrap) as admin:
        bounded = admin.counts(queue, count_max=11)
        exact = admin.counts(queue, count_max=12)
    assert (bounded.held, bounded.is_exact, bounded.oldest_at_ms) == (12, False, None)
    assert (exact.held, exact.is_exact) == (12, True)


def test_looking_joins_no_group_and_makes_no_topic(kafka: Run, queue: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "still here")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = set(admin.list_topics(timeout=20).topics)
    for command in (("list",), ("show", queue), ("browse", queue, "--all"), ("dead-letters", "list")):
        assert kafka(*command).code == 0
    groups = {group.group_id for group in admin.list_consumer_groups().result(20).valid}
    assert Queue(queue).group_id() not in groups
    assert set(admin.list_topics(timeout=20).topics) == before


def test_partitions_that_hold_nothing_are_counted_not_shown(kafka: Run, queue: str, kafka_name: str) -> None:
    """A new queue was a page of zeros."""
    empty = kafka("show", queue).out.splitlines()
    assert empty[-1] == "2 of 2 partitions hold nothing (--all-partitions shows all)"
    assert len(empty) == 3
    kafka("send", queue, "--text", "x", "--unit", "joe")
    one = kafka("show", queue).out.splitlines()
    assert one[-2:] == [
        "1 of 2 partitions hold nothing (--all-partitions shows all)",
        f"why they wait: jbm-kafka explain {queue}",
    ]
    assert [line.split()[1] for line in one[3:-2]] == ["1"]  # held
    both = kafka("show", queue, "--all-partitions").out.splitlines()
    assert sorted(line.split()[1] for line in both[3:-1]) == ["0", "1"]


def test_a_namespace_without_anything_is_named(kafka: Run, kafka_name: str) -> None:
    """A misspelt one looked like an empty cluster."""
    said = kafka("list", "--namespace", kafka_name)
    assert (said.code, said.out.startswith(f"no queues or topics in namespace '{kafka_name}' at ")) == (0, True)


def test_a_queue_that_is_named_as_a_topic_is_told_as_it_is_typed(kafka: Run, queue: str) -> None:
    said = kafka("send", f"topic:{queue}", "--text", "x")
    assert (said.code, said.err) == (1, f"jbm-kafka: '{queue}' is a queue: jbm-kafka send {queue}\n")


def test_list_tells_of_which_cluster_it_is_where_nobody_named_one(
    run: Run, kafka: Run, queue: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty broker of this machine was taken for the one that is meant."""
    monkeypatch.setattr("jbm_kafka.cli.cluster_options.default_bootstrap", lambda: bootstrap)
    monkeypatch.delenv("JBM_BOOTSTRAP", raising=False)
    said = run("list")
    assert (said.err, queue in said.out) == (f"Kafka at {bootstrap} (no other was named)\n", True)
    assert (kafka("list").err, run("list", "--json").err) == ("", "")


def test_help_tells_the_form_of_what_json_prints(run: Run) -> None:
    """An array here, an object a line there: each program that read it had to find out."""
    for command, form in (
        (["list"], "one array"),
        (["settings", "list"], "one array"),
        (["subscriptions", "list"], "one array"),
        (["browse"], "one object a line"),
        (["receive"], "one object a line"),
        (["dead-letters", "list"], "one object a line"),
        (["show"], "one object"),
    ):
        assert f"instead of text: {form}." in " ".join(run(*command, "--help").out.split()), command
