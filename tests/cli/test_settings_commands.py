"""`settings list | set | unset`: what an operator reads and writes."""

import json
from collections.abc import Callable

import pytest

from jbm_kafka.cli.settings_commands import FOR_NONE_YET
from tests.cli.conftest import Run, Said

Settings = Callable[..., Said]


@pytest.fixture
def settings(cli: Run, kafka_name: str) -> Settings:
    """Runs one of the commands, in a namespace of this test's own."""
    return lambda *arguments: cli("settings", *arguments, "--namespace", kafka_name)


def test_settings_are_recorded_listed_and_taken_back(settings: Settings) -> None:
    """Of REDELIVER-6."""
    said = settings("list")
    assert (said.code, said.out) == (
        0, "nothing is recorded: what the factories of programs say holds, and else the defaults\n",
    )  # fmt: skip
    said = settings("set", "orders.#", "max_delivery_attempts=3", "dead_letter_address=", "redelivery_delay_ms=250")
    assert (said.code, said.out, said.err) == (
        0, "orders.#: max_delivery_attempts=3, redelivery_delay_ms=250, dead_letter_address=nothing\n",
        f"orders.#: {FOR_NONE_YET}\n",
    )  # fmt: skip
    said = settings(
        "set", "#", "default_unit_of_order=SYSTEM_GENERATED", "partitions=4", "record_deliveries=true", "--json"
    )
    assert json.loads(said.out) == {
        "pattern": "#",
        "settings": {"default_unit_of_order": "SYSTEM_GENERATED", "partitions": 4, "record_deliveries": True},
    }
    assert "record_deliveries is 'yes': it is True or False" in settings("set", "#", "record_deliveries=yes").err
    assert said.err == "partitions: of queues that are created from now on; those that are there keep theirs\n"
    said = settings("unset", "orders.#", "max_delivery_attempts", "partitions")
    assert said.out == "orders.#: redelivery_delay_ms=250, dead_letter_address=nothing\n"
    assert [line.split() for line in settings("list", "orders.#").out.splitlines()[-2:]] == [
        ["orders.#", "redelivery_delay_ms", "250"],
        ["orders.#", "dead_letter_address", "nothing"],
    ]
    assert [each["pattern"] for each in json.loads(settings("list", "--json").out)] == ["#", "orders.#"]
    assert settings("unset", "orders.#").out == "orders.#: nothing is recorded any more\n"
    assert settings("list", "orders.#").out.startswith("nothing is recorded for 'orders.#'")


def test_what_was_not_recorded_is_not_said_to_be_taken_back(settings: Settings) -> None:
    """Of a misspelt pattern it was 0, with the words of a real one; of a setting there was no word."""
    shows = "recorded; jbm-kafka settings list shows what is\n"
    said = settings("unset", "orders.#")
    assert (said.code, said.out, said.err) == (1, "", f"jbm-kafka: orders.#: nothing was {shows}")
    settings("set", "orders", "max_delivery_attempts=3")
    said = settings("unset", "orders", "partitions")
    assert (said.code, said.out, said.err) == (1, "", f"jbm-kafka: orders: partitions was not {shows}")
    said = settings("unset", "orders", "partitions", "redelivery_delay_ms", "--json")
    assert said.err == f"jbm-kafka: orders: partitions, redelivery_delay_ms were not {shows}"
    assert (said.code, json.loads(said.out)["settings"]) == (1, {"max_delivery_attempts": 3})
    assert settings("unset", "orders", "partitions", "max_delivery_attempts").code == 0


def test_an_address_that_is_not_there_is_told_once_and_recorded(
    settings: Settings, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A misspelt one would be made by the first letter, and nobody would look there. It was told twice, in two ways."""
    said = settings("set", "#", f"dead_letter_address=topic:{queue}-x", f"expiry_address={queue}-y")
    assert (said.code, said.out) == (0, f"#: dead_letter_address=topic:{queue}-x, expiry_address={queue}-y\n")
    absent, unheard = caplog.messages
    assert absent.startswith(f"expiry_address is queue:{queue}-y, which is not there: ")
    assert f" Make it first (jbm-kafka create {queue}-y, or create_queue)" in absent
    assert unheard.startswith(f"dead_letter_address is topic:{queue}-x, which has no subscription: ")
    assert "is not there" not in said.err.replace(absent, "")
    assert settings("set", "#", f"expiry_address={queue}").err == ""


def test_an_address_of_the_other_kind_is_wrong_usage_and_not_recorded(
    settings: Settings, cli: Run, queue: str, kafka_name: str
) -> None:
    """Nothing was said, and each program that started on the queue afterwards ended with an error."""
    topic = f"{queue}.t"
    assert cli("create", topic, "--topic", "--namespace", kafka_name).code == 0
    assert cli("create", f"{queue}.q", "--partitions", "1", "--namespace", kafka_name).code == 0
    for setting in ("dead_letter_address", "expiry_address"):
        said = settings("set", "dl1", f"{setting}={topic}")
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
        assert f"'{topic}' is a topic, and a name is either; write {setting}=topic:{topic} " in said.err
        said = settings("set", "dl1", f"{setting}=topic:{queue}.q")
        assert (said.code, said.out) == (2, "")
        assert f"jbm-kafka settings set 'dl1' {setting}={queue}.q" in said.err
    assert settings("list").out.startswith("nothing is recorded")
    assert settings("set", "dl1", f"dead_letter_address=topic:{topic}", f"expiry_address={queue}.q").code == 0


def test_a_pattern_that_nothing_matches_is_told_and_recorded(cli: Run, queue: str) -> None:
    """A misspelt one was recorded without a word."""
    for pattern, is_told in ((f"{queue}x", True), (f"{queue}.*", True), (queue, False), (f"{queue}.#", False)):
        try:
            said = cli("settings", "set", pattern, "max_delivery_attempts=3")
            assert (said.code, said.out) == (0, f"{pattern}: max_delivery_attempts=3\n")
            assert said.err == (f"{pattern}: {FOR_NONE_YET}\n" if is_told else "")
        finally:
            cli("settings", "unset", pattern)


def test_a_queue_that_is_to_be_its_own_address_is_warned_of(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """With one attempt it looped without end, and nobody had said so."""
    assert settings("set", "dq", "dead_letter_address=dq", "expiry_address=queue:dq").code == 0
    first, second = caplog.messages
    assert first == (
        "dead_letter_address of 'dq' is itself: a message that fails there never leaves it, whatever its attempts, "
        "and comes again without end; name another, or none"
    )
    assert second.startswith("expiry_address of 'dq' is itself: ")
    caplog.clear()
    assert settings("set", "dq", "dead_letter_address=other", "expiry_address=").code == 0
    assert settings("set", "#", "dead_letter_address=dq").code == 0
    assert [each.partition(", ")[0] for each in caplog.messages] == [
        "dead_letter_address is queue:other",  # which is not there
        "dead_letter_address is queue:dq",
    ]


def test_a_wrong_setting_is_wrong_usage_wherever_it_is_found_out(settings: Settings) -> None:
    """It was 2 of `set`, and 1 of `unset` and of numbers that cannot be recorded."""
    for arguments in (
        ("unset", "orders", "foo"),
        ("set", "orders", "foo=1"),
        ("set", "orders", f"max_delivery_attempts={10**30}"),
        ("set", "orders", "partitions=99999"),
    ):
        said = settings(*arguments)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), arguments
