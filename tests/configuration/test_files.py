"""Where the file is looked for, what it may have, and each mistake as a line with place and remedy."""

import os
from pathlib import Path

import pytest

from jbm_kafka.configuration.file import find_file
from jbm_kafka.configuration.loaded import ConfigurationError, Loaded, load
from tests.configuration.conftest import Write


def lines(path: Path | str | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    found = caught.value.values["lines"]
    assert isinstance(found, list)
    return found


def kafka_of(loaded: Loaded) -> dict[str, str]:
    return {name: told.value for name, told in loaded.cluster().kafka.items()}


def test_the_first_of_five_places_has_the_file(
    write: Write, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONF-2."""
    assert find_file(None, os.environ) is None
    usual = tmp_path / "config" / "jbm-kafka" / "config.toml"
    usual.parent.mkdir(parents=True)
    usual.touch()
    assert find_file(None, os.environ) == usual
    write("")
    assert find_file(None, os.environ) == Path("jbm-kafka.toml")
    monkeypatch.setenv("JBM_CONFIG", "other.toml")
    assert find_file(None, os.environ) == Path("other.toml")
    assert find_file("named.toml", os.environ) == Path("named.toml")
    assert find_file("", os.environ) is None
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JBM_CONFIG", "")
    (folder / "jbm-kafka.toml").unlink()
    of_home = tmp_path / ".config" / "jbm-kafka" / "config.toml"
    of_home.parent.mkdir(parents=True)
    of_home.touch()
    assert find_file(None, os.environ) == of_home


CLUSTERS = """
[clusters.here]
bootstrap = "here:1"

[clusters.there]
bootstrap = "there:1"
namespace = "shop"
login = {user = "billing", password_file = "secret.txt"}

[clusters.there.tls]
ca = "ca.pem"
"""


def test_a_cluster_is_chosen_by_its_name(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONF-3."""
    write(CLUSTERS)
    (folder / "secret.txt").write_text("hush\n")
    with pytest.raises(ValueError, match=r"there are the clusters here, there; say which: --cluster NAME, JBM_CLUSTER"):
        load().cluster()
    monkeypatch.setenv("JBM_CLUSTER", "there")
    told = load().cluster()
    assert told.bootstrap is not None
    assert (told.bootstrap.value, told.bootstrap.origin) == ("there:1", "jbm-kafka.toml, clusters.there.bootstrap")
    assert kafka_of(load()) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "billing",
        "sasl.password": "hush",
        "ssl.ca.location": "ca.pem",
    }
    here = load(arguments={"cluster": "here"}).cluster()
    assert (here.bootstrap and here.bootstrap.value, here.namespace, here.kafka) == ("here:1", None, {})


def test_values_win_over_those_of_the_chosen_cluster_one_by_one(write: Write, folder: Path) -> None:
    """Of CONF-3."""
    write('cluster = "there"\n' + CLUSTERS)
    (folder / "secret.txt").write_text("hush")
    loaded = load(
        environment={"JBM_KAFKA_SASL_PASSWORD": "environment"}, arguments={"kafka": {"sasl.username": "argument"}}
    )
    told = loaded.cluster()
    assert (told.kafka["sasl.password"].value, told.kafka["sasl.username"].value) == ("environment", "argument")
    assert told.kafka["sasl.password"].origin == "JBM_KAFKA_SASL_PASSWORD"
    assert told.namespace is not None
    assert told.namespace.value == "shop"


def test_the_only_cluster_needs_no_choice_and_a_named_address_takes_none(write: Write) -> None:
    write('[clusters.only]\nbootstrap = "only:1"\nkafka.linger.ms = 5\n')
    assert kafka_of(load()) == {"linger.ms": "5"}
    assert kafka_of(load(environment={"JBM_BOOTSTRAP": "other:1"})) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('cluster = "ther"' + CLUSTERS, "cluster is 'ther': there is no such cluster; known are here, there; did you"),
        ('cluster = "a"', "cluster is 'a': there is no such cluster; jbm-kafka.toml names none below [clusters]"),
    ],
)
def test_a_cluster_that_is_not_there_is_told(write: Write, text: str, told: str) -> None:
    write(text)
    with pytest.raises(ValueError, match=r"jbm-kafka\.toml, ") as caught:
        load().cluster()
    assert told in str(caught.value)


def test_what_would_be_used_for_no_cluster_is_refused(write: Write) -> None:
    write('namespace = "shop"\n[clusters.only]\nbootstrap = "only:1"\n')
    assert lines() == ["jbm-kafka.toml, namespace: it would not be used; write it below [clusters.only]"]


MISTAKES = {
    'boostrap = "a:1"': "boostrap: there is no such setting; did you mean 'bootstrap'?",
    "exporter.prt = 1": "exporter.prt: there is no such setting; did you mean 'port'?",
    "users.joe.write = []": "users.joe.write: there is no such setting; known are password, client_ids, send",
    "clusters.a.namespac = ''": "clusters.a.namespac: there is no such setting; did you mean 'namespace'?",
    "exporter.port = 'many'": "exporter.port is 'many': it is a whole number",
    "exporter.port = true": "exporter.port is True: it is a number",
    "exporter.port = 70000": "exporter.port is 70000: it is at most 65535",
    "connection.prefetch = 0": "connection.prefetch is 0: it is at least 1",
    "connection.auto_create = 'maybe'": "connection.auto_create is 'maybe': it is true or false",
    "amqp.verify_user_id = 'no'": "amqp.verify_user_id is 'no': it is 'off', 'check' or 'set'",
    "workers.ship.queue = 'a'": "workers.ship.target is missing; write it there",
    "console = 1": "console is an int: it is a table; write [console] and the settings below it",
    "amqp.listeners = [1]": "amqp.listeners[0] is an int: it is a table; write [[amqp.listeners]] and",
    "namespace = 7": "namespace is 7: it is a text",
    "connection.client_id = ''": "connection.client_id is '': it is empty; leave it out, or write one",
    "users.joe.send = ['a#']": "users.joe.send[0]: address pattern 'a#'",
    "users.joe.look = ['a..b']": "users.joe.look[0]: address pattern 'a..b': a word between its dots is empty; leave a",
    "address_settings.'a..#'.partitions = 1": "address_settings.\"a..#\": address pattern 'a..#': a word between",
    "console.tokens.ci = {sha256 = '%s', operate = ['a.']}" % ("0" * 64): "console.tokens.ci.operate[0]: address pat",
    "address_settings.'a#'.partitions = 1": "address_settings.\"a#\": address pattern 'a#'",
    "address_settings.orders.max_delivery_attempts = 0": "address_settings.orders: max_delivery_attempts is 0:",
    "address_settings.orders.colour = 1": "address_settings.orders: 'colour' is not an address setting; known are",
    "amqp.limits.connection = 1": "amqp.limits: connection: there is no such limit; did you mean 'connections'?",
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.items())
def test_a_mistake_is_a_line_with_its_place_and_remedy(write: Write, text: str, told: str) -> None:
    write(text)
    (line,) = lines()
    assert line.startswith(f"jbm-kafka.toml, {told}")
    assert "\n" not in line


def test_all_mistakes_are_told_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONF-4."""
    write("exporter.port = 'many'\nconnection.prefetch = 0\nboostrap = 'a:1'\n")
    monkeypatch.setenv("JBM_CONSOLE__READ_ONLY", "perhaps")
    assert sorted(lines()) == [
        "JBM_CONSOLE__READ_ONLY is 'perhaps': it is true or false",
        "jbm-kafka.toml, boostrap: there is no such setting; did you mean 'bootstrap'?",
        "jbm-kafka.toml, connection.prefetch is 0: it is at least 1",
        "jbm-kafka.toml, exporter.port is 'many': it is a whole number",
    ]


def test_all_wrong_settings_of_one_pattern_are_told(write: Write) -> None:
    """CONF-4: each in a line of its own."""
    write("address_settings.orders = {colour = 1, redelivery_delay_ms = '5s', max_delivery_attempts = 3}\n")
    first, second = lines()
    assert first.startswith("jbm-kafka.toml, address_settings.orders: 'colour' is not an address setting")
    assert second.startswith("jbm-kafka.toml, address_settings.orders: redelivery_delay_ms is '5s': it is an int of")


def test_old_names_are_read_and_a_line_says_the_new_ones(write: Write) -> None:
    path = write('drain_s = 5\nqueues = ["orders"]\nstate_dir = "here"\nlisteners = [{url = "amqp://a:1"}]\n')
    loaded = load(path)
    amqp = loaded.tables.amqp
    assert amqp.listeners is not None
    assert (amqp.drain_s, amqp.listeners[0].url) == (5, "amqp://a:1")
    assert loaded.tables.destinations.queues == ["orders"]
    assert loaded.tables.connection.state_dir == "here"
    assert loaded.notes == [
        f"{path}: written as earlier versions had it, and read as such; now below [amqp] stand drain_s, listeners; "
        "below [destinations] stand queues; below [connection] stand state_dir"
    ]


def test_a_mistake_under_an_old_name_is_told_by_that(write: Write) -> None:
    write("drain_s = -1\n")
    assert lines() == ["jbm-kafka.toml, drain_s is -1: it is at least 0"]


def test_both_names_at_once_are_refused(write: Write) -> None:
    write("drain_s = 1\n[amqp]\ndrain_s = 2\n")
    assert lines() == ["jbm-kafka.toml, drain_s: [amqp] has it, too; leave drain_s out above"]
