"""`send` and `receive` of topics: what is sent now, and what a durable subscription has."""

import threading

import pytest

from jbm_kafka import ConnectionFactory, Topic
from jbm_kafka.admin import Admin
from tests.cli.conftest import Run
from tests.support.waiting import wait_until


@pytest.fixture
def topic(cli: Run, kafka_name: str) -> str:
    """A topic of this test."""
    name = f"{kafka_name}-prices"
    assert cli("create", name, "--topic", "--partitions", "2").code == 0
    return name


def test_what_is_sent_to_a_topic_is_received_of_its_durable_subscriptions(cli: Run, url: str, topic: str) -> None:
    """Of TOPIC-2, TOPIC-3: each has it once, and its selector stays."""
    with ConnectionFactory(url, client_id=topic).create_context() as jms:
        jms.create_durable_consumer(Topic(topic), "ledger", "qty > 1", no_local=True).close()
        jms.create_shared_durable_consumer(Topic(topic), "audit").close()
    for qty in (1, 2):
        said = cli("send", f"topic:{topic}", "--text", f"{qty} books", "--property", f"qty:int={qty}", "--unit", "u")
        assert (said.code, said.out) == (0, f"1 sent to topic:{topic}\n")
    ledger = ("receive", topic, "--subscription", "ledger", "--client-id", topic)
    assert cli(*ledger).out == "2 books\n"
    audit = ("receive", f"topic:{topic}", "--subscription", "audit", "--client-id", topic)
    assert cli(*audit, "--count", "2").out == "1 books\n2 books\n"
    said = cli(*audit, "--timeout", "0.2")
    assert (said.code, said.err.strip()) == (1, f"jbm-kafka: topic:{topic}: no message came within 0.2 s")
    cli("send", f"topic:{topic}", "--text", "3 books", "--property", "qty:int=3")
    assert cli(*ledger).out == "3 books\n"


def test_of_a_topic_alone_what_is_sent_from_now_on_is_received(cli: Run, url: str, topic: str) -> None:
    """Of TOPIC-1."""
    assert cli("send", f"topic:{topic}", "--text", "early").code == 0

    def send_when_it_receives() -> None:
        with Admin(url) as admin, ConnectionFactory(url, auto_create=False).create_context() as jms:
            wait_until(lambda: any(each.members for each in admin.subscriptions(topic)), about="a member", timeout_s=60)
            jms.create_producer().send(Topic(topic), "late")

    sending = threading.Thread(target=send_when_it_receives)
    sending.start()
    assert cli("receive", f"topic:{topic}", "--timeout", "60").out == "late\n"
    sending.join()


def test_a_subscription_that_is_misspelt_is_not_made(cli: Run, topic: str) -> None:
    said = cli("receive", topic, "--subscription", "legder")
    assert said.code == 1
    assert "there is no durable subscription 'legder': " in said.err
    assert cli("subscriptions", "list", topic).out == f"no subscriptions of {topic}\n"


def test_what_would_make_it_another_subscription_is_refused(cli: Run, url: str, topic: str) -> None:
    with ConnectionFactory(url).create_context() as jms:
        jms.create_shared_durable_consumer(Topic(topic), "audit").close()
    said = cli("receive", topic, "--subscription", "audit", "--selector", "qty > 1")
    assert (said.code, "--selector would make it another subscription" in said.err) == (2, True)
    said = cli("receive", topic, "--subscription", "audit", "--unit", "u")
    assert (said.code, "--unit is for queues" in said.err) == (2, True)


def test_a_topic_is_named_with_and_without_its_kind(
    cli: Run, url: str, kafka_name: str, queue: str, topic: str
) -> None:
    """`topic:NAME` was no name for delete, pause, show and browse; what was told led to Python, or to each other."""
    with ConnectionFactory(url).create_context() as jms:
        jms.create_shared_durable_consumer(Topic(topic), kafka_name).close()
    for name in (topic, f"topic:{topic}"):
        for command in ("show", "browse", "explain", "give-up"):
            said = cli(command, name, *(("--all",) if command == "give-up" else ()))
            assert (said.code, said.out) == (1, "")
            assert "is a topic: name one of its subscriptions with --subscription NAME; " in said.err.replace(
                "it is", "is"
            )
            assert cli(command, name, "--subscription", kafka_name, *_all(command)).code == 0
        assert cli("pause", name, "--by", "ann").code == 0
        assert cli("resume", name).out.startswith(f"{topic}: not paused any more; before, sending paused by ann")
        assert cli("subscriptions", "list", name).code == 0
        dry = cli("delete", name, "--dry-run")
        assert (dry.code, dry.out.splitlines()[0]) == (1, f"topic {topic}")
        assert (
            f"jbm-kafka: topic:{topic}: it is a JMS topic with subscriptions ({kafka_name!r}); end them first with "
            in (dry.err)
        )
        assert "jbm-kafka subscriptions delete, or delete it with --force\n" in dry.err
    assert f"{topic!r} is a topic, and a name is either; " in cli("create", topic).err
    assert cli("create", f"topic:{topic}").out.startswith(f"topic:{topic} exists already"), "with `topic:` refused"
    said = cli("move", queue, "--to", topic, "--all")
    only = f"topic:{topic}: {topic!r} is a topic, and messages are moved to queues only: name a queue"
    assert (said.code, said.err) == (1, f"jbm-kafka: {only}\n"), "--subscription was advised, which is of no use"
    said = cli("create", queue, "--topic")
    assert f"{queue!r} is a queue, and a name is either; " in said.err
    told = f"jbm-kafka: topic:{queue}: {queue!r} is a queue, and only topics have subscriptions: name a topic, or "
    for arguments in (
        ("subscriptions", "list", queue),
        ("receive", queue, "--subscription", "s"),
        ("pause", f"topic:{queue}"),
    ):
        assert cli(*arguments).err == f"{told}{queue!r} alone where a queue will do\n"
    assert cli("delete", f"topic:{queue}", "--yes").err.endswith(f"{queue!r} is a queue, not a topic\n")
    said = cli("delete", f"topic:{topic}", "--yes", "--force")
    assert (said.code, said.out.splitlines()[-1]) == (0, f"topic:{topic} deleted, with all that is in it")


def _all(command: str) -> tuple[str, ...]:
    return ("--all",) if command in ("browse", "give-up") else ()
