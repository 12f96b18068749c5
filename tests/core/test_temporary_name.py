"""The names of temporary destinations tell whose they are and where they are read."""

import pytest

from jbm_kafka.core.temporary_name import TemporaryName, parse_temporary_name, settings_name


def test_a_name_says_what_it_was_made_of() -> None:
    name = TemporaryName("0123456789abc", "c0a1b2c3d4e5f", 7, 12)
    assert str(name) == "0123456789abc-c0a1b2c3d4e5f.7@12"
    assert parse_temporary_name(str(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "c-1.2@5",
        "0123456789abc-c0a1.7@",
        "0123456789abc-c0a1.7@12x",
        "0123456789ABC-c0a1.7@1",
        "\u0660-c.1@1",
    ],
)
def test_a_name_that_nothing_of_ours_gave_says_nothing(name: str) -> None:
    assert parse_temporary_name(name) is None


def test_temporary_destinations_have_their_settings_in_common() -> None:
    assert settings_name("0123456789abc-c0a1b2c3d4e5f.7@12") == "jbm.temporary"
    assert settings_name("orders.eu") == "orders.eu"
