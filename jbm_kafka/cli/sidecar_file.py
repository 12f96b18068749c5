"""The file of a standalone sidecar: its cluster, where it listens, its users, its limits."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from jbm_kafka.amqp.access import ACTIONS, ANONYMOUS, Access, Action, User
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import ForwardingSettings, Limits, Listener, ServerSettings
from jbm_kafka.cli.cluster_options import default_bootstrap
from jbm_kafka.cli.cluster_settings import (
    CLUSTER_KEYS,
    Cluster,
    SettingsFault,
    from_content,
    from_environment,
    read_toml,
    secrets_for_all_to_read,
    settle,
)
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.core.address_pattern import checked_pattern
from jbm_kafka.core.address_settings import AddressSettings
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.sentinels import SYSTEM_GENERATED
from jbm_kafka.core.setting_rules import TYPES
from jbm_kafka.core.wrong_values import checked_int, did_you_mean, wrong_type, wrong_value
from jbm_kafka.jms.arguments import checked_flag, checked_seconds
from jbm_kafka.jms.factory import ConnectionFactory

FACTORY_KEYS: Final = (
    *("state_dir", "memory_budget_bytes", "auto_create", "persist_delivery_count_before_delivery"),
    *("session_timeout_ms", "revoke_drain_ms", "checkpoint_interval_ms", "record_timeout_ms", "commit_timeout_ms"),
)
"""As arguments of a ConnectionFactory."""
SERVER_KEYS: Final = ("drain_s", "verify_user_id", "metrics_port", "admin_port", "counts_released", "plain_without_tls")
_TABLES: Final = ("listeners", "users", "limits", "address_settings", "forwarding")
_KEYS: Final = (*CLUSTER_KEYS, *FACTORY_KEYS, *SERVER_KEYS, *_TABLES)
_LISTENER_KEYS: Final = ("url", "certificate", "key", "client_ca")
_FORWARDING_KEYS: Final = ("advertised", "user", "password", "server_ca")
_USER_KEYS: Final = ("password", "client_ids", *ACTIONS)
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_MOST: Final = 2**31 - 1
_LEAST: Final = {"frame_bytes": 512}


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """What a file says, checked."""

    cluster: Cluster
    factory: ConnectionFactory
    server: ServerSettings
    metrics_port: int | None
    secrets_for_all: list[str]
    """Names of secrets in it that every user of the machine can read."""


def read_sidecar_file(path: Path) -> SidecarFile:
    """The file; of the cluster the environment says more, as to every command.

    Raises:
        SettingsFault: one line that names the file, the value, and what it should be.
    """
    content = read_toml(path)
    source = from_content(content, path)
    cluster = settle([from_environment(os.environ), source], "", makes_world=True)
    if not cluster.bootstrap:
        cluster = settle([from_environment(os.environ), source], default_bootstrap())
    try:
        _check_names("", content, _KEYS)
        said: dict[str, Any] = {name: content[name] for name in FACTORY_KEYS if name in content}
        if isinstance(said.get("state_dir"), str) and said["state_dir"]:
            said["state_dir"] = path.parent / said["state_dir"]
        if "address_settings" in content:
            said["address_settings"] = _address_settings(_table("address_settings", content["address_settings"]))
        return SidecarFile(
            cluster,
            factory_of(cluster, **said),
            _server(content, path.parent),
            _port("metrics_port", content),
            secrets_for_all_to_read(path, source),
        )
    except InvalidSettingError as error:
        raise SettingsFault(f"{path}: {error}") from None


def _server(content: Mapping[str, Any], folder: Path) -> ServerSettings:
    usual = ServerSettings()
    return ServerSettings(
        listeners=[_listener(f"listeners[{at}]", each, folder) for at, each in enumerate(_listeners(content))],
        access=_access(content),
        limits=_limits(_table("limits", content.get("limits", {}))),
        forwarding=_forwarding(content["forwarding"], folder) if "forwarding" in content else None,
        drain_s=checked_seconds("drain_s", content.get("drain_s", usual.drain_s)),
        admin_port=_port("admin_port", content),
        verify_user_id=_verified(content.get("verify_user_id", usual.verify_user_id)),
        counts_released=checked_flag("counts_released", content.get("counts_released", usual.counts_released)),
    )


def _verified(given: Any) -> Literal["off", "check", "set"]:
    for each in ("off", "check", "set"):
        if given == each:
            return each
    raise wrong_value("verify_user_id", given, "it is off, check or set")


def _listeners(content: Mapping[str, Any]) -> list[Any]:
    given = content.get("listeners", [{"url": "amqp://127.0.0.1:5672"}])
    if not isinstance(given, list) or not given:
        raise wrong_value("listeners", given, 'write [[listeners]] and below it url = "amqp://0.0.0.0:5672"')
    return given


def _listener(name: str, given: Any, folder: Path) -> Listener:
    table = _table(name, given)
    _check_names(f"{name}.", table, _LISTENER_KEYS)
    url = table.get("url")
    rule = "write amqp://HOST:PORT, or amqps://HOST:PORT with a certificate"
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong_value(f"{name}.url", url, rule) from None
    if parts.scheme not in _PORTS or not host or parts.path or parts.query or "@" in parts.netloc:
        raise wrong_value(f"{name}.url", url, rule)
    return Listener(host, _PORTS[parts.scheme] if port is None else port, _tls(name, parts.scheme, table, folder))


def _tls(name: str, scheme: str, table: Mapping[str, Any], folder: Path) -> ssl.SSLContext | None:
    files = {each: folder / _text(f"{name}.{each}", table[each]) for each in _LISTENER_KEYS[1:] if each in table}
    if scheme == "amqp":
        for each in files:
            raise wrong_value(f"{name}.{each}", table[each], "amqp:// has no TLS; write amqps://, or leave it out")
        return None
    if "certificate" not in files:
        raise wrong_value(f"{name}.url", table["url"], "amqps:// needs certificate, and key if that is another file")
    for each, file in files.items():
        if not os.access(file, os.R_OK):
            raise wrong_value(f"{name}.{each}", table[each], f"{file} cannot be read; name a PEM file that can")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    each = "certificate"
    try:
        made.load_cert_chain(files["certificate"], files.get("key"), password="")
        if "client_ca" in files:
            each = "client_ca"
            made.load_verify_locations(files["client_ca"])
            made.verify_mode = ssl.CERT_OPTIONAL
    except (ssl.SSLError, ValueError) as error:
        rule = "it, or the key, is no PEM file without a password, or they do not belong together"
        raise wrong_value(f"{name}.{each}", table[each], f"{rule} ({error})") from None
    return made


def _forwarding(given: object, folder: Path) -> ForwardingSettings:
    table = _table("forwarding", given)
    _check_names("forwarding.", table, _FORWARDING_KEYS)
    for name in ("advertised", "user", "password"):
        if not isinstance(table.get(name), str) or not table[name]:
            rule = "write advertised, user and password below [forwarding]; the user has the right forward in each file"
            text = f"forwarding.{name} is missing, empty or no text; {rule}"  # and not its value, maybe the password
            raise InvalidSettingError(text, setting=f"forwarding.{name}")
    host, _, port = table["advertised"].rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        rule = "write HOST:PORT, as the other sidecars reach this one"
        raise wrong_value("forwarding.advertised", table["advertised"], rule)
    tls = None
    if "server_ca" in table:
        file = folder / _text("forwarding.server_ca", table["server_ca"])
        try:
            tls = ssl.create_default_context(cafile=file)
        except (OSError, ssl.SSLError) as error:
            rule = f"it is no PEM file of an authority that can be read ({error})"
            raise wrong_value("forwarding.server_ca", table["server_ca"], rule) from None
    return ForwardingSettings(table["advertised"], table["user"], table["password"], tls)


def _access(content: Mapping[str, Any]) -> Access:
    users = _table("users", content.get("users", {}))
    if not users:
        text = "users: there are none, so nobody could come in; `jbm-kafka sidecar user NAME` prints the lines of one"
        raise InvalidSettingError(text, setting="users")
    if isinstance(users.get(ANONYMOUS), Mapping) and "forward" in users[ANONYMOUS]:
        rule = "nobody in particular is a sidecar; give forward to a user with a password"
        raise wrong_value(f"users.{ANONYMOUS}.forward", users[ANONYMOUS]["forward"], rule)
    plain = checked_flag("plain_without_tls", content.get("plain_without_tls", False))
    return Access({name: _user(f"users.{name}", given) for name, given in users.items()}, plain_without_tls=plain)


def _user(name: str, given: Any) -> User:
    table = _table(name, given)
    _check_names(f"{name}.", table, _USER_KEYS)
    verifier = Verifier.of_text(f"{name}.password", table["password"]) if "password" in table else None
    rights = {each: _patterns(f"{name}.{each}", table, each) for each in ACTIONS if each in table}
    client_ids = table.get("client_ids")
    if client_ids is not None and not (isinstance(client_ids, list) and all(isinstance(x, str) for x in client_ids)):
        raise wrong_type(f"{name}.client_ids", client_ids, 'it is a list of client ids, as in ["alice-*"]')
    return User(verifier, rights, client_ids)


def _patterns(name: str, table: Mapping[str, Any], action: Action) -> list[str]:
    given = table[action]
    if not isinstance(given, list):
        raise wrong_type(name, given, 'it is a list of patterns of names, as in ["orders.#"]')
    try:
        return [checked_pattern(each) for each in given]
    except InvalidSettingError as error:
        raise InvalidSettingError(f"{name}: {error}", setting=name, value=given) from None


def _limits(table: Mapping[str, Any]) -> Limits:
    usual = {each.name: each.default for each in fields(Limits)}
    _check_names("limits.", table, tuple(usual))
    taken: dict[str, Any] = {}
    for key, value in table.items():
        name = f"limits.{key}"
        if key.endswith("_s"):
            taken[key] = checked_seconds(name, value)
            if not taken[key] >= 1:
                raise wrong_value(name, value, "it is a number of seconds, 1 or more")
        else:
            taken[key] = checked_int(name, value, _LEAST.get(key, 1), _MOST, "bytes" if key.endswith("bytes") else "")
    for key in ("connections_per_user", "connections_per_address"):
        if "connections" in taken:
            taken.setdefault(key, max(taken["connections"] // 2, 1))
    return Limits(**taken)


def _address_settings(table: Mapping[str, Any]) -> dict[str, AddressSettings]:
    taken = {}
    for pattern, given in table.items():
        name = f'address_settings."{pattern}"'
        values = {key: _setting(key, value) for key, value in _table(name, given).items()}
        try:
            taken[checked_pattern(pattern)] = AddressSettings.from_mapping(values)
        except InvalidSettingError as error:
            raise InvalidSettingError(f"{name}: {error}", setting=name, value=given) from None
    return taken


def _setting(name: str, value: object) -> object:
    """TOML has no word for nothing: an empty text says that, as to `jbm-kafka settings set`."""
    types = TYPES.get(name, ())
    if value == "" and NoneType in types:
        return None
    return SYSTEM_GENERATED if type(SYSTEM_GENERATED) in types and value == SYSTEM_GENERATED.value else value


def _port(name: str, content: Mapping[str, Any]) -> int | None:
    return checked_int(name, content[name], 0, 65_535, "") if name in content else None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise wrong_type(name, value, "it is the path of a PEM file, from this file's folder on")
    return value


def _table(name: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise wrong_type(name, given, f"it is a table; write [{name}] and the settings below it")
    return given


def _check_names(before: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            text = f"{before}{name}: there is no such setting; known are {', '.join(known)}"
            raise InvalidSettingError(text + did_you_mean(name, known), setting=name)
