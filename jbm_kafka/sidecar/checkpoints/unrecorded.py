"""Participants of which Kafka refuses to record anything, however often one tries (decision 88)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.ports import Refusal
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Participant

_Reason = tuple[type[Exception], str, str]


class Unrecorded:
    """Who they are, and why. The checkpoint thread only.

    As long as any of them is refused for one reason its error is one object: whoever has heard of that hears no more.
    """

    def __init__(self) -> None:
        self._now: dict[Participant, tuple[_Reason, JMSError]] = {}

    def refused(self, participants: Iterable[Participant], refusal: Refusal) -> None:
        """Tell them: they hand over nothing more, and their receivers get the error."""
        self._now = {one: known for one, known in self._now.items() if one.is_alive}
        reason = type(refusal.cause), refusal.topic, refusal.group
        known = next((error for other, error in self._now.values() if other == reason), None)
        error = known or _error_of(refusal)
        for participant in participants:
            self._now[participant] = reason, error
            participant.unrecorded(error)

    def took_part(self, participants: Iterable[Participant]) -> None:
        """A checkpoint with them was committed: they go on."""
        if self._now:
            for participant in participants:
                if self._now.pop(participant, None) is not None:
                    participant.unrecorded(None)

    def why(self, participants: Collection[Participant]) -> JMSError | None:
        """Why one of them is among these; None: none is."""
        return next((self._now[one][1] for one in participants if one in self._now), None)


def refusal_of(
    token: object, refusals: Mapping[object, Refusal], denied: Collection[str], *, group: str = ""
) -> Refusal | None:
    """Which of a transaction's refusals is about the token's part; None: none is. `denied`: where that
    writes to and may not."""
    whole = refusals.get(None)
    if whole is not None and denied:
        return replace(whole, topic=min(denied))
    if whole is not None and group and whole.group == group:
        return whole
    return refusals.get(token)


def rolled_back(about: str, cause: JMSError) -> TransactionRolledBackError:
    """The error of a commit that is refused for this."""
    error = TransactionRolledBackError(f"{about}: rolled back: {cause}", **{"about": about, **cause.values})
    error.__cause__ = cause
    return error


def _error_of(refusal: Refusal) -> JMSError:
    topic, group = refusal.topic, refusal.group
    place = f"{topic}: " if topic else f"group {group}: " if group else ""
    values = {"topic": topic} if topic else {}
    about = f"{place}Kafka refuses what is to be recorded, and nothing more is handed over until that is mended"
    return as_jms_error(refusal.cause, about, **values)
