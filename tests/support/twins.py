"""The same test on Kafka and in memory: which of the two `make test` plays.

That both agree is proved by `make test-thorough`, which plays all on Kafka; `make test` plays there what uses most of a
broker: groups, transactions, redelivery.
"""

import pytest

IN_SHORT = {
    *("test_auto", "test_bookstore", "test_client", "test_individual", "test_one_unit", "test_redelivery"),
    *("test_requests", "test_subscriptions", "test_transacted", "test_units", "test_admin_on_both", "test_retry"),
}
"""The files that `make test` plays on Kafka too."""
_FOLDERS = ("jms", "admin")
"""Not tests/kafka, where the world in memory is held to what Kafka does."""


def is_thorough(item: pytest.Item) -> bool:
    """The test is on Kafka what another one is in memory, and not of those that are played in short."""
    if item.path.parent.name not in _FOLDERS or item.path.stem in IN_SHORT or item.get_closest_marker("kafka_only"):
        return False
    chosen = getattr(item, "callspec", None)
    return chosen is not None and "kafka" in chosen.params.values()
