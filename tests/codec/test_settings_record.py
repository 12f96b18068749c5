"""Records of address settings: what is written is read, and what a newer version wrote harms nobody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.schemas import codec
from jbm_kafka.codec.settings_record import (
    SettingsRecord,
    decode_settings,
    encode_settings,
    patterns_in,
    settings_key,
)
from jbm_kafka.core.jms_errors import CorruptRecordError, InvalidSettingError, NewerRecordError
from jbm_kafka.core.sentinels import SYSTEM_GENERATED
from jbm_kafka.core.settings.address_settings import AddressSettings

EVERYTHING = AddressSettings(
    max_delivery_attempts=-1,
    redelivery_delay_ms=1_000,
    redelivery_delay_multiplier=1.5,
    redelivery_collision_avoidance_factor=1,
    max_redelivery_delay_ms=None,
    dead_letter_address=None,
    expiry_address="late",
    on_dead_letter="hold",
    default_unit_of_order=SYSTEM_GENERATED,
    duplicate_window_ms=0,
    duplicate_window_count=None,
    partitions=4,
    truncate="never",
    routing="hash",
    record_deliveries=True,
)


@given(names=st.sets(st.sampled_from(sorted(EVERYTHING.given()))))
def test_what_is_written_is_read(names: set[str]) -> None:
    settings = AddressSettings.from_mapping({name: EVERYTHING.given()[name] for name in names})
    assert decode_settings(encode_settings(SettingsRecord(settings))) == (SettingsRecord(settings), [])


def test_a_switch_is_a_number_that_earlier_versions_keep_and_another_number_is_told() -> None:
    for value in (False, True):
        written = encode_settings(SettingsRecord(AddressSettings(record_deliveries=value)))
        assert codec("AddressSettings").decode(written)["settings"] == {"record_deliveries": int(value)}
        assert decode_settings(written)[0].settings.record_deliveries is value
    odd = codec("AddressSettings").encode({"settings": {"record_deliveries": 2}, "markers": {}})
    assert decode_settings(odd)[1] == ["record_deliveries is 2: it is True or False"]


def test_a_unit_that_is_called_as_a_marker_is_a_name() -> None:
    settings = AddressSettings(default_unit_of_order="SYSTEM_GENERATED")
    [record, _] = decode_settings(encode_settings(SettingsRecord(settings)))
    assert record.settings.default_unit_of_order == "SYSTEM_GENERATED"


def test_a_setting_of_a_newer_version_is_told_and_kept_and_the_others_hold() -> None:
    record = SettingsRecord(AddressSettings(partitions=2), {"colour": "red", "max_delivery_attempts": 0})
    found, faults = decode_settings(encode_settings(record))
    assert found == record
    assert [fault.partition(";")[0] for fault in sorted(faults)] == [
        "'colour' is not an address setting",
        "max_delivery_attempts is 0: it is at least 1, or -1 for no limit",
    ]
    assert "a newer version's, most likely" in sorted(faults)[0]


def test_a_value_that_a_later_version_recorded_is_told_and_the_rest_holds() -> None:
    record = SettingsRecord(AddressSettings(partitions=2), {"truncate": "later"})
    found, [fault] = decode_settings(encode_settings(record))
    assert found == record
    assert fault.startswith("truncate is 'later': ")


def test_a_longest_wait_below_the_first_that_an_earlier_version_recorded_is_told_and_the_rest_holds() -> None:
    values = {"redelivery_delay_ms": 10, "max_redelivery_delay_ms": 5, "partitions": 2}
    record, faults = decode_settings(codec("AddressSettings").encode({"settings": values, "markers": {}}))
    assert record == SettingsRecord(
        AddressSettings(redelivery_delay_ms=10, partitions=2), {"max_redelivery_delay_ms": 5}
    )
    assert faults == ["max_redelivery_delay_ms is 5: it is at least redelivery_delay_ms, which is 10"]


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(CorruptRecordError):
        decode_settings(b"damaged")
    with pytest.raises(NewerRecordError, match="'COLOURED' is not a valid UnitMarker"):
        decode_settings(
            codec("AddressSettings").encode({"settings": {}, "markers": {"default_unit_of_order": "COLOURED"}})
        )


def test_a_number_that_no_record_can_have_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"max_delivery_attempts is 9223372036854775808: it is below 2\*\*63"):
        encode_settings(SettingsRecord(AddressSettings(max_delivery_attempts=2**63)))


def test_patterns_are_found_among_other_records() -> None:
    values = {b"destination|orders": b"x", settings_key("orders.#"): b"y", b"settings|*": b"z"}
    assert dict(patterns_in(values)) == {"orders.#": b"y", "*": b"z"}
