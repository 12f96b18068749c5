"""Properties of librdkafka as a file has them: `sasl.mechanism = ...` without quotes is a table in a table to TOML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jbm_kafka.core.jms_errors import InvalidSettingError


def flat_properties(table: object) -> object:
    """The properties by their whole names, as texts; what is no table is returned as it is.

    Raises:
        InvalidSettingError: a value that cannot be one; the text does not repeat it, for it may be a secret.
    """
    return dict(_flat(table, "")) if isinstance(table, Mapping) else table


def _flat(table: Mapping[str, object], before: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, str | int | float):
            yield name, str(value)
        else:
            raise InvalidSettingError(f"{name} is a {type(value).__name__}; write a text, a number, true or false")
