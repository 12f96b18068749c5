"""`jbm-kafka provision`: every topic of a namespace, made once, and the rights of its users as text."""

from __future__ import annotations

import itertools
import json
import logging
import shlex
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.ports import AccessRefused
from jbm_kafka.providers.in_memory import World
from jbm_kafka.registry.access_rights import NamespaceTopics, Role, rules_of
from jbm_kafka.registry.topic_configs import MARGIN_BYTES
from tests.cli.conftest import Run, run, url, world

__all__ = ["run", "url", "world"]

ASKED = ("--queues", "orders:3,invoices", "--topics", "prices", "--partitions", "2", "--namespace", "shop")
OURS = {"registry": 1, "events": 16, "commands": 1, "temporary": 16, "branches": 1, "bridges": 1,
        "spark-batches": 1}  # fmt: skip


def refused(name: str, *_: object) -> None:
    raise AccessRefused(f"{name}: no access rule of Kafka's allows that")


def test_every_topic_of_a_namespace_is_made_and_a_second_time_nothing(run: Run, world: World, url: str) -> None:
    said = run("provision", *ASKED, "--bootstrap", url)
    assert (said.code, said.err) == (0, "")
    topics = world.cluster.topics
    assert {name: len(topic.logs) for name, topic in topics.items()} == {
        **{f"shop.jbm.{name}": count for name, count in OURS.items()},
        **{name: count for queue, count in {
               "orders": 3, "invoices": 2, "prices": 2, "shop.DLQ": 2, "shop.ExpiryQueue": 2}.items()
           for name in (queue, f"shop.{queue}.jbm-changelog")},
    }  # fmt: skip
    world.cluster.faults.create = world.cluster.faults.alter = refused
    again = json.loads(run("provision", *ASKED, "--bootstrap", url, "--json").out)["topics"]
    assert {each["topic"] for each in again} == set(topics)
    assert not [each for each in again if each["created"] or each["changes"] or each["note"]]


def test_a_dry_run_changes_nothing(run: Run, world: World, url: str) -> None:
    said = run("provision", *ASKED, "--bootstrap", url, "--dry-run")
    assert "shop.orders.jbm-changelog" in said.out
    assert "would be created" in said.out
    assert not world.cluster.topics


def test_programs_of_a_provisioned_namespace_make_and_change_no_topic(
    run: Run, world: World, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The letters' addresses were made too small, so that each worker asked for the right to enlarge them."""
    queues = ("--queues", "shop.DLQ:1")  # whose letters are received are a queue, too
    run("provision", *ASKED, *queues, "--bootstrap", url, "--max-message-bytes", "3000000")
    assert int(world.cluster.topics["shop.DLQ"].config["max.message.bytes"]) == 3_000_000 + MARGIN_BYTES
    world.cluster.faults.create = world.cluster.faults.alter = refused
    settings = {"orders": AddressSettings(max_delivery_attempts=1)}
    factory = ConnectionFactory(url, namespace="shop", client_id="me", auto_create=False, address_settings=settings)
    with caplog.at_level(logging.INFO, "jbm_kafka"), factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        audit = session.create_durable_consumer(Topic("prices"), "audit")
        session.create_producer(Topic("prices")).send("dear")
        session.create_producer(Queue("orders")).send("late", time_to_live_ms=1)
        session.create_producer(Queue("orders")).send("bad")
        orders, dead = session.create_consumer(Queue("orders")), session.create_consumer(Queue("shop.DLQ"))
        expired = session.create_consumer(Queue("shop.ExpiryQueue"))
        for consumer, verdict in ((audit, "acknowledge"), (orders, "nack"), (dead, "acknowledge"),
                                  (expired, "acknowledge")):  # fmt: skip
            message = consumer.receive(timeout=20)
            assert message is not None
            getattr(message, verdict)()
        connection.create_session().create_temporary_queue()
    assert "access rule" not in caplog.text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ("--queues", "orders:4"),
            "orders: it has 3 partitions, not 4; to have more, in order: jbm-kafka admit-partit",
        ),
        (("--queues", "orders:2"), "orders: it has 3 partitions, not 2, and Kafka takes none away"),
        (("--topics", "x,orders:3", "--queues", "in_voices,in.voices"), "'.' and '_' collide"),
    ],
)
def test_what_cannot_be_as_asked_is_told_and_nothing_is_done(
    run: Run, world: World, url: str, asked: tuple[str, ...], said: str
) -> None:
    run("provision", "--queues", "orders:3", "--bootstrap", url)
    before = set(world.cluster.topics)
    found = run("provision", *asked, "--bootstrap", url)
    assert (found.code, found.out, found.err.count("\n")) == (1, "", 1)
    assert said in found.err
    assert set(world.cluster.topics) == before


def test_sizes_and_replicas_in_sync_of_what_is_there_are_set(run: Run, world: World, url: str) -> None:
    run("provision", "--queues", "orders", "--bootstrap", url)
    said = run(
        "provision", "--queues", "orders", "--min-isr", "2", "--max-message-bytes", "2000000", "--bootstrap", url
    )
    assert "max.message.bytes set to 2000000; min.insync.replicas set to 2" in said.out
    assert {topic.config["min.insync.replicas"] for topic in world.cluster.topics.values()} == {"2"}
    changelog = world.cluster.topics["orders.jbm-changelog"].config["max.message.bytes"]
    assert int(changelog) == 2_000_000 + MARGIN_BYTES


def test_a_file_says_the_same_and_options_win(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    text = 'queues = ["orders:3"]\ntopics = ["prices"]\npartitions = 4\nroles = ["worker:User:app"]\n'
    file.write_text("[destinations]\n" + text)
    said = run("provision", "--file", str(file), "--acls", "json", "--namespace", "shop")
    asked = run("provision", "--queues", "orders", "--topics", "prices", "--roles", "worker:User:app", "--acls", "json",
                "--namespace", "shop")  # fmt: skip
    assert said == asked
    file.write_text(text)  # as earlier versions had it
    older = run("provision", "--config", str(file), "--acls", "json", "--namespace", "shop")
    assert (older.code, older.out) == (said.code, said.out)
    assert "now below [destinations] stand queues, topics, partitions, roles" in older.err
    assert '"orders"' not in run("provision", "--file", str(file), "--queues", "other", "--acls", "json").out


def test_the_rights_of_all_roles_are_printed_for_each_tool(run: Run) -> None:
    roles = "worker:User:app,producer:User:app,look:User:CN=jane,O=shop"
    asked = ("provision", "--queues", "orders", "--roles", roles, "--namespace", "shop", "--bootstrap", "kafka:9093")
    installation = NamespaceTopics("shop", [Queue("orders")], [Queue("shop.DLQ"), Queue("shop.ExpiryQueue")])
    wanted = {
        (principal, rule.kind.value, rule.name, rule.is_prefix, operation)
        for principal, each in {
            "User:app": [Role.WORKER, Role.PRODUCER], "User:CN=jane,O=shop": [Role.LOOK]}.items()
        for rule in rules_of(each, installation)
        for operation in rule.spelt
    }  # fmt: skip
    values = json.loads(run(*asked, "--acls", "json").out)
    assert wanted == {
        (each["principal"], each["resource"], each["name"], each["pattern"] == "prefixed", operation)
        for each in values
        for operation in each["operations"]
    }
    given = set()
    for line in run(*asked, "--acls", "kafka-acls").out.splitlines():
        words = shlex.split(line)
        options = list(itertools.pairwise(words))
        (principal,) = [value for option, value in options if option == "--allow-principal"]
        given |= {
            (principal, option[2:], value, "prefixed" in words, operation)
            for option, value in options if option in ("--topic", "--group", "--transactional-id")
            for at, operation in options if at == "--operation"
        }  # fmt: skip
    assert given == wanted
    assert run(*asked, "--acls", "strimzi").out.count("kind: KafkaUser") == 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--roles", "boss:User:app", "--acls", "json"), "'boss' is no role; roles are producer, worker"),
        (("--roles", "worker:app", "--acls", "json"), "'worker:app': write ROLE:PRINCIPAL, as in worker:User:app"),
        (("--roles", "worker:User:app"), "give --roles, and --acls FORMAT or --set-acls beside it"),
        (("--set-acls",), "give --roles, and --acls FORMAT or --set-acls beside it"),
        (("--queues", "jbm.orders"), "names that start with 'jbm.' are reserved"),
        (("--queues", "orders", "--topics", "orders"), "'orders' is named twice; a name is one queue or one topic"),
        (("--queues", "orders:many"), "'orders:many': write NAME, or NAME:N with N partitions, 1 to 10000"),
        (("--replication", "2", "--min-isr", "3"), "--min-isr 3 is more than --replication 2"),
    ],
)
def test_wrong_usage_is_one_line(run: Run, asked: tuple[str, ...], said: str) -> None:
    found = run("provision", *asked)
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert said in found.err
