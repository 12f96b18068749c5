"""What a subscription is known by, and what its names may be."""

from typing import Any

import pytest

from jbm_kafka.core.destination import Queue, TemporaryTopic, Topic
from jbm_kafka.core.jms_errors import InvalidClientIDError, InvalidSettingError, InvalidTypeError
from jbm_kafka.core.subscription import (
    NAME_LENGTH_MAX,
    Subscription,
    SubscriptionKind,
    checked_client_id,
    checked_subscription_name,
    client_id_needed,
    destination_of,
)

NEWS = Topic("news")
DURABLE, SHARED, SHARED_DURABLE, PRIVATE = (
    Subscription(NEWS, kind, "desk", client_id="billing" if kind is SubscriptionKind.DURABLE else "")
    for kind in (
        SubscriptionKind.DURABLE,
        SubscriptionKind.SHARED,
        SubscriptionKind.SHARED_DURABLE,
        SubscriptionKind.PRIVATE,
    )
)


def test_each_kind_has_a_group_of_its_own_name() -> None:
    """Of TOPIC-1: that is what Kafka's tools show; what users named cannot run into another's name."""
    assert [each.group_id() for each in (DURABLE, SHARED, SHARED_DURABLE, PRIVATE)] == [
        "jbm.durable.billing.desk",
        "jbm.shared..desk",
        "jbm.shared-durable..desk",
        "jbm.private..desk",
    ]
    one, other = (
        Subscription(NEWS, SubscriptionKind.DURABLE, name, client_id=client).group_id()
        for client, name in (("a.b", "c"), ("a", "b.c"))
    )
    assert one != other
    assert DURABLE.group_id("eu") != DURABLE.group_id()


def test_of_two_temporary_topics_subscriptions_of_one_name_have_a_group_each() -> None:
    """Of TOPIC-1: the second's consumer got nothing."""
    one, other = (
        Subscription(TemporaryTopic(topic), SubscriptionKind.SHARED, "desk").group_id() for topic in ("a.b", "a.c")
    )
    assert (one, other) == ("jbm.shared..desk.a%2Eb", "jbm.shared..desk.a%2Ec")


def test_a_subscription_is_named_with_its_client() -> None:
    assert (str(DURABLE), DURABLE.full_name) == ("topic:news subscription 'billing/desk'", "billing/desk")
    assert SHARED.full_name == "desk"
    assert (destination_of(DURABLE), destination_of(Queue("orders"))) == (NEWS, Queue("orders"))


def test_no_two_subscriptions_have_one_full_name() -> None:
    """A client id may have a slash, and so may a name."""
    named = [("a/b", "c"), ("a", "b/c"), ("", "a/b/c"), ("a%2Fb", "c"), ("", "a%2Fb/c"), ("a", "b%2Fc")]
    found = [Subscription(NEWS, SubscriptionKind.SHARED_DURABLE, name, client_id=of) for of, name in named]
    assert len({each.full_name for each in found}) == len(named)
    assert [each.full_name for each in found[:3]] == ["a%2Fb/c", "a/b/c", "a%2Fb%2Fc"]


def test_a_message_of_one_subscription_names_its_kind_or_as_earlier_versions_its_full_name() -> None:
    shared = Subscription(NEWS, SubscriptionKind.SHARED, "desk", client_id="billing")
    assert DURABLE.is_meant(DURABLE.group_id().encode())
    assert not DURABLE.is_meant(shared.group_id().encode())
    assert DURABLE.is_meant(b"billing/desk")


def test_kinds_differ_in_what_they_keep_and_whom_they_let_in() -> None:
    """Of TOPIC-2 and TOPIC-3."""
    kinds = (DURABLE, SHARED, SHARED_DURABLE, PRIVATE)
    assert [each.is_durable for each in kinds] == [True, False, True, False]
    assert [each.is_shared for each in kinds] == [False, True, True, False]


@pytest.mark.parametrize(
    ("sender", "by_client", "by_connection"),
    [
        (b"billing/c1", True, True),
        (b"billing/c2", True, False),
        (b"/c1", False, True),
        (b"", False, False),
        (b"\xff/x", False, False),
    ],
)
def test_no_local_leaves_out_what_the_same_client_or_connection_sent(
    sender: bytes, by_client: bool, by_connection: bool
) -> None:
    """Of TOPIC-4."""
    mine = Subscription(NEWS, SubscriptionKind.PRIVATE, "p", no_local=True, connection_id="c1")
    assert (DURABLE.leaves_out(sender), mine.leaves_out(sender)) == (by_client, by_connection)


def test_of_another_choice_it_is_another_subscription() -> None:
    """Of TOPIC-2 and TOPIC-3; and people are told which."""
    texts = {}
    for no_local in (False, True):
        for selector in ("", "a = 'b'"):
            made = Subscription(NEWS, SubscriptionKind.SHARED, "desk", no_local=no_local, selector=selector)
            texts[made.choice] = made.choice_text
            assert made.group_id() == SHARED.group_id()
    assert texts == {
        (NEWS, False, ""): "topic:news",
        (NEWS, False, "a = 'b'"): """topic:news with the selector "a = 'b'\"""",
        (NEWS, True, ""): "topic:news with no_local",
        (NEWS, True, "a = 'b'"): """topic:news with no_local and the selector "a = 'b'\"""",
    }
    assert SHARED.choice == (NEWS, False, "")


@pytest.mark.parametrize("name", ["", "x" * (NAME_LENGTH_MAX + 1), 5])
def test_a_name_that_cannot_be_one_is_refused(name: Any) -> None:
    with pytest.raises(InvalidSettingError, match=r"name is .*: a subscription's name is a str of 1 to 200 characters"):
        Subscription(NEWS, SubscriptionKind.SHARED, name)


def test_a_name_that_is_no_text_was_no_type_error() -> None:
    with pytest.raises(InvalidTypeError, match="name is 5"):
        checked_subscription_name(5)


@pytest.mark.parametrize(
    ("client_id", "said"),
    [(5, "client_id is 5: it is a str"), ("", "is '': it has 1 to 200 characters"), ("x" * 201, "has 201 characters")],
)
def test_a_client_id_that_cannot_be_one_is_refused(client_id: Any, said: str) -> None:
    """Of CONN-2."""
    assert checked_client_id("billing") == "billing"
    with pytest.raises(InvalidClientIDError, match=said):
        checked_client_id(client_id)


def test_who_needs_a_client_id_is_told_what_needs_none() -> None:
    assert "use create_shared_durable_consumer, which needs none" in str(client_id_needed("desk"))
