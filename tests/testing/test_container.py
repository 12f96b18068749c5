"""How Apache's own image is told our settings; that it takes them, only a machine with a Docker engine shows."""

import pytest

from jbm_kafka.testing.container import public_image, public_image_environment, variable


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("offsets.topic.replication.factor", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"),
        ("some_setting.with-all", "KAFKA_SOME__SETTING_WITH___ALL"),
    ],
)
def test_a_setting_is_named_as_the_image_wants_it(setting: str, name: str) -> None:
    assert variable(setting) == name


def test_the_image_gets_the_settings_of_all_our_brokers_and_the_address_of_this_one() -> None:
    environment = public_image_environment("127.0.0.1:4711")
    assert environment["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == "1"
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:4711,INTERNAL://localhost:9094"
    assert public_image().startswith("apache/kafka:4.")
