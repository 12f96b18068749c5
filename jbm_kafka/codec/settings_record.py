"""Records of `jbm.registry` about address settings: key `settings|<pattern>`, value Avro (decision 35)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.jms_errors import InvalidSettingError, NewerRecordError
from jbm_kafka.core.sentinels import UnitMarker
from jbm_kafka.core.settings.address_settings import SETTING_NAMES, AddressSettings
from jbm_kafka.core.settings.setting_rules import TYPES
from jbm_kafka.core.wrong_values import wrong_value

_SETTINGS = b"settings|"
_LONG_BITS = 63


@dataclass(frozen=True, slots=True)
class SettingsRecord:
    """The registry's settings of one pattern."""

    settings: AddressSettings
    others: Mapping[str, Any] = field(default_factory=dict)
    """Recorded names that mean nothing here: settings of newer versions, and values that these versions refuse."""

    @property
    def is_empty(self) -> bool:
        """It says nothing at all."""
        return not (self.others or self.settings.given())


def settings_key(pattern: str) -> bytes:
    """Return the key of the pattern's record."""
    return _SETTINGS + pattern.encode()


def patterns_in(values: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:
    """Every pattern of which the registry says something, with its value."""
    for key, value in values.items():
        if key.startswith(_SETTINGS):
            yield key.removeprefix(_SETTINGS).decode(errors="replace"), value


def encode_settings(record: SettingsRecord) -> bytes:
    """The value.

    Raises:
        InvalidSettingError: a number is too large to be recorded.
    """
    values: dict[str, Any] = {**record.others, **record.settings.given()}
    for name, value in values.items():
        if isinstance(value, int) and value.bit_length() > _LONG_BITS:
            raise wrong_value(name, value, f"it is below 2**{_LONG_BITS}")
    return codec("AddressSettings").encode(
        {
            "settings": {name: _as_said(value) for name, value in values.items() if not isinstance(value, UnitMarker)},
            "markers": {name: value.value for name, value in values.items() if isinstance(value, UnitMarker)},
        }
    )


def decode_settings(value: bytes) -> tuple[SettingsRecord, list[str]]:
    """Return what the value says, and a sentence about each part of it that means nothing here.

    Raises:
        CorruptRecordError, NewerRecordError: it cannot be read.
    """
    fields = codec("AddressSettings").decode(value)
    known: dict[str, Any] = {}
    others: dict[str, Any] = {}
    faults: list[str] = []
    for name, said in {**fields["settings"], **_markers(fields["markers"])}.items():
        if TYPES.get(name) == (bool,) and said in (0, 1):
            said = bool(said)
        try:
            AddressSettings.from_mapping({name: said})
        except InvalidSettingError as error:
            others[name] = said
            newer = "" if name in SETTING_NAMES else "; a newer version's, most likely"
            faults.append(f"{error}{newer}")
        else:
            known[name] = said
    try:
        settings = AddressSettings.from_mapping(known)
    except InvalidSettingError as error:  # each can be, and not beside another; earlier versions recorded that
        faults.append(str(error))
        name = str(error.values["setting"])
        others[name] = known.pop(name)
        settings = AddressSettings.from_mapping(known)
    return SettingsRecord(settings, others), faults


def _as_said(value: Any) -> Any:
    """A switch is recorded as 0 or 1: versions before the first switch keep that like any setting they do not know."""
    return int(value) if isinstance(value, bool) else value


def _markers(values: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {name: UnitMarker(value) for name, value in values.items()}
    except ValueError as error:
        raise NewerRecordError(f"AddressSettings: {error}") from None
