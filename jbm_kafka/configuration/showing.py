"""Every value that is given, and where; secrets as stars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr

from jbm_kafka.configuration.loaded import Loaded, leaves, written
from jbm_kafka.configuration.secret_names import HIDDEN, is_secret
from jbm_kafka.configuration.value_places import Path
from jbm_kafka.core.bootstrap import without_credentials

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting."""

    setting: str
    value: Any
    origin: str


def shown_settings(loaded: Loaded, *, with_defaults: bool = False) -> list[Shown]:
    """Returns each setting in force, in the order of the file's model.

    Where a cluster of `[clusters]` is in use, its settings stand as those in force and below its name.
    """
    found = []
    for path, value in leaves(_plain(loaded.tables)):
        origin = loaded.origin(*path)
        if origin is None and (not with_defaults or value is None or value in ({}, [])):
            continue
        found.append(Shown(written(path), _hidden(path, value), origin or DEFAULT))
    return found


def _hidden(path: Path, value: Any) -> Any:
    if path[-1] == "large_bodies" and isinstance(value, str):
        return without_credentials(value)
    return HIDDEN if is_secret(".".join(map(str, path))) and value is not None else value


def _plain(value: Any) -> Any:
    """Returns models as dicts; pydantic's own dump would warn of what stands for secrets."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
