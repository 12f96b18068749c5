"""The names that a table may have: they stand in SQL as they are."""

from __future__ import annotations

import re

from jbm_kafka.core.wrong_values import wrong_type, wrong_value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")


def checked_table_name(name: str, value: object) -> str:
    """The name, if it can be that of a table, or of a schema.

    Raises:
        InvalidSettingError: it cannot.
    """
    rule = "it is a name of up to 48 letters, digits and _, no digit first"
    if not isinstance(value, str):
        raise wrong_type(name, value, rule)
    if not _NAME.fullmatch(value):
        raise wrong_value(name, value, rule)
    return value
