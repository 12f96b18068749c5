"""The same test on Kafka and in memory: which target plays the one on Kafka; `make test` plays all in memory.

`make test` plays there what uses most of a broker: groups, transactions, redelivery; `make test-thorough` what else a
broker has a part in: offsets, headers, errors, commands; `make test-slow` the rules that are all on our side of it.
"""

import pytest

IN_SHORT = {
    *("test_auto", "test_bookstore", "test_client", "test_individual", "test_one_unit", "test_redelivery"),
    *("test_requests", "test_subscriptions", "test_transacted", "test_units", "test_admin_on_both", "test_retry"),
}
"""The files that `make test` plays on Kafka too."""
ABOVE_THE_BROKER = {
    *("test_bad_input", "test_browser_selectors", "test_call_guard", "test_completions", "test_consumers"),
    *("test_listeners", "test_listeners_at_close", "test_messages", "test_polling", "test_receive_body"),
    *("test_senders", "test_shared_sidecar", "test_unit_barriers"),
    *("test_bytes_messages", "test_json_and_headers", "test_map_and_stream", "test_object_messages"),
    "test_plain_texts",
    *("test_dups_ok", "test_lifecycle", "test_pre_and_no", "test_rejecting", "test_selectors"),
    "test_subscription_selectors",
}
"""The files whose rules no broker has a part in: threads, calls, buffers, and bodies, of which test_golden_records and
test_java_programs show on Kafka that it keeps them; and when and what is acknowledged, which reaches Kafka as in those
that `make test` plays there."""
_FOLDERS = ("jms", "admin")
"""Not tests/kafka, where the world in memory is held to what Kafka does."""


def is_thorough(item: pytest.Item) -> bool:
    """The test is on Kafka what another one is in memory, and not of those that are played in short."""
    if item.path.parent.name not in _FOLDERS or item.path.stem in IN_SHORT or item.get_closest_marker("kafka_only"):
        return False
    chosen = getattr(item, "callspec", None)
    return chosen is not None and "kafka" in chosen.params.values()


def is_slow(item: pytest.Item) -> bool:
    """The test is such a twin, of a rule above the broker."""
    return item.path.stem in ABOVE_THE_BROKER and is_thorough(item)
