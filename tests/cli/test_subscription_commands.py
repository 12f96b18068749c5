"""`jbm-kafka create --topic` and `jbm-kafka subscriptions`."""

import json

from jbm_kafka import ConnectionFactory, Topic
from tests.cli.conftest import Run


def test_a_topic_is_made_and_its_subscriptions_are_listed_and_ended(cli: Run, url: str, kafka_name: str) -> None:
    topic = f"{kafka_name}-prices"
    said = cli("create", topic, "--topic", "--partitions", "2")
    assert (said.code, said.out) == (0, f"topic:{topic} created, 2 partitions\n"), "of queues alone they were told"
    assert cli("create", topic, "--topic").out == f"topic:{topic} exists already, 2 partitions\n"
    assert cli("subscriptions", "list", topic).out == f"no subscriptions of {topic}\n"
    for told in ("created", "exists already"):
        said = cli("subscriptions", "create", topic, kafka_name, "--shared")
        assert (said.code, said.out) == (0, f"{kafka_name} of topic:{topic} {told}\n")
    said = cli("subscriptions", "create", topic, kafka_name)
    assert (said.code, "give --client-id ID, or --shared" in said.err) == (2, True)
    with ConnectionFactory(url).create_context() as jms:
        jms.create_producer().send(Topic(topic), "x")
    assert cli("pause", topic, "--by", "ann", "--only", "receiving").code == 0
    assert f"\n{topic}: receiving paused by ann" in cli("subscriptions", "list", topic).out
    cli("resume", topic)
    [listed] = json.loads(cli("subscriptions", "list", topic, "--json").out)
    assert (listed["name"], listed["kind"], listed["held_at_most"]) == (kafka_name, "shared-durable", 1)
    said = cli("browse", topic, "--subscription", kafka_name, "--json")
    assert [json.loads(line)["body"] for line in said.out.splitlines()] == ["x"]
    said = cli("browse", topic, "--subscription", "other")
    assert (said.code, "there is no subscription 'other'" in said.err) == (1, True)
    assert cli("show", topic, "--subscription", kafka_name).out.startswith(
        f"topic:{topic} subscription {kafka_name!r}: 1 held; 0 receivers, none in hand\n"
    )
    listed = {each["name"]: each for each in json.loads(cli("list", "--json").out)}[topic]
    assert (listed["kind"], listed["partitions"]) == ("topic", 2)
    assert [topic, "topic", "2"] in [line.split() for line in cli("list").out.splitlines()]
    said = cli("subscriptions", "delete", kafka_name, "--client-id", "other", "--yes")
    assert said.code == 1
    assert "one of this name has client id none" in said.err
    said = cli("subscriptions", "delete", f"{kafka_name}x")
    assert (said.code, said.err.startswith("jbm-kafka: there is no durable subscription ")) == (1, True)
    said = cli("subscriptions", "delete", kafka_name)
    assert said.code == 2
    assert said.err.endswith(
        ": nobody can be asked here whether it is meant: give --yes, or --dry-run to see what would go\n"
    )
    for verb, options in (("send", ["--text", "x"]), ("receive", [])):
        said = cli(verb, topic, *options)
        assert (said.code, f"{topic!r} is a topic, and a name is either; " in said.err) == (1, True)
    dry = cli("subscriptions", "delete", kafka_name, "--dry-run")
    told = f"{kafka_name} of topic:{topic} would be ended, with up to 1 messages that it had not received\n"
    assert (dry.code, dry.out) == (0, told)
    said = cli("subscriptions", "delete", kafka_name, "--yes")
    told = f"{kafka_name} of topic:{topic} ended, with up to 1 messages that it had not received\n"
    assert (said.code, said.out) == (0, told)
    assert cli("subscriptions", "list", topic).out == f"no subscriptions of {topic}\n"
