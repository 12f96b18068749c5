"""Operators' actions on messages that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from jbm_kafka.admin import Admin, MessagesReport
from jbm_kafka.console.frame.action import Action, ActionHands, ActionPreview, AnyAction
from jbm_kafka.console.queues.queue_actions import DestinationWanted

NAMED = 5


class MessagesWanted(DestinationWanted):
    """Which messages: all for which everything is so that is given."""

    message_id: str = Field("", title="Message id")
    unit: str = Field("", title="Unit of order")
    selector: str = Field("", title="Selector", description="As in JMS: region = 'EU' AND qty > 10.")
    everything: bool = Field(False, title="All of them", description="In place of an id, a unit and a selector.")
    count: int | None = Field(None, ge=1, title="How many", description="The first so many. Empty: all that are meant.")

    @property
    def choice(self) -> dict[str, Any]:
        """As `Admin` takes it."""
        given = {"message_id": self.message_id, "unit": self.unit, "selector": self.selector}
        choice: dict[str, Any] = {name: value for name, value in given.items() if value}
        return {**self.source.arguments, **choice, "everything": self.everything, "count": self.count}


class MoveWanted(MessagesWanted):
    """And where to."""

    to: str = Field(title="To queue")
    order: Literal["log", "sent", "priority"] = Field("log", title="Order", description="In which they are sent there.")
    split_units: bool = Field(
        False, title="Split units", description="Also when only some messages of a unit are meant: their order is lost."
    )


def _page(wanted: MessagesWanted) -> str:
    return wanted.source.page("messages")


def _told(found: MessagesReport, becomes: str) -> ActionPreview:
    """Return what a dry run says."""
    count = len(found.messages)
    words = []
    if count:
        words.append(f"{_messages(count)} {becomes}{_named([each.message_id for each in found.messages])}.")
    if found.in_hand:
        words.append(f"{_messages(len(found.in_hand))} stay: a receiver works on them.")
    if found.kept:
        words.append(f"{_messages(len(found.kept))} stay: {found.kept[0].why}.")
    if found.left_out:
        words.append(f"{_messages(found.left_out)} more are like that, beyond the number that was given.")
    return ActionPreview(
        words=words or ["Nothing that it holds is like that."], warnings=list(found.warnings), is_possible=count > 0
    )


def _did(found: MessagesReport, did: str) -> str:
    words = [f"{_messages(len(found.messages))} {did}"]
    if found.address:
        words[0] += f" to {found.address}"
    for count, why in ((len(found.in_hand), "a receiver works on them"), (len(found.gone), "they were gone")):
        if count:
            words.append(f"{count} not: {why}")
    if found.kept:
        words.append(f"{len(found.kept)} not: {found.kept[0].why}")
    return "; ".join([*words, *found.warnings]) + "."


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
    return f": {', '.join(ids[:NAMED])}{more}"


def _preview_move(admin: Admin, wanted: MoveWanted) -> ActionPreview:
    found = admin.move(
        wanted.source.destination, wanted.to, **wanted.choice, order=wanted.order, split_units=wanted.split_units,
        dry_run=True,
    )  # fmt: skip
    return _told(found, f"go to {wanted.to}" if len(found.messages) != 1 else f"goes to {wanted.to}")


def _move(hands: ActionHands, wanted: MoveWanted) -> str:
    found = hands.admin.move(
        wanted.source.destination, wanted.to, **wanted.choice, order=wanted.order, split_units=wanted.split_units
    )
    return _did(found, "moved")


def _preview_remove(admin: Admin, wanted: MessagesWanted) -> ActionPreview:
    return _told(admin.remove(wanted.source.destination, **wanted.choice, dry_run=True), "removed, for good")


def _remove(hands: ActionHands, wanted: MessagesWanted) -> str:
    return _did(hands.admin.remove(wanted.source.destination, **wanted.choice), "removed")


def _preview_expire(admin: Admin, wanted: MessagesWanted) -> ActionPreview:
    found = admin.expire(wanted.source.destination, **wanted.choice, dry_run=True)
    return _told(found, f"expired now, to {found.address}" if found.address else "expired now")


def _expire(hands: ActionHands, wanted: MessagesWanted) -> str:
    return _did(hands.admin.expire(wanted.source.destination, **wanted.choice), "expired")


def _preview_give_up(admin: Admin, wanted: MessagesWanted) -> ActionPreview:
    found = admin.send_to_dead_letter(wanted.source.destination, **wanted.choice, dry_run=True)
    return _told(found, f"given up now, to {found.address}" if found.address else "given up now")


def _give_up(hands: ActionHands, wanted: MessagesWanted) -> str:
    return _did(hands.admin.send_to_dead_letter(wanted.source.destination, **wanted.choice), "given up")


def _preview_send_now(admin: Admin, wanted: MessagesWanted) -> ActionPreview:
    found = admin.send_now(wanted.source.destination, **wanted.choice, dry_run=True)
    return _told(found, "handed over as soon as a receiver is free and its turn in its unit comes")


def _send_now(hands: ActionHands, wanted: MessagesWanted) -> str:
    return _did(hands.admin.send_now(wanted.source.destination, **wanted.choice), "let go")


MESSAGE_ACTIONS: tuple[AnyAction, ...] = (
    Action(
        "move", "Move", MoveWanted, _preview_move, _move,
        more_about=lambda wanted: (wanted.to,), goes_back=_page,
    ),
    Action("remove", "Remove", MessagesWanted, _preview_remove, _remove, destroys=True, goes_back=_page),
    Action("expire", "Expire", MessagesWanted, _preview_expire, _expire, goes_back=_page),
    Action(
        "send-now", "Send now", MessagesWanted, _preview_send_now, _send_now,
        goes_back=lambda wanted: wanted.source.page("scheduled"),
    ),
    Action("give-up", "Give up", MessagesWanted, _preview_give_up, _give_up, goes_back=_page),
)  # fmt: skip
