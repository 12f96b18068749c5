"""Which of the API's tests run over AMQP too, and which of their tests cannot: docs/amqp.md has the table."""

from __future__ import annotations

ON_AMQP = {
    "test_auto",
    "test_dups_ok",
    "test_group_ack",
    "test_pre_and_no",
    "test_bad_input",
    "test_call_guard",
    "test_client",
    "test_completions",
    "test_consumers",
    "test_listener_failures",
    "test_individual",
    "test_lifecycle",
    "test_listeners",
    "test_messages",
    "test_one_unit",
    "test_listeners_at_close",
    "test_plain_texts",
    "test_polling",
    "test_receive_body",
    "test_redelivery",
    "test_send_order",
    "test_sending",
    "test_settling",
    "test_shared_sidecar",
    "test_transacted",
    "test_exception_listener",
    "test_unit_barriers",
    "test_units",
    "test_bookstore",
    "test_senders",
    "test_rejecting",
    "test_json_and_headers",
    "test_browser_selectors",
    "test_browsers_of_processes",
    "test_selectors",
    "test_bytes_messages",
    "test_map_and_stream",
    "test_object_messages",
    "test_record_deliveries",
    "test_duplicates",
    "test_subscriptions",
    "test_letters_to_topics",
    "test_subscription_selectors",
    "test_selectors_of_processes",
    "test_temporary_destinations",
    "test_requests",
}
"""The files."""
NOT_OVER_AMQP: dict[str, str] = {}
"""By test, why."""


def is_over_amqp(file: str, test: str) -> bool:
    """Whether this one runs there."""
    return test not in NOT_OVER_AMQP
