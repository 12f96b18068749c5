"""Takes the arguments of the administration as callers give them: queues by name, and conditions that choose
messages."""

from __future__ import annotations

from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.selectors.selector import Selector, parse_selector
from jbm_kafka.core.subscription import SUBSCRIPTION_ARGUMENT, Subscription, SubscriptionKind
from jbm_kafka.core.wrong_values import shown, wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import as_queue, as_topic, checked_flag

NOT_EMPTY = "it is not empty; leave it out, or set None, for any"
"""The remedy for an empty name or condition."""


def queue_of(queue: Queue | Topic | str, name: str = "queue") -> Queue:
    """The queue, given as such or by its name, as the argument of this name."""
    if isinstance(queue, Queue | Topic):
        return as_queue(queue, name)
    if not isinstance(queue, str):
        rule = "it is a Queue, as in Queue('orders'), or its name"
        raise InvalidDestinationError(f"{name} is {shown(queue)}: {rule}", value=queue)
    return Queue(queue)


def named(destination: Queue | Topic | str, subscription: str | None, client_id: str = "") -> Queue | Topic:
    """The queue, or the topic that the subscription is of, given as such or by its name.

    A topic without a subscription is returned as it is: the look at the cluster says what is wrong with it.

    Raises:
        InvalidDestinationError: it cannot be one, or it is a queue with a subscription.
        InvalidSettingError: a client id without a subscription.
        InvalidTypeError: the subscription is no text.
    """
    check_subscription(subscription)
    if subscription is None:
        if client_id:
            raise wrong_value(
                "client_id", client_id, "it is that of a subscription; name that too, with subscription=…"
            )
        return destination if isinstance(destination, Topic) else queue_of(destination, "destination")
    if isinstance(destination, Queue):
        raise no_subscriptions(destination, subscription)
    return Topic(destination) if isinstance(destination, str) else as_topic(destination)


def durable_wanted(
    topic: Topic | str, name: str, client_id: str, *, is_shared: bool, selector: str | None, no_local: bool
) -> Subscription:
    """The durable subscription that a caller describes.

    Raises:
        InvalidDestinationError, InvalidSelectorError, InvalidSettingError, InvalidTypeError: an argument cannot be.
    """
    checked_flag("shared", is_shared)
    checked_flag("no_local", no_local)
    if not isinstance(client_id, str):
        raise wrong_type("client_id", client_id, "it is a str; '' is none")
    if is_shared and no_local:
        raise wrong_value(
            "no_local", no_local, "only a subscription that is not shared leaves out its connection's own"
        )
    if not is_shared and not client_id:
        raise wrong_value("client_id", client_id, "a subscription of none is shared: give shared=True, or a client id")
    kind = SubscriptionKind.SHARED_DURABLE if is_shared else SubscriptionKind.DURABLE
    chosen = parse_selector(selector)
    normal = "" if chosen is None else chosen.normal
    found = Topic(topic) if isinstance(topic, str) else as_topic(topic)
    return Subscription(found, kind, name, client_id, no_local, selector=normal)


def check_subscription(subscription: object) -> None:
    """Raises InvalidTypeError when it cannot be the name of one."""
    if subscription is not None and not isinstance(subscription, str):
        raise wrong_type("subscription", subscription, "it is a str, or None")


def which_subscription(topic: Topic) -> InvalidDestinationError:
    """The error for a call that names a topic, and none of its subscriptions."""
    return InvalidDestinationError(
        f"{topic.name!r} is a topic: name one of its subscriptions with {SUBSCRIPTION_ARGUMENT}; jbm-kafka "
        f"subscriptions list {topic.name} shows them",
        destination=topic.name,
    )


def no_subscriptions(queue: Queue, subscription: str) -> InvalidDestinationError:
    """The error for a call that names a subscription of a queue."""
    return InvalidDestinationError(
        f"{queue} is a queue, which has no subscription {subscription!r}: leave that out", destination=queue.name
    )


def letters_in_topic(topic: Topic) -> InvalidDestinationError:
    """The error for dead letters that are looked for in a topic: each of its subscriptions has its own."""
    return InvalidDestinationError(
        f"{topic}: dead letters of a topic are its subscriptions': receive them there, as with create_durable_consumer("
        f"topic, name), and send on what is to be tried again to the destination that its property "
        f"_JBM_ORIG_DESTINATION names; listed and sent again are those of queues",
        destination=topic.name,
    )


def check_named(name: str, text: object) -> None:
    """Raises InvalidTypeError or InvalidSettingError for a unit or an id that no message can have."""
    if text is not None and not isinstance(text, str):
        raise wrong_type(name, text, "it is a str, or None for any")
    if text == "":
        raise wrong_value(name, text, NOT_EMPTY)


def chosen_by(selector: str | None) -> Selector | None:
    """Return what chooses the messages that something is done to.

    An empty one is refused: for JMS it means every message, and here it is a value that somebody forgot to fill in.

    Raises:
        InvalidSettingError: it is empty.
        InvalidSelectorError: it is wrong; `position` tells the column.
    """
    if isinstance(selector, str) and not selector.strip():
        raise wrong_value("selector", selector, NOT_EMPTY)
    return parse_selector(selector)
