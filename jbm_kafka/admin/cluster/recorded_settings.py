"""Address settings in the registry, which win over those of factories: looked at and changed (REDELIVER-6)."""

from __future__ import annotations

from collections.abc import Collection

from jbm_kafka.codec.settings_record import (
    SettingsRecord,
    decode_settings,
    encode_settings,
    patterns_in,
    settings_key,
)
from jbm_kafka.core.jms_errors import CorruptRecordError, InvalidSettingError, JMSError, NewerRecordError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.settings.address_pattern import checked_pattern, specificity
from jbm_kafka.core.settings.address_settings import (
    AddressSettings,
    changed_settings,
    check_setting_name,
    settings_without,
)
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.wrong_values import shown, wrong_type
from jbm_kafka.registry.registry_log import Changes, RegistryLog, Values

OWN_ADDRESS = {
    "dead_letter_address": "a message that fails there never leaves it, whatever its attempts, and comes again without "
    "end",
    "expiry_address": "a message that expires there comes again, and does not expire any more",
}


def recorded_settings(registry: RegistryLog, pattern: str | None) -> dict[str, AddressSettings]:
    """Return the settings of this pattern or of all, by pattern, the least specific first.

    Raises:
        JMSError: a record cannot be read here.
        KafkaClientError: no answer.
    """
    if pattern is not None:
        pattern = checked_pattern(pattern)
    registry.refresh()
    found = dict(patterns_in(registry.values()))
    wanted = sorted(found, key=specificity) if pattern is None else [pattern]
    return {each: _decoded(each, found[each]).settings for each in wanted if each in found}


def check_settings(pattern: str, settings: AddressSettings) -> None:
    """Return when the settings say something, of a pattern that is one.

    Raises:
        InvalidSettingError: the pattern is not allowed, or no setting is given.
    """
    checked_pattern(pattern)
    if not isinstance(settings, AddressSettings):
        raise wrong_type(
            "settings", settings, "it is an AddressSettings(…); AddressSettings.from_mapping(a_dict) makes one"
        )
    if not settings.given():
        raise InvalidSettingError(
            f"settings is AddressSettings(), which says nothing: give one, as in AddressSettings(max_delivery_attempts="
            f"3); unset_address_settings({shown(pattern)}) takes back what is recorded",
            setting="settings",
            value=settings,
        )


def set_settings(registry: RegistryLog, pattern: str, settings: AddressSettings) -> None:
    """Record what the settings say for the pattern; what they do not speak of stays as it is recorded.

    Raises:
        InvalidSettingError: the pattern is not allowed, no setting is given, or a number is too large to be recorded.
        JMSError: what is recorded cannot be read here.
        KafkaClientError: no answer.
    """
    check_settings(pattern, settings)
    pattern = plain_text(pattern)
    key, given = settings_key(pattern), settings.given()

    def decide(values: Values) -> Changes:
        before = _decoded(pattern, values[key]) if key in values else SettingsRecord(AddressSettings())
        after = SettingsRecord(changed_settings(before.settings, settings), _others(before, given))
        return {} if after == before else {key: encode_settings(after)}

    registry.update(decide)


def own_addresses(pattern: str, settings: AddressSettings) -> list[str]:
    """Return what is to be said of addresses at which the one queue or topic that the pattern names is its own."""
    given, found = settings.given(), []
    for name, what in OWN_ADDRESS.items():
        address = given.get(name)
        if address is not None and _name_of(address) == pattern:
            found.append(f"{name} of {pattern!r} is itself: {what}; name another, or none")
    return found


def _name_of(address: object) -> str:
    return destination_at(address).name if isinstance(address, str) else str(getattr(address, "name", ""))


def unset_settings(registry: RegistryLog, pattern: str, names: tuple[str, ...]) -> bool:
    """Record nothing any more of the named settings for the pattern; without names, of none. Raises as `set_settings`.

    False: nothing of that was recorded, and nothing is changed.
    Names that only newer versions know are taken too, if they are recorded.
    """
    pattern = checked_pattern(pattern)
    for name in names:
        if not isinstance(name, str):
            raise wrong_type("name", name, "it is the name of a setting; several are arguments of their own")
    key = settings_key(pattern)

    def decide(values: Values) -> Changes:
        if key not in values or not names:
            for name in names:
                check_setting_name(name)
            return {key: None} if key in values else {}
        before = _decoded(pattern, values[key])
        known = [name for name in names if name not in before.others]
        for name in known:
            check_setting_name(name)
        after = SettingsRecord(settings_without(before.settings, known), _others(before, names))
        if after == before:
            return {}
        return {key: None if after.is_empty else encode_settings(after)}

    was_recorded = False

    def noted(values: Values) -> Changes:
        nonlocal was_recorded
        changes = decide(values)
        was_recorded = was_recorded or bool(changes)  # asked again, it may see what it changed itself
        return changes

    registry.update(noted)
    return was_recorded


def _others(record: SettingsRecord, but: Collection[str]) -> dict[str, object]:
    """Return what of the record means nothing here, and stays."""
    return {name: value for name, value in record.others.items() if name not in but}


def _decoded(pattern: str, value: bytes) -> SettingsRecord:
    try:
        return decode_settings(value)[0]
    except (CorruptRecordError, NewerRecordError) as error:
        raise JMSError(
            f"what the registry has of the settings of {pattern!r} cannot be read: {error}. Use the newer jbm-kafka "
            f"that wrote it, or let go of all of it: jbm-kafka settings unset '{pattern}'"
        ) from None
