"""Where values come from, in their order: arguments, environment, file. Pydantic's settings merge them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from pydantic_settings.sources.utils import parse_env_vars

from jbm_kafka.configuration.models import FileTables
from jbm_kafka.core.jms_errors import InvalidSettingError

PREFIX = "JBM_"
KAFKA_PREFIX = "JBM_KAFKA_"
"""`JBM_KAFKA_SASL_PASSWORD` is `sasl.password`: no property of librdkafka that is a text has an underscore."""

Path = tuple[str | int, ...]
"""The place of a value: `("amqp", "listeners", 0, "url")`."""


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """One place that says values."""

    content: Mapping[str, Any]
    name_of: Callable[[Path], str]
    """How a message begins that is about a value of it: `--namespace`, `JBM_NAMESPACE`, `shop.toml, namespace`."""
    is_file: bool = False

    def depth(self, path: Path) -> int:
        """Returns how many parts of the path it has."""
        value: Any = self.content
        for count, part in enumerate(path):
            is_item = isinstance(value, list) and isinstance(part, int) and part < len(value)
            if not is_item and not (isinstance(value, Mapping) and part in value):
                return count
            value = value[part]
        return len(path)


class Configuration(BaseSettings, FileTables):
    """All values: of arguments before those of the environment, of the file, and the defaults."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", env_ignore_empty=True)

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *_: object, **__: object
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Returns the places of this loading, the first before the later ones."""
        return tuple(InitSettingsSource(settings_cls, dict(place.content)) for place in _PLACES.get())


_PLACES: ContextVar[tuple[ValuePlace, ...]] = ContextVar("_PLACES", default=())


def merged(places: Iterable[ValuePlace]) -> Configuration:
    """Returns what the places say together. Raises pydantic's ValidationError."""
    before = _PLACES.set(tuple(places))
    try:
        return Configuration()
    finally:
        _PLACES.reset(before)


def environment_place(environment: Mapping[str, str]) -> ValuePlace:
    """Returns what the environment says; an empty variable says nothing.

    Raises:
        InvalidSettingError: a variable is for a list or a table, and is no JSON.
    """
    try:
        content = _Environment(environment)()
    except SettingsError as error:
        field = str(error).split('"')[1] if '"' in str(error) else ""
        text = f"{PREFIX}{field.upper()}: it is for a table or a list; write JSON, or one variable for each value"
        raise InvalidSettingError(f"{text}, as JBM_EXPORTER__PORT") from None
    kafka = {
        variable.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): value
        for variable, value in environment.items()
        if variable.startswith(KAFKA_PREFIX) and value
    }
    variables = {name.upper(): name for name in environment}
    return ValuePlace({**content, **({"kafka": kafka} if kafka else {})}, lambda path: _variable(path, variables))


def _variable(path: Path, variables: Mapping[str, str]) -> str:
    if path[0] == "kafka" and len(path) > 1:
        return KAFKA_PREFIX + str(path[1]).upper().replace(".", "_")
    names = [PREFIX + "__".join(str(part).upper() for part in path[:count]) for count in range(len(path), 0, -1)]
    return next((variables[name] for name in names if name in variables), names[0])


class _Environment(EnvSettingsSource):
    """The environment that is given, without Kafka's properties."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._given = {name: value for name, value in environment.items() if not name.startswith(KAFKA_PREFIX)}
        super().__init__(Configuration)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return parse_env_vars(self._given, ignore_empty=True)
