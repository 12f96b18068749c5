"""Settings by address pattern: matching, merging, unsetting, refusing.

The model of matching is the sentence of docs/semantics.md in the slowest possible form: it tries every way to hand the
words of a name to the words of a pattern.
"""

import re
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.destination import Queue, TemporaryTopic, Topic
from jbm_kafka.core.sentinels import SYSTEM_GENERATED, UNSET, Unset
from jbm_kafka.core.settings.address_pattern import matches, pattern_of_people, specificity
from jbm_kafka.core.settings.address_settings import (
    AddressSettings,
    AddressSettingsRepository,
    Overridden,
    ResolvedSettings,
    changed_settings,
    settings_without,
)
from jbm_kafka.core.settings.addresses import kind_remedy
from jbm_kafka.core.settings.setting_rules import RULES, TYPES
from jbm_kafka.errors import InvalidSettingError, InvalidTypeError

WORDS = ["a", "b", "eu"]
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(".".join)
patterns = st.lists(st.sampled_from([*WORDS, "*", "#"]), min_size=1, max_size=5).map(".".join)


def model_matches(pattern: list[str], name: list[str]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "#":
        return any(model_matches(pattern[1:], name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and pattern[0] in ("*", name[0]) and model_matches(pattern[1:], name[1:])


def test_addresses_of_copies_are_known_as_such() -> None:
    repository = AddressSettingsRepository({"a": AddressSettings(dead_letter_address="D", expiry_address="E")})
    names = ("DLQ", "ExpiryQueue", "D", "E", "a", "d")
    assert [name for name in names if repository.takes_copies(name)] == ["DLQ", "ExpiryQueue", "D", "E"]


@given(pattern=patterns, name=names)
def test_a_pattern_matches_what_its_words_say(pattern: str, name: str) -> None:
    """Of REDELIVER-6: `.` separates words, `*` is one word, `#` any number."""
    assert matches(pattern, name) == model_matches(pattern.split("."), name.split("."))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["orders.eu", "order"]),
        ("orders.*", ["orders.eu"], ["orders", "orders.eu.de", "xorders.eu"]),
        ("orders.#", ["orders", "orders.eu", "orders.eu.de"], ["ordersx", "x.orders"]),
        ("#.retry", ["retry", "a.retry", "a.b.retry"], ["retry.a"]),
        ("*.eu.#", ["a.eu", "a.eu.b.c"], ["eu", "a.b.eu"]),
        ("#", ["a", "a.b"], []),
    ],
)
def test_patterns_match_as_in_the_examples(pattern: str, matching: list[str], others: list[str]) -> None:
    """Of REDELIVER-6."""
    assert [name for name in [*matching, *others] if matches(pattern, name)] == matching


@pytest.mark.parametrize(
    "ordered",
    [
        ["orders.eu", "orders.*", "*.eu", "*.*", "orders.eu.#", "#.orders.eu", "orders.#", "#.eu", "#"],
        ["a.b.c", "a.b.*", "a.*.c", "a.*.*", "*.b.c", "a.b.c.#", "a.*.#", "a.#", "*.*.#", "*.#", "#"],
    ],
)
def test_the_more_specific_pattern_ranks_higher(ordered: list[str]) -> None:
    """Of REDELIVER-6."""
    assert sorted(ordered, key=specificity, reverse=True) == ordered


@given(left=patterns, right=patterns)
def test_no_two_patterns_are_equally_specific(left: str, right: str) -> None:
    assert (specificity(left) == specificity(right)) == (left == right)


@pytest.mark.parametrize("pattern", ["ord*", "a.b#", "**", "a.##"])
def test_a_wildcard_inside_a_word_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSettingError, match="whole words"):
        AddressSettingsRepository({pattern: AddressSettings()})


@pytest.mark.parametrize("pattern", ["a..b", ".a", "a.", "orders..#"])
def test_a_slip_of_two_dots_in_a_file_is_refused_and_a_name_that_has_them_can_be_meant(pattern: str) -> None:
    with pytest.raises(InvalidSettingError, match="is empty; leave a dot out, or write '\\*' for the word"):
        pattern_of_people(pattern)
    assert pattern_of_people("a.*.b") == "a.*.b"
    assert matches("a.*.b", Queue("a..b").name)
    AddressSettingsRepository({pattern: AddressSettings()})


@pytest.mark.parametrize("pattern", ["", 7])
def test_what_is_no_pattern_is_refused(pattern: Any) -> None:
    with pytest.raises(InvalidSettingError, match="write a name, or '#' for all"):
        AddressSettingsRepository({pattern: AddressSettings()})


@pytest.mark.parametrize(("pattern", "remedy"), [(7, "write a name"), (Queue("orders"), "write 'orders'")])
def test_a_pattern_that_is_no_text_was_no_type_error(pattern: Any, remedy: str) -> None:
    with pytest.raises(InvalidTypeError, match=remedy):
        AddressSettingsRepository({pattern: AddressSettings()})


@pytest.mark.parametrize("pattern", ["a b", "orders/eu", "jbm.x", "é.#"])
def test_a_pattern_that_no_destination_can_have_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSettingError, match="names no destination"):
        AddressSettingsRepository({pattern: AddressSettings()})


def test_all_matches_merge_and_the_most_specific_wins_for_each_setting() -> None:
    """Of REDELIVER-6."""
    repository = AddressSettingsRepository(
        {
            "orders.eu": AddressSettings(max_delivery_attempts=3),
            "#": AddressSettings(max_delivery_attempts=7, redelivery_delay_ms=70, partitions=4),
            "orders.*": AddressSettings(redelivery_delay_ms=50, max_delivery_attempts=5),
        }
    )
    resolved = repository.resolve("orders.eu")
    assert (resolved.max_delivery_attempts, resolved.redelivery_delay_ms, resolved.partitions) == (3, 50, 4)
    assert repository.resolve("orders.us").max_delivery_attempts == 5
    assert repository.resolve("bills").max_delivery_attempts == 7
    assert repository.resolve("bills") is repository.resolve("bills")


def test_an_explicit_none_unsets_what_a_wider_pattern_said() -> None:
    """Of REDELIVER-6."""
    repository = AddressSettingsRepository(
        {
            "#": AddressSettings(max_redelivery_delay_ms=5, default_unit_of_order=SYSTEM_GENERATED),
            "orders": AddressSettings(dead_letter_address=None, max_redelivery_delay_ms=None),
        }
    )
    assert repository.resolve("orders").dead_letter_address is None
    assert repository.resolve("orders").max_redelivery_delay_ms is None
    assert repository.resolve("orders").default_unit_of_order is SYSTEM_GENERATED
    assert repository.resolve("bills").dead_letter_address == "DLQ"


def test_the_shipped_settings_name_a_dead_letter_and_an_expiry_queue_for_all() -> None:
    """REDELIVER-8."""
    resolved = AddressSettingsRepository().resolve("any.name")
    assert resolved == ResolvedSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue")
    assert resolved.max_delivery_attempts == 10
    assert AddressSettingsRepository(defaults={}).resolve("a") == ResolvedSettings()


def test_given_settings_for_all_win_over_the_shipped_ones() -> None:
    """REDELIVER-8."""
    repository = AddressSettingsRepository({"#": AddressSettings(expiry_address=None, dead_letter_address="failed")})
    assert repository.resolve("orders").expiry_address is None
    assert repository.resolve("orders").dead_letter_address == "failed"


def test_the_registry_wins_over_the_factory_setting_by_setting_and_differences_are_told() -> None:
    """Of REDELIVER-6: even a wide pattern of the registry wins over a narrow one of the factory."""
    repository = AddressSettingsRepository(
        {"orders": AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=5, partitions=2)},
        overrides={"#": AddressSettings(max_delivery_attempts=9, partitions=2)},
    )
    resolved = repository.resolve("orders")
    assert (resolved.max_delivery_attempts, resolved.redelivery_delay_ms) == (9, 5)
    assert repository.overridden("orders") == [
        Overridden(setting="max_delivery_attempts", pattern="orders", value=3, by_pattern="#", by_value=9)
    ]
    assert repository.overridden("bills") == []


def test_an_explicit_none_of_the_registry_unsets_what_the_factory_said() -> None:
    """Of REDELIVER-6: saying nothing is not saying none."""
    repository = AddressSettingsRepository(
        {"orders": AddressSettings(dead_letter_address="failed", expiry_address="late")},
        overrides={"orders": AddressSettings(dead_letter_address=None)},
    )
    resolved = repository.resolve("orders")
    assert (resolved.dead_letter_address, resolved.expiry_address) == (None, "late")


def test_settings_take_over_what_others_say_and_can_be_taken_back_by_name() -> None:
    settings = AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=5)
    both = changed_settings(settings, AddressSettings(max_delivery_attempts=4, dead_letter_address=None))
    assert both == AddressSettings(max_delivery_attempts=4, redelivery_delay_ms=5, dead_letter_address=None)
    less = settings_without(both, ["dead_letter_address", "partitions", "redelivery_delay_ms"])
    assert less == AddressSettings(max_delivery_attempts=4)


def test_failures_on_a_dead_letter_address_never_end_in_removal() -> None:
    """REDELIVER-3: on the dead-letter address itself there is no limit."""
    repository = AddressSettingsRepository(
        {
            "orders.#": AddressSettings(dead_letter_address="orders.failed"),
            "bills": AddressSettings(dead_letter_address="lost"),
            "lost": AddressSettings(dead_letter_address=None, max_delivery_attempts=2),
            "posts": AddressSettings(dead_letter_address="late"),
            "trash": AddressSettings(dead_letter_address=None, max_delivery_attempts=2),
        }
    )
    attempts = {
        name: repository.resolve(name).max_delivery_attempts
        for name in ["DLQ", "orders.failed", "lost", "late", "trash", "orders.eu"]
    }
    # `late` has a dead-letter address of its own, the shipped one; there nothing is removed either.
    assert attempts == {"DLQ": -1, "orders.failed": -1, "lost": -1, "late": 10, "trash": 2, "orders.eu": 10}


def test_an_address_is_a_queue_by_name_or_a_topic_and_one_text_in_every_form() -> None:
    """What a factory says as a Topic and the registry as text is no difference."""
    topic = AddressSettings(dead_letter_address=Topic("news"), expiry_address=Queue("late"))
    assert topic == AddressSettings(dead_letter_address="topic:news", expiry_address="queue:late")
    assert topic.given() == {"dead_letter_address": "topic:news", "expiry_address": "late"}
    assert AddressSettings.from_mapping(topic.given()) == topic
    repository = AddressSettingsRepository({"#": topic}, overrides={"#": topic})
    assert repository.overridden("orders") == []
    assert [repository.takes_copies(name) for name in ("news", "late", "topic:news", "orders")] == [
        True,
        True,
        False,
        False,
    ]


def test_nothing_is_given_up_where_its_letters_would_come_back_by_way_of_a_topic() -> None:
    """Decision 43, of REDELIVER-3: every subscription on the way would add one. A ring of queues turns one letter."""
    endless: dict[str, str | Topic] = {"own": Topic("own"), "a": "b", "b": Topic("c"), "c": "a"}
    counted: dict[str, str | Topic] = {
        "outside": "a",
        "q1": "q2",
        "q2": "q1",
        "news": Topic("letters"),
        "letters": "q1",
    }
    repository = AddressSettingsRepository(
        {name: AddressSettings(dead_letter_address=address) for name, address in {**endless, **counted}.items()}
    )
    attempts = {name: repository.resolve(name).max_delivery_attempts for name in {**endless, **counted}}
    assert attempts == {**dict.fromkeys(endless, -1), **dict.fromkeys(counted, 10)}


BAD_VALUES: list[tuple[str, Any, str]] = [
    ("max_delivery_attempts", 0, "at least 1, or -1 for no limit"),
    ("max_delivery_attempts", -2, "at least 1, or -1 for no limit"),
    ("max_delivery_attempts", True, "it is an int"),
    ("max_delivery_attempts", None, "it is an int"),
    ("redelivery_delay_ms", 1.5, "an int of milliseconds, as in 1500"),
    ("redelivery_delay_ms", "1s", "an int of milliseconds, as in 1500"),
    ("redelivery_delay_ms", True, "an int of milliseconds"),
    ("redelivery_delay_ms", None, "an int of milliseconds"),
    ("redelivery_delay_ms", -1, "cannot be negative"),
    ("redelivery_delay_multiplier", 0.5, "at least 1"),
    ("redelivery_delay_multiplier", float("inf"), "it is a finite number of at least 1"),
    ("redelivery_delay_multiplier", float("nan"), "it is a finite number of at least 1"),
    ("redelivery_delay_multiplier", "2", "it is a number"),
    ("redelivery_delay_multiplier", True, "it is a number"),
    ("redelivery_collision_avoidance_factor", 1.1, "between 0 and 1"),
    ("max_redelivery_delay_ms", 0, "set None, for ten times the delay"),
    ("max_redelivery_delay_ms", 0.5, "an int of milliseconds"),
    ("dead_letter_address", "", "set None to remove"),
    ("dead_letter_address", "a b", "' ' at position 2"),
    ("dead_letter_address", 5, "it is the name of a queue, Topic(name), or None"),
    ("dead_letter_address", "topic:", "the name is empty"),
    ("expiry_address", "topic://news", "write 'topic:news'"),
    ("expiry_address", TemporaryTopic("t"), "a temporary destination ends with its connection"),
    ("expiry_address", "jbm.x", "reserved"),
    ("on_dead_letter", "stop", "'continue' or 'hold'"),
    ("on_dead_letter", ["hold"], "'continue' or 'hold'"),
    ("default_unit_of_order", "", "a name that is not empty"),
    ("duplicate_window_ms", 1.0, "an int of milliseconds"),
    ("duplicate_window_count", 0, "at least 1"),
    ("duplicate_window_count", True, "it is an int"),
    ("record_deliveries", "true", "it is True or False"),
    ("partitions", 0, "at least 1 and at most 10000"),
    ("partitions", 10_001, "at least 1 and at most 10000"),
    ("truncate", "always", "it is 'settled' or 'never'"),
    ("routing", None, "it is 'hash'"),
    (
        "routing",
        "path-service",
        "units keep their partition without it, when jbm-kafka admit-partitions adds some; leave it out",
    ),
]


@pytest.mark.parametrize(("setting", "value", "remedy"), BAD_VALUES)
def test_a_bad_value_is_refused_with_field_value_and_remedy(setting: str, value: Any, remedy: str) -> None:
    with pytest.raises(InvalidSettingError, match=re.escape(f"{setting} is {value!r}: ")) as caught:
        AddressSettings(**{setting: value})
    assert remedy in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert caught.value.setting == setting


@pytest.mark.parametrize("name", RULES)
def test_a_value_of_a_wrong_type_is_a_type_error_too_as_of_every_other_argument(name: str) -> None:
    """Docs and code disagreed about which of both it is."""
    for wrong in (1 if TYPES[name] == (bool,) else True, [1], object(), b"x"):
        with pytest.raises(InvalidTypeError, match=f"{name} is "):
            AddressSettings(**cast(dict[str, Any], {name: wrong}))
    assert TYPES.keys() == RULES.keys()


def test_a_value_of_the_right_type_is_a_value_error_alone() -> None:
    for values in ({"max_delivery_attempts": 0}, {"on_dead_letter": "stop"}, {"redelivery_delay_multiplier": 0.5}):
        with pytest.raises(InvalidSettingError) as refused:
            AddressSettings(**values)
        assert not isinstance(refused.value, TypeError)


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    known = r"known are max_delivery_attempts, .*, record_deliveries"
    for name, near in (("max_attempts", r"; did you mean 'max_delivery_attempts'\?"), ("x", "")):
        with pytest.raises(InvalidSettingError, match=f"^{name!r} is not an address setting; {known}{near}$"):
            AddressSettings.from_mapping({name: 3})


def test_settings_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="values is 'a': it is a mapping from setting to value"):
        AddressSettings.from_mapping("a")  # type: ignore[arg-type]


def test_every_setting_can_be_given_and_reads_back() -> None:
    values: dict[str, Any] = {
        "max_delivery_attempts": -1,
        "redelivery_delay_ms": 0,
        "redelivery_delay_multiplier": 2,
        "redelivery_collision_avoidance_factor": 0.15,
        "max_redelivery_delay_ms": 60_000,
        "dead_letter_address": "failed",
        "expiry_address": None,
        "on_dead_letter": "hold",
        "default_unit_of_order": "one",
        "duplicate_window_ms": 0,
        "duplicate_window_count": None,
        "partitions": 1,
        "truncate": "never",
        "routing": "hash",
        "record_deliveries": True,
    }
    settings = AddressSettings.from_mapping(values)
    assert settings.given() == values
    assert AddressSettingsRepository({"a": settings}).resolve("a") == ResolvedSettings(**values)
    assert AddressSettings(duplicate_window_count=None).given() == {"duplicate_window_count": None}


def test_what_is_not_given_is_unset() -> None:
    assert AddressSettings().given() == {}
    assert AddressSettings().partitions is UNSET
    assert repr(Unset.UNSET) == "<UNSET: not given>"
    assert repr(SYSTEM_GENERATED) == "SYSTEM_GENERATED"


def test_settings_are_shown_with_what_was_given_only() -> None:
    """It showed fourteen fields, nearly all of them UNSET."""
    assert repr(AddressSettings(partitions=4, expiry_address=None)) == (
        "AddressSettings(expiry_address=None, partitions=4)"
    )
    assert repr(AddressSettings()) == "AddressSettings()"


@pytest.mark.parametrize(
    ("address", "kind", "written"), [("letters", "topic", "topic:letters"), ("topic:letters", "queue", "letters")]
)
def test_an_address_of_the_other_kind_is_told_as_the_other_kind_is_written(
    address: str, kind: str, written: str
) -> None:
    told = kind_remedy(address, setting="dead_letter_address", of="orders.#")
    assert told == (
        f"'letters' is a {kind}, and a name is either; write dead_letter_address={written} where it is set, or: "
        f"jbm-kafka settings set 'orders.#' dead_letter_address={written}"
    )


def test_a_wait_that_is_a_timedelta_is_kept_as_its_milliseconds() -> None:
    hour = timedelta(hours=1)
    settings = AddressSettings(redelivery_delay_ms=hour, max_redelivery_delay_ms=2 * hour)
    assert settings == AddressSettings(redelivery_delay_ms=3_600_000, max_redelivery_delay_ms=7_200_000)
    with pytest.raises(ValueError, match="max_redelivery_delay_ms is 1800000: it is at least redelivery_delay_ms"):
        AddressSettings(redelivery_delay_ms=hour, max_redelivery_delay_ms=hour / 2)
    with pytest.raises(ValueError, match="ten times the delay"):
        AddressSettings(max_redelivery_delay_ms=timedelta())
