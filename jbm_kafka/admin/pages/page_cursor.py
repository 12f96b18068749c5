"""Where a page ends, as text that stands in an address: `0.17-3.4` goes on at offset 17 of partition 0, and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jbm_kafka.core.wrong_values import wrong_type, wrong_value

_CURSOR = re.compile(r"\d{1,5}\.\d{1,19}(-\d{1,5}\.\d{1,19})*", re.ASCII)


def as_cursor(positions: Mapping[int, int]) -> str:
    """The text of positions."""
    return "-".join(f"{place}.{at}" for place, at in sorted(positions.items()))


def read_cursor(after: object) -> Mapping[int, int]:
    """The positions of a text; of None none.

    Raises:
        InvalidSettingError: it is no such text.
    """
    if after is None:
        return {}
    rule = "it is what a page before gave as its `after`, or None for the first page"
    if not isinstance(after, str):
        raise wrong_type("after", after, rule)
    if not _CURSOR.fullmatch(after):
        raise wrong_value("after", after, rule)
    pairs = (each.split(".") for each in after.split("-"))
    return {int(place): int(at) for place, at in pairs}
