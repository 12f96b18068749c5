"""Operators' actions on dead letters: send them again, or a changed copy of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, field_validator

from jbm_kafka.admin import Admin, DeadLetter, RetryReport
from jbm_kafka.console.frame.action import Action, ActionHands, ActionPreview, AnyAction
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.settings.addresses import destination_at

_PLACES = re.compile(r"\d{1,5}\.\d{1,19}(,\d{1,5}\.\d{1,19})*", re.ASCII)
NAMED = 3


class RetryWanted(BaseModel):
    """Which letters, and how fast."""

    name: str
    selector: str = Field("", title="Selector", description="Only what it chooses of their properties.")
    unit: str = Field("", title="Unit of order")
    places: str = Field("", title="Places", description="Only those at these places: 0.17,1.4.")
    count: int | None = Field(None, ge=1, title="How many", description="The oldest so many. Empty: all.")
    rate: float | None = Field(None, gt=0, title="A second", description="So many a second at most. Empty: at once.")

    @field_validator("places")
    @classmethod
    def _are_places(cls, places: str) -> str:
        if places and not _PLACES.fullmatch(places):
            raise ValueError("write partition and offset of each, as 0.17,1.4")
        return places

    @property
    def choice(self) -> dict[str, Any]:
        """As `Admin` takes it."""
        pairs = [each.split(".") for each in self.places.split(",") if each]
        return {
            "selector": self.selector or None,
            "unit": self.unit or None,
            "places": [(int(partition), int(offset)) for partition, offset in pairs] or None,
            "count": self.count,
        }


class EditWanted(BaseModel):
    """Which letter, and what of it is another."""

    name: str
    at: str = Field(title="Place", pattern=r"^\d{1,5}\.\d{1,19}$")
    # What a message says is neither for the log nor for jbm.events, where actions are recorded.
    body: str | None = Field(None, title="Body", json_schema_extra={"lines": True}, exclude=True)
    properties: str = Field(
        "",
        title="Properties",
        description="One a line, as name=value; name= takes one away. All others stay.",
        json_schema_extra={"lines": True},
    )
    keep: bool = Field(False, title="Keep the letter", description="Beside its copy; else it leaves with it.")

    @property
    def place(self) -> tuple[int, int]:
        """(partition, offset)."""
        partition, offset = self.at.split(".")
        return int(partition), int(offset)

    @property
    def changed_properties(self) -> dict[str, object]:
        """Return the properties by name; None is taken away."""
        rows = [line.partition("=") for line in self.properties.splitlines() if line.strip()]
        return {name.strip(): value.strip() or None for name, _, value in rows}


def _preview_retry(admin: Admin, wanted: RetryWanted) -> ActionPreview:
    found = admin.retry_dead_letters(wanted.name, **wanted.choice, dry_run=True)
    return ActionPreview(
        words=_words(found, wanted.rate), warnings=list(found.warnings), is_possible=bool(found.letters)
    )


def _words(found: RetryReport, rate: float | None) -> list[str]:
    words = []
    for origin, count in Counter(each.origin.destination for each in found.letters).most_common():
        words.append(f"{_letters(count)} sent again to {origin}, in the order in which they came.")
    if rate and found.letters:
        words.append(f"{rate:g} a second: that takes about {max(len(found.letters) / rate, 1):.0f} s.")
    for why, count in Counter(each.why for each in found.kept).most_common(NAMED):
        words.append(f"{_letters(count)} kept: {why}.")
    return words or ["No letter is like that."]


def _retry(hands: ActionHands, wanted: RetryWanted) -> str:
    letters = hands.admin.retry_dead_letters(wanted.name, **wanted.choice, dry_run=True).letters
    planned = len(letters)
    _check_may_send(hands, origins_of(letters))
    hands.tell(
        f"sends {planned:,} letter{'' if planned == 1 else 's'}"
        + (f", {wanted.rate:g} a second" if wanted.rate else "")
    )
    # By their places: what comes from now on may have come from where he may not send.
    choice = {**wanted.choice, "places": [each.place for each in letters]}
    found = hands.admin.retry_dead_letters(wanted.name, **choice, rate=wanted.rate, stop=hands.is_stopped)
    words = [f"{_letters(len(found.letters))} sent again"]
    if found.kept:
        words.append(f"{len(found.kept)} kept: {found.kept[0].why}")
    if found.taken:
        words.append(f"{len(found.taken)} were taken by somebody else meanwhile")
    return "; ".join([*words, *found.warnings]) + "."


def _preview_edit(admin: Admin, wanted: EditWanted) -> ActionPreview:
    found = admin.send_edited_letter(wanted.place, wanted.name, **_edit(admin, wanted), keep=wanted.keep, dry_run=True)
    stays = "The letter stays." if wanted.keep else f"The letter leaves {wanted.name} with it, or neither."
    about = admin.retry_dead_letters(wanted.name, places=[wanted.place], dry_run=True)
    return ActionPreview(
        words=[f"A changed copy of {found.letter.message_id} is sent to {found.destination}.", stays],
        warnings=list(about.warnings),
    )


def _send_edited(hands: ActionHands, wanted: EditWanted) -> str:
    edit = _edit(hands.admin, wanted)
    _check_may_send(hands, _edited_from(hands.admin, wanted))
    found = hands.admin.send_edited_letter(wanted.place, wanted.name, **edit, keep=wanted.keep)
    stays = "the letter is kept" if found.is_kept else "the letter is gone"
    return f"sent to {found.destination} as {found.message_id}; {stays}."


def _edit(admin: Admin, wanted: EditWanted) -> dict[str, Any]:
    """Return what of it is changed. A form sends each line's end as two characters, whatever the body had."""
    body: str | Unset = UNSET
    if wanted.body is not None:
        stored = admin.message_at(wanted.name, *wanted.place)
        before = b"" if stored is None else stored.value or b""
        text = wanted.body if b"\r\n" in before else wanted.body.replace("\r\n", "\n")
        body = UNSET if text.encode(errors="replace") == before else text
    return {"body": body, "properties": wanted.changed_properties}


def _retried_from(admin: Admin, wanted: RetryWanted) -> Sequence[str]:
    return origins_of(admin.retry_dead_letters(wanted.name, **wanted.choice, dry_run=True).letters)


def _edited_from(admin: Admin, wanted: EditWanted) -> Sequence[str]:
    found = admin.retry_dead_letters(wanted.name, places=[wanted.place], dry_run=True)
    return origins_of([*found.letters, *(each.letter for each in found.kept)])  # what is kept may go a moment later


def origins_of(letters: Sequence[DeadLetter]) -> Sequence[str]:
    """The names of the destinations that these came from."""
    addresses = {each.origin.destination for each in letters}
    return sorted({destination_at(each).name for each in addresses if each is not None})


def _check_may_send(hands: ActionHands, names: Sequence[str]) -> None:
    for name in names:
        if not hands.may_operate(name):
            raise IllegalStateError(f"nothing was sent: letters came from {name}, which {hands.by} may not operate")


def _letters(count: int) -> str:
    return "1 letter is" if count == 1 else f"{count:,} letters are"


def _page(wanted: RetryWanted | EditWanted) -> str:
    return f"/queues/{wanted.name}/letters"


LETTER_ACTIONS: tuple[AnyAction, ...] = (
    Action(
        "retry-letters", "Send again", RetryWanted, _preview_retry, _retry, can_stop=True, sends_to=_retried_from,
        goes_back=_page,
    ),
    Action(
        "edit-letter", "Send a changed copy", EditWanted, _preview_edit, _send_edited, sends_to=_edited_from,
        goes_back=_page,
    ),
)  # fmt: skip
