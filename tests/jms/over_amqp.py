"""Which of the API's tests run over AMQP too, and which of their tests cannot: docs/amqp.md has the table."""

from __future__ import annotations

ON_AMQP = {
    "test_auto",
    "test_bookstore",
    "test_browser_selectors",
    "test_bytes_messages",
    "test_client",
    "test_consumers",
    "test_duplicates",
    "test_dups_ok",
    "test_group_ack",
    "test_individual",
    "test_json_and_headers",
    "test_lifecycle",
    "test_listener_failures",
    "test_listeners",
    "test_listeners_at_close",
    "test_map_and_stream",
    "test_object_messages",
    "test_one_unit",
    "test_plain_texts",
    "test_polling",
    "test_pre_and_no",
    "test_receive_body",
    "test_redelivery",
    "test_rejecting",
    "test_requests",
    "test_selectors",
    "test_senders",
    "test_sending",
    "test_subscription_selectors",
    "test_subscriptions",
    "test_temporary_destinations",
    "test_transacted",
    "test_units",
}
"""The files."""
SOON_OVER_AMQP = {"test_client", "test_listeners", "test_redelivery", "test_subscriptions", "test_transacted"}
"""Those that `make test` runs there; the others are for `make test-thorough`."""
_INSIDE = "it reaches for the sidecar's worker, which is in another process"
_SETTINGS = "it gives the factory settings of the sidecar"
_PLACES = "partitions and offsets are the sidecar's"
_UNITS = "the default unit of a destination is applied where the sidecar is; a unit shows as JMSXGroupID"
_HEADERS = "raw headers that are no properties do not cross"
_ADMIN = "it administers by the same address"
NOT_OVER_AMQP = {
    "test_a_commit_that_lost_a_partition_brings_what_it_received_of_others_again": _INSIDE,
    "test_a_header_replaces_what_a_message_came_with": _HEADERS,
    "test_a_large_backlog_that_nobody_chooses_leaves_memory": _SETTINGS,
    "test_a_message_too_large_is_refused_and_the_rest_commits": "only the sidecar knows what a topic takes",
    "test_a_namespace_keeps_installations_apart": _SETTINGS,
    "test_a_partition_that_goes_leaves_what_is_unread": _INSIDE,
    "test_a_poll_after_a_pause_that_took_the_buffer_back_receives": _INSIDE,
    "test_a_prefetch_of_one_reserves_nothing_beside_what_is_in_hand": _SETTINGS,
    "test_a_rebalance_does_not_wait_for_what_is_finished": _INSIDE,
    "test_a_receive_gets_its_message_where_another_consumer_of_the_session_was_there_just_before": _INSIDE,
    "test_a_waiting_receive_goes_on_after_a_stop_and_a_start": _INSIDE,
    "test_a_wrong_selector_makes_no_subscription": _ADMIN,
    "test_acknowledgements_are_durable_at_once_when_asked": _SETTINGS,
    "test_after_the_last_attempt_the_message_is_a_dead_letter_once": _PLACES,
    "test_an_idle_consumer_keeps_what_is_unread": _INSIDE,
    "test_blocking_acknowledgement_comes_before_the_message": _INSIDE,
    "test_delays_are_spread": _INSIDE,
    "test_delays_grow_by_the_multiplier_up_to_the_cap": _INSIDE,
    "test_deleting_waits_for_no_consumer_and_ends_it_for_all": "the sidecar makes the name, which tells no connection",
    "test_many_are_cheap": "each takes a link, and the sidecar has a limit of links",
    "test_of_a_body_that_nobody_could_read_the_letter_says_so": "the sidecar hears why as text",
    "test_one_whose_worker_ended_by_itself_goes_on_where_it_was": _INSIDE,
    "test_priorities_decided_in_each_partition_alone": _INSIDE,
    "test_raw_headers_are_kept_as_they_are": _HEADERS,
    "test_spread_uses_every_partition": _PLACES,
    "test_system_generated_units_are_one_for_each_session": _UNITS,
    "test_the_exception_listener_may_close_the_connection": _SETTINGS,
    "test_the_message_of_a_send_does_not_show_the_properties_that_it_was_sent_with": _UNITS,
    "test_the_precedence_of_units": _UNITS,
    "test_two_consumers_of_one_session_receive_again_after_their_group_worker_has_ended": _INSIDE,
    "test_what_a_removed_listener_had_not_read_is_another_consumers_at_once": _SETTINGS,
    "test_what_is_granted_too_late_for_a_poll_is_there_for_the_next": _INSIDE,
    "test_what_is_not_chosen_pins_nothing": _ADMIN,
    "test_what_is_taken_from_an_auto_session_is_told_once": _INSIDE,
    "test_without_a_unit_messages_are_spread": _PLACES,
    "test_without_auto_create_a_missing_queue_is_refused_but_the_shipped_ones_exist": _SETTINGS,
}
"""By test, why."""


def is_over_amqp(file: str, test: str) -> bool:
    """Whether this one runs there."""
    return file in ON_AMQP and test not in NOT_OVER_AMQP
