"""Loads the configuration: finds the file, merges the places, and remembers where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from jbm_kafka.configuration.faults import fault_lines
from jbm_kafka.configuration.file import all_can_read, find_file, read_toml
from jbm_kafka.configuration.flat_properties import flat_properties
from jbm_kafka.configuration.models import ClusterTable, address_settings_of
from jbm_kafka.configuration.old_names import TABLE_OF, renaming, with_new_names
from jbm_kafka.configuration.secret_names import is_secret
from jbm_kafka.configuration.value_places import Configuration, ValuePlace, environment_place, merged
from jbm_kafka.configuration.value_places import Path as ValuePath
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.wrong_values import did_you_mean, shown

CLUSTER_KEYS = tuple(ClusterTable.model_fields)


class ConfigurationError(InvalidSettingError):
    """Values of the configuration that cannot be; the text is of the first, `lines` has all."""


@dataclass(frozen=True, slots=True)
class Told:
    """A value, and where it was given."""

    value: str = field(repr=False)
    origin: str
    """As a message begins: `--namespace`, `JBM_NAMESPACE`, `/etc/jbm.toml, namespace`."""


@dataclass(frozen=True, slots=True)
class ToldCluster:
    """The cluster in use, as it was told; None: nobody said it."""

    bootstrap: Told | None = None
    namespace: Told | None = None
    kafka: Mapping[str, Told] = field(default_factory=dict)
    large_bodies: Told | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, and where it comes from."""

    tables: Configuration
    path: Path | None
    """The file; None: there is none."""
    notes: list[str]
    """Lines for people: old names that the file has."""
    places: tuple[ValuePlace, ...] = field(repr=False)
    unclear: str
    """Why no cluster is chosen though the file names some; empty where one is, or none is named."""

    def origin(self, *path: str | int) -> str | None:
        """Returns where the value was given, as a message begins; None: nowhere."""
        place = next((each for each in self.places if each.depth(path) == len(path)), None)
        return None if place is None else place.name_of(path)

    def cluster(self) -> ToldCluster:
        """Returns the cluster in use.

        Raises:
            InvalidSettingError: the file names several and nobody says which; or what it says cannot be used.
        """
        if self.unclear:
            raise InvalidSettingError(self.unclear)
        properties = dict(self._properties())
        for name, value in self.tables.kafka.items():
            path = ("kafka", name)
            if name not in properties or self._rank(path) <= self._rank(properties[name][0]):
                properties[name] = path, value
        return ToldCluster(
            self._told("bootstrap", self.tables.bootstrap),
            self._told("namespace", self.tables.namespace),
            {name: Told(value, self._name(path)) for name, (path, value) in properties.items()},
            self._told("large_bodies", self.tables.large_bodies),
        )

    def factory_arguments(self) -> dict[str, Any]:
        """Returns what it says of a ConnectionFactory, by the names of its arguments; `url` may be missing.

        Raises:
            InvalidSettingError: as `cluster`.
        """
        told = self.cluster()
        said = {name: value for name, value in self.tables.connection if value is not None}
        for name in ("state_dir", "store_and_forward"):
            if name in said:
                said[name] = str(self.beside(name, said[name], "connection"))
        if self.tables.address_settings:
            said["address_settings"] = {
                pattern: address_settings_of(table) for pattern, table in self.tables.address_settings.items()
            }
        if told.bootstrap is not None:
            said["url"] = told.bootstrap.value
        if told.namespace is not None:
            said["namespace"] = told.namespace.value
        if told.large_bodies is not None:
            said["large_bodies"] = told.large_bodies.value
        if told.kafka:
            said["kafka"] = {name: each.value for name, each in told.kafka.items()}
        return said

    def beside(self, name: str, path: str, *table: str | int) -> Path:
        """Returns the path as it is meant: from the file's folder on where the file says it."""
        place = next((each for each in self.places if each.depth((*table, name)) == len(table) + 1), None)
        is_of_file = place is not None and place.is_file and self.path is not None
        return self.path.parent / path if is_of_file and self.path is not None else Path(path)

    def secrets_for_all(self) -> list[str]:
        """Returns the names of the secrets in a file that every user of the machine can read."""
        if self.path is None or not all_can_read(self.path):
            return []
        content = self.places[-1].content
        names = (".".join(map(str, path)) for path, _ in leaves(content) if path[0] != "users")  # those are verifiers
        return sorted({name.removeprefix("kafka.") for name in names if is_secret(name)})

    def placed(self, error: InvalidSettingError) -> InvalidSettingError:
        """Returns the error of an argument with the place that it comes from before it."""
        names: Any = error.values.get("names") or [error.values.get("setting")]
        name = {"url": "bootstrap"}.get(names[0], names[0])
        if name is None:
            return error
        of_kafka = self.cluster().kafka.get(name)
        found = (self.origin(name), self.origin("connection", name), None if of_kafka is None else of_kafka.origin)
        origin = next((each for each in found if each is not None), None)
        return error if origin is None else type(error)(f"{origin}: {error}", **error.values)

    def _told(self, name: str, value: str | None) -> Told | None:
        return None if value is None else Told(value, self._name((name,)))

    def _name(self, path: ValuePath) -> str:
        return self.origin(*path) or ".".join(map(str, path))

    def _rank(self, path: ValuePath) -> int:
        return next((at for at, each in enumerate(self.places) if each.depth(path) == len(path)), len(self.places))

    def _properties(self) -> Iterator[tuple[str, tuple[ValuePath, str]]]:
        """Yields what `tls` and `login` are as properties of librdkafka, each with the path that says it."""
        tls, login = self.tables.tls, self.tables.login
        if tls is None and login is None:
            return
        is_amqp = (self.tables.bootstrap or "").startswith("amqp")
        if not is_amqp:
            protocol = f"{'' if login is None else 'SASL_'}{'PLAINTEXT' if tls is None else 'SSL'}"
            yield "security.protocol", (("login",) if tls is None else ("tls",), protocol)
        if tls is not None:
            for key, name in (("ca", "ssl.ca"), ("certificate", "ssl.certificate"), ("key", "ssl.key")):
                file = getattr(tls, key)
                if file is not None:
                    yield f"{name}.location", (("tls", key), str(self.beside(key, file, "tls")))
            if tls.key_password is not None:
                yield "ssl.key.password", (("tls", "key_password"), tls.key_password.get_secret_value())
        if login is not None:
            yield "sasl.username", (("login", "user"), login.user)
            if not is_amqp or "mechanism" in login.model_fields_set:
                yield "sasl.mechanism", (("login", "mechanism"), login.mechanism)
            password = self._password(login.password, login.password_file)
            if password is not None:
                yield "sasl.password", password

    def _password(self, given: SecretStr | None, file: str | None) -> tuple[ValuePath, str] | None:
        if file is None:
            return None if given is None else (("login", "password"), given.get_secret_value())
        path = ("login", "password_file")
        if given is not None:
            raise InvalidSettingError(f"{self._name(path)}: there is login.password, too; leave one of them out")
        try:
            return path, self.beside("password_file", file, "login").read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            text = f"{self._name(path)} is {shown(file)}: {why}; name a file that has the password alone"
            raise InvalidSettingError(text) from None


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    reads_file: bool = True,
) -> Loaded:
    """Returns the configuration.

    Args:
        path: the file; None: that of JBM_CONFIG, else a usual one; "": none.
        arguments: values that win over all others, by the keys of the file.
        names: how a message names an argument; by its key.
        environment: in place of the process's.
        reads_file: False: what arguments and environment say is all.

    Raises:
        ConfigurationError: values that cannot be; `lines` has one for each.
    """
    variables = os.environ if environment is None else environment
    said, called = dict(arguments or {}), dict(names or {})
    given = ValuePlace(said, lambda at: called.get(str(at[0]), str(at[0])).replace("{}", str(at[-1])))
    try:
        of_environment = environment_place(variables)
        file = find_file(path, variables) if reads_file else None
        content, old = ({}, list[str]()) if file is None else with_new_names(read_toml(file), str(file))
        content = _with_flat_properties(content)
    except InvalidSettingError as error:
        raise ConfigurationError(str(error), lines=[str(error)]) from None
    of_file = ValuePlace(content, lambda at: f"{file}, {_as_written(at, old)}", is_file=True)
    places, unclear = _with_chosen_cluster((given, of_environment, of_file), file)
    try:
        tables = merged(places)
    except ValidationError as error:
        lines = fault_lines(error, places)
        more = f" (and {len(lines) - 1} more: jbm-kafka config check)" if len(lines) > 1 else ""
        raise ConfigurationError(lines[0] + more, lines=lines) from None
    return Loaded(tables, file, [renaming(old, str(file))] if old else [], places, unclear)


def leaves(content: Any, before: ValuePath = ()) -> Iterator[tuple[ValuePath, Any]]:
    """Yields each value that is no table and no list of tables, with its path."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from leaves(value, (*before, key))
    elif isinstance(content, list) and any(isinstance(each, Mapping) for each in content):
        for at, each in enumerate(content):
            yield from leaves(each, (*before, at))
    else:
        yield before, content


def written(path: ValuePath) -> str:
    """Returns the path as the file has it: `amqp.listeners[0].url`."""
    text = ""
    for at, part in enumerate(path):
        is_property = at > 0 and path[at - 1] == "kafka"  # as people write them, and TOML reads them, without quotes
        key = part if is_property or isinstance(part, int) else _quoted(part)
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{key}"
    return text


def _quoted(part: str) -> str:
    return part if all(each.isalnum() or each in "_-" for each in part) else f'"{part}"'


def _as_written(path: ValuePath, old: list[str]) -> str:
    is_old = len(path) > 1 and path[1] in old and TABLE_OF[str(path[1])] == path[0]
    return written(path[1:]) if is_old else written(path)


def _with_flat_properties(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content with librdkafka's properties by their whole names, as far as they can be such."""
    flat = dict(content)
    with suppress(InvalidSettingError):  # which is told with its place where it is checked
        if "kafka" in flat:
            flat["kafka"] = flat_properties(flat["kafka"])
        if isinstance(flat.get("clusters"), Mapping):
            flat["clusters"] = {
                name: _with_flat_properties(table) if isinstance(table, Mapping) else table
                for name, table in flat["clusters"].items()
            }
    return flat


def _with_chosen_cluster(places: tuple[ValuePlace, ...], file: Path | None) -> tuple[tuple[ValuePlace, ...], str]:
    """Returns the places where the chosen cluster's values stand as those of the one in use, and why none is."""
    clusters = [each.content.get("clusters") for each in places]
    known = list(dict.fromkeys(name for each in clusters if isinstance(each, Mapping) for name in each))
    chooser = next((each for each in places if each.content.get("cluster")), None)
    if chooser is None:
        if not known or any(each.content.get("bootstrap") for each in places):
            return places, ""
        if len(known) > 1:
            text = f"{file or 'the environment'}: there are the clusters {', '.join(known)}; say which"
            return places, f"{text}: --cluster NAME, JBM_CLUSTER, or cluster = above them"
        chosen = known[0]
    else:
        chosen = str(chooser.content["cluster"])
        if chosen not in known:
            origin = chooser.name_of(("cluster",))
            there = f"known are {', '.join(known)}" if known else f"{file or 'no file'} names none below [clusters]"
            text = f"{origin} is {shown(chosen)}: there is no such cluster; {there}{did_you_mean(chosen, known)}"
            return places, text
    above = [key for key in CLUSTER_KEYS if key in places[-1].content]
    if above and "bootstrap" not in above:
        text = f"{places[-1].name_of((above[0],))}: it would not be used; write it below [clusters.{chosen}]"
        raise ConfigurationError(text, lines=[text])
    return tuple(_in_use(each, chosen) for each in places), ""


def _in_use(place: ValuePlace, chosen: str) -> ValuePlace:
    clusters = place.content.get("clusters")
    table = clusters.get(chosen) if isinstance(clusters, Mapping) else None
    lifted = {key: table[key] for key in CLUSTER_KEYS if key in table} if isinstance(table, Mapping) else {}
    others = {k: v for k, v in place.content.items() if not place.is_file or k not in CLUSTER_KEYS}
    own = {key for key in others if key in CLUSTER_KEYS}

    def name_of(path: ValuePath) -> str:
        is_lifted = path[0] in lifted and path[0] not in own
        return place.name_of(("clusters", chosen, *path) if is_lifted else path)

    return ValuePlace({**lifted, **others}, name_of, place.is_file)
