"""Faults planted into subscriptions, each a way in which a naive version breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from jbm_kafka.browsing import intake
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.registry import subscriptions
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.subscription_remains import SubscriptionRemains
from jbm_kafka.sidecar.channel import group_data

Plant = Callable[[pytest.MonkeyPatch], None]


def a_beginning_one_too_late(patch: pytest.MonkeyPatch) -> None:
    def made(**fields: Any) -> SubscriptionRecord:
        return SubscriptionRecord(**{**fields, "begins": tuple(begin + 1 for begin in fields["begins"])})

    patch.setattr(subscriptions, "SubscriptionRecord", made)


def it_begins_where_the_log_does(patch: pytest.MonkeyPatch) -> None:
    def begins(self: ChannelGroup, topic_id: str) -> Mapping[int, int]:
        return {}

    patch.setattr(ChannelGroup, "begins", begins)


def another_of_the_name_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChannelGroup, "log_id", lambda self, topic_id: topic_id)


def unsubscribing_leaves_what_is_owed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionRemains, "tombstones", lambda self, group, topic: [])


def unsubscribing_leaves_its_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionRemains, "drop_group", lambda self, group: True)


def no_local_leaves_nothing_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intake, "_is_from", lambda reference, senders: False)


def its_selector_is_asked_of_the_message_before(patch: pytest.MonkeyPatch) -> None:
    real = intake.what_it_has

    def what_it_has(subscription: Subscription) -> Callable[[Reference], bool] | None:
        has = real(subscription)
        last: list[bool] = [True]

        def had(reference: Reference) -> bool:
            assert has is not None
            last.append(has(reference))
            return last.pop(0)

        return None if has is None else had

    patch.setattr(group_data, "what_it_has", what_it_has)


def an_unshared_one_is_shared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Subscription, "is_shared", property(lambda self: True))


def other_processes_are_thought_dead(patch: pytest.MonkeyPatch) -> None:
    def living(self: ProcessLiveness, holders: Iterable[str]) -> frozenset[str]:
        return frozenset(each for each in holders if each == self.name)

    patch.setattr(ProcessLiveness, "living", living)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    a_beginning_one_too_late: ("begins_when_made",),
    it_begins_where_the_log_does: ("nothing_invented", "nothing_is_lost", "replay_equals_live"),
    another_of_the_name_goes_on: ("nothing_invented", "nothing_is_lost", "replay_equals_live", "offsets_agree"),
    unsubscribing_leaves_what_is_owed: ("nothing_remains",),
    unsubscribing_leaves_its_offsets: ("nothing_remains",),
    no_local_leaves_nothing_out: ("nothing_invented",),
    its_selector_is_asked_of_the_message_before: ("nothing_invented", "replay_equals_live", "nothing_is_lost"),
    an_unshared_one_is_shared: ("refused_when_used",),
    other_processes_are_thought_dead: ("ends_when_asked", "refused_when_used", "joined"),
}
"""Each fault with the promises that may notice it first."""
