"""Records of `jbm.registry` about what is paused: key `pause|<name>`, value Avro."""

from __future__ import annotations

from dataclasses import dataclass

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError


@dataclass(frozen=True, slots=True)
class Halt:
    """Somebody paused it."""

    by: str
    """The operator, as the pause names him."""
    since_ms: int
    """When, ms since the epoch."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The parts of a destination that are paused."""

    production: Halt | None = None
    """Nothing may be sent to it."""
    consumption: Halt | None = None
    """Nothing of it is handed over."""

    def __bool__(self) -> bool:
        """Something of it is paused."""
        return self != NOTHING


NOTHING = Pause()


def pause_key(name: str) -> bytes:
    """Return the key of the destination's record."""
    return f"pause|{name}".encode()


def encode_pause(pause: Pause) -> bytes | None:
    """The value; None, which deletes, when nothing is paused."""
    if pause == NOTHING:
        return None
    production, consumption = pause.production or Halt("", 0), pause.consumption or Halt("", 0)
    return codec("Pause").encode(
        {
            "production_by": production.by,
            "production_since_ms": production.since_ms,
            "consumption_by": consumption.by,
            "consumption_since_ms": consumption.since_ms,
        }
    )


def decode_pause(value: bytes) -> Pause:
    """Return what the value says; nothing is paused by what cannot be read here."""
    try:
        fields = codec("Pause").decode(value)
    except (CorruptRecordError, NewerRecordError):
        return Pause()
    return Pause(
        production=_halt(fields["production_by"], fields["production_since_ms"]),
        consumption=_halt(fields["consumption_by"], fields["consumption_since_ms"]),
    )


def _halt(by: str, since_ms: int) -> Halt | None:
    # The text may be shown at a terminal, and anybody may have written the record.
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in by)
    return Halt(shown, since_ms) if since_ms else None
