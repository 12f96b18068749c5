"""Dead letters: which queues have them, what went wrong, and a changed copy of one."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jbm_kafka.admin import RetryReport
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.long_looks import tell_progress
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import FRESH_S, MOMENT_S, NothingAsked, View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.letters.letter_groups import LetterGroup, LetterGroups
from jbm_kafka.console.messages.message_views import MessageAsked, MessageShown, look_at_message
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.settings.addresses import destination_at

TOLD_EACH = 1_000
GROUPING_S, ALL_S = 1.2, 60.0
"""A first look takes so long at most; one that was asked to look at all of them, so long."""


class LetterQueue(BaseModel):
    """A queue that takes dead letters."""

    name: str
    held: int | None
    """None: nothing is known of it yet, or nobody needed it so far."""
    oldest_at_ms: int | None


class LetterQueues(BaseModel):
    """All that may be looked at."""

    queues: Sequence[LetterQueue]


class LettersAsked(BaseModel):
    """Which queue, and how far."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    all: bool = Field(False, description="Look at all of them, however long that takes; up to a minute.")

    @property
    def source(self) -> SourceName:
        """The same as a value."""
        return SourceName(name=self.name)


class LettersPage(BaseModel):
    """Its letters by what went wrong."""

    source: SourceName
    groups: Sequence[LetterGroup]
    looked_at: int
    is_whole: bool
    """All of them were looked at."""


class EditPage(BaseModel):
    """One letter, to be changed."""

    source: SourceName
    message: MessageShown
    goes_to: str
    """Where a copy would go; empty: `why_not` says why it cannot."""
    why_not: str
    warnings: Sequence[str]
    """The messages that overtook it, in words."""


def look_at_letter_queues(console: Console, viewer: Viewer, _: NothingAsked) -> LetterQueues:
    """Return the dead-letter queues by what is followed."""
    found = console.backlogs(viewer)
    known = {} if found is None else {each.destination: each for each in found.backlogs if not each.subscription}
    rows = []
    for name in sorted(each for each in console.letter_queues() if viewer.may_look(each)):
        backlog = known.get(name)
        rows.append(
            LetterQueue(
                name=name,
                held=None if backlog is None else backlog.held,
                oldest_at_ms=None if backlog is None else min(backlog.oldest_at_ms.values(), default=None),
            )
        )
    return LetterQueues(queues=rows)


def look_at_letters(console: Console, _: Viewer, asked: LettersAsked) -> LettersPage:
    """The letters of a queue, as far as the time goes."""
    groups, deadline = LetterGroups(), monotonic() + (ALL_S if asked.all else GROUPING_S)
    is_whole = True
    for letter, _message in console.admin.dead_letters(asked.name):
        groups.take([letter])
        if groups.count % TOLD_EACH == 0:
            tell_progress(f"{groups.count:,} letters read")
        if monotonic() > deadline:
            is_whole = False
            break
    return LettersPage(source=asked.source, groups=groups.found(), looked_at=groups.count, is_whole=is_whole)


def look_at_edit(console: Console, viewer: Viewer, asked: MessageAsked) -> EditPage:
    """A letter with what a copy of it would do."""
    message = look_at_message(console, viewer, asked)
    goes_to, why_not, warnings = "", "", list[str]()
    try:
        found: RetryReport = console.admin.retry_dead_letters(asked.name, places=[asked.place], dry_run=True)
        if found.letters:
            goes_to, warnings = found.letters[0].origin.destination or "", list(found.warnings)
        else:
            why_not = found.kept[0].why if found.kept else f"{asked.name} holds no letter there any more"
    except JMSError as error:
        why_not = str(error)
    if goes_to and not viewer.may_operate(destination_at(goes_to).name):
        goes_to, why_not = "", f"it came from {goes_to}, which you may not operate"
    return EditPage(source=asked.source, message=message, goes_to=goes_to, why_not=why_not, warnings=warnings)


_PARTS: tuple[tuple[str, type[BaseModel], Any, type[BaseModel], str, str, float | None], ...] = (
    (
        "/letters",
        NothingAsked,
        look_at_letter_queues,
        LetterQueues,
        "Queues of dead letters",
        "letter_queues.html",
        None,
    ),
    (
        "/queues/{name}/letters",
        LettersAsked,
        look_at_letters,
        LettersPage,
        "Dead letters by error",
        "letters.html",
        FRESH_S,
    ),
    (
        "/queues/{name}/edit",
        MessageAsked,
        look_at_edit,
        EditPage,
        "A letter to be changed",
        "edit_letter.html",
        MOMENT_S,
    ),
)
LETTER_VIEWS: tuple[View, ...] = tuple(View(*part[:6], fresh_s=part[6]) for part in _PARTS)
