"""Operators' actions on destinations."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from jbm_kafka.admin import Admin
from jbm_kafka.console.frame.action import Action, ActionHands, ActionPreview, AnyAction
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.core.jms_errors import InvalidDestinationError

Parts = Literal["both", "sending", "receiving"]


class DestinationWanted(BaseModel):
    """Which queue or topic; of a topic maybe which subscription."""

    name: str
    subscription: str = ""
    client_id: str = ""

    @property
    def source(self) -> SourceName:
        """The same as a value."""
        return SourceName(name=self.name, subscription=self.subscription, client_id=self.client_id)


class PauseWanted(DestinationWanted):
    """The part of it that is to be paused."""

    what: Parts = Field("both", title="What", description="Receivers go on with what they have in hand.")


class ReleaseWanted(DestinationWanted):
    """Which units."""

    unit: str = Field("", title="Unit", description="Only this unit of order. Empty: all that are on hold.")
    again: bool = Field(False, title="Try again", description="With all attempts; else they become dead letters.")


class DeleteWanted(BaseModel):
    """Which queue or topic."""

    name: str


class CreateWanted(BaseModel):
    """The destination that is to be made."""

    name: str = Field(title="Name")
    kind: Literal["queue", "topic"] = Field("queue", title="Kind")
    partitions: int = Field(16, ge=1, le=10_000, title="Partitions")


class SubscriptionWanted(BaseModel):
    """A durable subscription."""

    name: str
    subscription: str
    client_id: str = ""


def _preview_pause(admin: Admin, wanted: PauseWanted) -> ActionPreview:
    paused = admin.paused(wanted.name)
    says = {
        "sending": f"Senders to {wanted.name} get an error until it is resumed.",
        "receiving": f"Nothing more of {wanted.name} is handed over until it is resumed. What receivers have in hand "
        "they go on with.",
    }
    words = [text for what, text in says.items() if wanted.what in ("both", what)]
    already = [what for what, halt in (("sending", paused.production), ("receiving", paused.consumption)) if halt]
    warnings = [f"{' and '.join(already)}: paused already"] if already else []
    return ActionPreview(words=[*words, "Every process follows within 3 seconds."], warnings=warnings)


def _pause(hands: ActionHands, wanted: PauseWanted) -> str:
    hands.tell("waiting until all processes have heard of it")
    hands.admin.pause(wanted.name, wanted.what, by=hands.by)
    return f"{wanted.name}: {_what(wanted.what)} paused"


def _preview_resume(admin: Admin, wanted: PauseWanted) -> ActionPreview:
    paused = admin.paused(wanted.name)
    halts = [("sending", paused.production), ("receiving", paused.consumption)]
    words = [
        f"{what.capitalize()} of {wanted.name} goes on; {halt.by} had paused it."
        for what, halt in halts
        if halt is not None and wanted.what in ("both", what)
    ]
    return ActionPreview(words=words or ["Nothing of that is paused."], is_possible=bool(words))


def _resume(hands: ActionHands, wanted: PauseWanted) -> str:
    left = hands.admin.resume(wanted.name, wanted.what)
    return f"{wanted.name}: resumed" + ("; something of it is still paused" if left else "")


def _preview_release(admin: Admin, wanted: ReleaseWanted) -> ActionPreview:
    found = admin.release(wanted.source.destination, **_which(wanted), dry_run=True)
    count = len(found.messages)
    if not count:
        return ActionPreview(words=["Nothing of that is on hold."], is_possible=False)
    becomes = "is tried again, with all its attempts" if wanted.again else "becomes a dead letter, and its unit goes on"
    units = ", ".join(str(each.unit) for each in found.messages[:10])
    return ActionPreview(words=[f"The message that holds each of {count} units {becomes}: {units}."])


def _release(hands: ActionHands, wanted: ReleaseWanted) -> str:
    found = hands.admin.release(wanted.source.destination, **_which(wanted))
    return f"{wanted.source.title}: {len(found.messages)} units released"


def _which(wanted: ReleaseWanted) -> dict[str, Any]:
    unit: dict[str, Any] = {"unit": wanted.unit} if wanted.unit else {"everything": True}
    return {**wanted.source.arguments, **unit, "again": wanted.again}


def _preview_create(admin: Admin, wanted: CreateWanted) -> ActionPreview:
    if wanted.name and admin.exists(wanted.name):
        return ActionPreview(words=[f"{wanted.name} is there already."], is_possible=False)
    return ActionPreview(words=[f"The {wanted.kind} {wanted.name} is made, with {wanted.partitions} partitions."])


def _create(hands: ActionHands, wanted: CreateWanted) -> str:
    make = hands.admin.create_queue if wanted.kind == "queue" else hands.admin.create_topic
    is_new = make(wanted.name, partitions=wanted.partitions)
    return f"{wanted.kind} {wanted.name}: {'made' if is_new else 'it was there before'}"


def _preview_delete(admin: Admin, wanted: DeleteWanted) -> ActionPreview:
    found = admin.delete_destination(wanted.name, force=True, dry_run=True)
    held = "what it holds could not be counted" if found.held is None else f"{found.held} messages that nobody received"
    words = [f"{found.destination} goes for good, with {held}.", f"Kafka topics: {', '.join(found.topics) or 'none'}."]
    if found.groups:
        words.append(f"Consumer groups: {', '.join(found.groups)}.")
    warnings = [f"{found.receivers} processes receive from it: stop them first"] if found.receivers else []
    return ActionPreview(words=words, warnings=warnings, is_possible=not found.receivers)


def _delete(hands: ActionHands, wanted: DeleteWanted) -> str:
    found = hands.admin.delete_destination(wanted.name)
    return f"{found.destination} deleted, with the topics {', '.join(found.topics)}"


def _preview_truncate(admin: Admin, wanted: DeleteWanted) -> ActionPreview:
    found = admin.truncate(wanted.name, dry_run=True)
    words = [f"{found.deletable:,} records that nobody needs are deleted from the log; {found.kept:,} stay."]
    words += [f"{each.name} keeps {each.records:,}." for each in found.keepers[:5]]
    return ActionPreview(
        words=[f"Nothing may be deleted: {found.because}."] if found.because else words,
        is_possible=not found.because and found.deletable > 0,
    )


def _truncate(hands: ActionHands, wanted: DeleteWanted) -> str:
    return f"{wanted.name}: {hands.admin.truncate(wanted.name).deletable:,} records deleted"


def _preview_unsubscribe(admin: Admin, wanted: SubscriptionWanted) -> ActionPreview:
    for each in admin.subscriptions(wanted.name):
        if (each.name, each.client_id) == (wanted.subscription, wanted.client_id):
            warnings = [f"{each.members} processes receive from it: stop them first"] if each.members else []
            text = f"The subscription {wanted.subscription} ends, with up to {each.held_at_most} messages."
            return ActionPreview(words=[text], warnings=warnings, is_possible=not each.members)
    return ActionPreview(words=["There is no such subscription."], is_possible=False)


def _unsubscribe(hands: ActionHands, wanted: SubscriptionWanted) -> str:
    _check_there(hands.admin, wanted)
    hands.admin.unsubscribe(wanted.subscription, client_id=wanted.client_id)
    return f"{wanted.name}: subscription {wanted.subscription} ended"


def _preview_let_go(admin: Admin, wanted: SubscriptionWanted) -> ActionPreview:
    for each in admin.subscriptions(wanted.name):
        if (each.name, each.client_id) == (wanted.subscription, wanted.client_id) and each.owner:
            return ActionPreview(words=[f"It is {each.owner}'s no more; the next AMQP user that attaches has it."])
    return ActionPreview(words=["It is no AMQP user's."], is_possible=False)


def _let_go(hands: ActionHands, wanted: SubscriptionWanted) -> str:
    _check_there(hands.admin, wanted)
    was = hands.admin.release_subscription(wanted.subscription, client_id=wanted.client_id)
    return f"{wanted.subscription}: it was {was.owner or 'nobody'}'s"


def _check_there(admin: Admin, wanted: SubscriptionWanted) -> None:
    """The right was that of this topic: a subscription of another one is not meant."""
    if not any((each.name, each.client_id) == (wanted.subscription, wanted.client_id)
               for each in admin.subscriptions(wanted.name)):  # fmt: skip
        raise InvalidDestinationError(
            f"topic {wanted.name} has no subscription {wanted.subscription!r} of that client id"
        )


def _what(what: str) -> str:
    return "sending and receiving" if what == "both" else what


def _page(wanted: DestinationWanted) -> str:
    return "/topics" if not wanted.subscription and not wanted.name else wanted.source.path


QUEUE_ACTIONS: tuple[AnyAction, ...] = (
    Action("pause", "Pause", PauseWanted, _preview_pause, _pause, goes_back=_page),
    Action("resume", "Resume", PauseWanted, _preview_resume, _resume, goes_back=_page),
    Action("release", "Release", ReleaseWanted, _preview_release, _release, goes_back=_page),
    Action("create", "Create", CreateWanted, _preview_create, _create),
    Action("truncate", "Truncate the log", DeleteWanted, _preview_truncate, _truncate),
    Action("delete", "Delete", DeleteWanted, _preview_delete, _delete, destroys=True),
    Action(
        "unsubscribe", "End the subscription", SubscriptionWanted, _preview_unsubscribe, _unsubscribe,
        destroys=True, goes_back=lambda wanted: "/subscriptions",
    ),
    Action(
        "release-subscription", "Let go of its owner", SubscriptionWanted, _preview_let_go, _let_go,
        goes_back=lambda wanted: "/subscriptions",
    ),
)  # fmt: skip
