"""Operators' actions beside the queues: settings, more partitions, prepared branches, readers of Spark."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from jbm_kafka.admin import Admin
from jbm_kafka.admin.process_admin import checked_process
from jbm_kafka.console.frame.action import Action, ActionHands, ActionPreview, AnyAction
from jbm_kafka.core.channel.process_names import process_name
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.settings.addresses import destination_at


class ResolveWanted(BaseModel):
    """A prepared branch, and what becomes of it."""

    xid: str = Field(title="Branch", description="Its xid, as the list of branches has it.")
    decision: Literal["commit", "rollback"] = Field(
        "rollback", title="Decision", description="Look first what the transaction's other systems did."
    )


class DrainWanted(BaseModel):
    """A process that receives."""

    process: str = Field(title="Process", description="As lists have it: process 4711 at worker-3.")


class ReaderWanted(BaseModel):
    """A reader of Spark."""

    reader: str = Field(title="Reader")


class SettingWanted(BaseModel):
    """One setting, for a pattern of names."""

    name: str = Field(title="Pattern", description="`orders`, `orders.*` or `orders.#`: of names of destinations.")
    setting: str = Field(title="Setting", description="As max_delivery_attempts or redelivery_delay_ms.")
    value: str = Field("", title="Value", description="Empty: what is recorded for this pattern is taken back.")


class PartitionsWanted(BaseModel):
    """A destination that gets more partitions."""

    name: str
    partitions: int = Field(title="Partitions", ge=1, le=10_000, description="So many it has then.")


def _preview_resolve(admin: Admin, wanted: ResolveWanted) -> ActionPreview:
    for each in admin.prepared():
        if str(each.xid) == wanted.xid:
            received, becomes = sum(each.received.values()), "gone" if wanted.decision == "commit" else "received again"
            sends = "are sent" if wanted.decision == "commit" else "are dropped"
            return ActionPreview(
                words=[f"{received} received messages are {becomes}; {each.sends} messages {sends}."],
                warnings=["Its transaction's other systems are not told."],
            )
    return ActionPreview(words=["No such branch is prepared."], is_possible=False)


def _resolve(hands: ActionHands, wanted: ResolveWanted) -> str:
    hands.admin.resolve(wanted.xid, wanted.decision)
    return f"{wanted.xid}: {wanted.decision}"


def _preview_drain(admin: Admin, wanted: DrainWanted) -> ActionPreview:
    host, id_ = checked_process(wanted.process)
    name = process_name(host, id_)
    is_there = name in admin.doctor().members
    return ActionPreview(
        words=[
            f"{name} receives no more, finishes what it works on, and ends, as by SIGTERM; others get its messages.",
            "Whoever supervises it may start it anew.",
        ],
        warnings=[] if is_there else ["No process of that name receives now."],
    )


def _drain(hands: ActionHands, wanted: DrainWanted) -> str:
    hands.tell("waiting until it has heard of it")
    hands.admin.drain(wanted.process)
    return f"{wanted.process} receives no more, and ends when its handlers have"


def _preview_end_reader(admin: Admin, wanted: ReaderWanted) -> ActionPreview:
    for each in admin.readers():
        if each.name == wanted.reader:
            words = [f"Nothing of {each.topic} is kept for it any more. If it still runs, it may miss messages."]
            return ActionPreview(words=words)
    return ActionPreview(words=["There is no such reader."], is_possible=False)


def _end_reader(hands: ActionHands, wanted: ReaderWanted) -> str:
    return f"{wanted.reader}: nothing of {hands.admin.end_reader(wanted.reader).topic} is kept for it"


def _preview_set(admin: Admin, wanted: SettingWanted) -> ActionPreview:
    before = admin.address_settings(checked_pattern(wanted.name)).get(wanted.name)
    was = None if before is None else before.given().get(wanted.setting)
    if not wanted.value:
        is_recorded = before is not None and wanted.setting in before.given()
        words = [f"{wanted.setting} of {wanted.name} is {was} no more; other patterns and the factories' own hold."]
        return ActionPreview(words=words if is_recorded else ["That is not recorded."], is_possible=is_recorded)
    settings = _settings_of(wanted).given()
    now = f"{wanted.setting} of {wanted.name} becomes {settings[wanted.setting]}"
    return ActionPreview(words=[f"{now}; it is {was} now." if was is not None else f"{now}.", "Processes follow soon."])


def _set(hands: ActionHands, wanted: SettingWanted) -> str:
    if not wanted.value:
        hands.admin.unset_address_settings(wanted.name, wanted.setting)
        return f"{wanted.setting} of {wanted.name}: not recorded any more"
    hands.admin.set_address_settings(wanted.name, _settings_of(wanted))
    return f"{wanted.setting} of {wanted.name}: {wanted.value}"


def _settings_of(wanted: SettingWanted) -> AddressSettings:
    """Return the setting by the first reading of the text that it takes: a number, a switch, none, a text."""
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    readings: list[Any] = [words[wanted.value.lower()]] if wanted.value.lower() in words else []
    for kind in (int, float):
        try:
            readings.append(kind(wanted.value))
        except ValueError:
            continue
    error: InvalidSettingError | None = None
    for reading in (*readings, wanted.value):
        try:
            return AddressSettings.from_mapping({wanted.setting: reading})
        except InvalidSettingError as fault:  # of a wrong type InvalidTypeError, which is one
            error = error or fault
    assert error is not None
    raise error


def _preview_admit(admin: Admin, wanted: PartitionsWanted) -> ActionPreview:
    now = admin.partitions(wanted.name)
    if wanted.partitions <= now:
        return ActionPreview(words=[f"It has {now} partitions, and never fewer again."], is_possible=False)
    words = [f"It has {now} partitions and gets {wanted.partitions}.", "Units that wait stay where they are."]
    return ActionPreview(words=words, warnings=["Partitions cannot be taken away again."])


def _admit(hands: ActionHands, wanted: PartitionsWanted) -> str:
    before, now = hands.admin.admit_partitions(wanted.name, partitions=wanted.partitions, tell=hands.tell)
    return f"{wanted.name}: {now} partitions, {before} before"


def _of_setting(wanted: SettingWanted) -> str:
    """The destination; of a pattern with wildcards nobody knows which come to fit it, so it is about all."""
    return "" if {"*", "#"} & set(wanted.name.split(".")) else wanted.name


def _named_by_setting(wanted: SettingWanted) -> list[str]:
    """Whoever says where letters go sends there."""
    if not wanted.setting.endswith("_address") or wanted.value.lower() in ("", "none"):
        return []
    return [destination_at(wanted.value).name]


def _nothing(_: BaseModel) -> str:
    return ""


SIDE_ACTIONS: tuple[AnyAction, ...] = (
    Action(
        "settings", "Set", SettingWanted, _preview_set, _set, about=_of_setting, more_about=_named_by_setting,
        goes_back=lambda wanted: f"/queues/{wanted.name}/settings" if _of_setting(wanted) else "/",
    ),
    Action(
        "admit-partitions", "Add partitions", PartitionsWanted, _preview_admit, _admit, destroys=True,
        goes_back=lambda wanted: f"/queues/{wanted.name}/partitions",
    ),
    Action(
        "resolve", "Decide a branch", ResolveWanted, _preview_resolve, _resolve, destroys=True, about=_nothing,
        goes_back=lambda wanted: "/transactions",
    ),
    Action(
        "drain", "Drain", DrainWanted, _preview_drain, _drain, about=_nothing,
        goes_back=lambda wanted: "/checkup",
    ),
    Action(
        "end-reader", "End a reader", ReaderWanted, _preview_end_reader, _end_reader, destroys=True, about=_nothing,
        goes_back=lambda wanted: "/readers",
    ),
)  # fmt: skip
