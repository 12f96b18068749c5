"""A standalone sidecar as the configuration describes it: its cluster, where it listens, its users, its limits."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from jbm_kafka.amqp.access import ACTIONS, ANONYMOUS, Access, Action, User
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import ForwardingSettings, Listener, ServerSettings
from jbm_kafka.cli.cluster_settings import Cluster, SettingsFault, settle
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.client.bodies.large_bodies import LargeBodies, large_bodies_of
from jbm_kafka.codec.amqp.address_forms import is_foreign
from jbm_kafka.configuration.local_cluster import default_bootstrap
from jbm_kafka.configuration.pem_files import PemFile, client_tls, server_tls, trust
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.sentinels import UNSET
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.wrong_values import checked_int, wrong_value
from jbm_kafka.jms.base.arguments import checked_seconds
from jbm_kafka.jms.factory import ConnectionFactory

if TYPE_CHECKING:
    from jbm_kafka.configuration.loaded import Loaded
    from jbm_kafka.configuration.models import AmqpTable, ForwardingTable, ListenerTable, UserTable

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_MOST: Final = 2**31 - 1
_LEAST: Final = {"frame_bytes": 512}


@dataclass(frozen=True, slots=True)
class SidecarFile:
    """The contents of a file, checked."""

    cluster: Cluster
    factory: ConnectionFactory
    server: ServerSettings
    metrics_port: int | None
    console_port: int | None
    has_backlog_metrics: bool


def read_sidecar_file(path: str | os.PathLike[str] | None) -> SidecarFile:
    """The sidecar's part of the configuration: of that file, of the environment, and of defaults.

    Raises:
        SettingsFault: one line that names the place, the value, and what it should be.
    """
    from jbm_kafka.configuration.loaded import load

    try:
        return sidecar_of(load(path))
    except InvalidSettingError as error:
        raise SettingsFault(str(error)) from None


def sidecar_of(loaded: Loaded) -> SidecarFile:
    """The sidecar that the configuration describes.

    Raises:
        SettingsFault, InvalidSettingError: a value that cannot be.
    """
    told = loaded.cluster()
    cluster = settle(told, "" if told.bootstrap else default_bootstrap(), makes_world=True)
    said = loaded.factory_arguments()
    for name in ("url", "namespace", "kafka", "large_bodies"):
        said.pop(name, None)
    try:
        factory = factory_of(cluster, **said)
    except InvalidSettingError as error:
        raise loaded.placed(error) from None
    server = server_of(loaded)
    amqp = loaded.tables.amqp
    return SidecarFile(cluster, factory, server, amqp.metrics_port, amqp.console_port, amqp.backlog_metrics)


def server_of(loaded: Loaded) -> ServerSettings:
    """The AMQP server that the configuration describes.

    Raises:
        InvalidSettingError: a value that cannot be; the text names its place.
    """
    amqp, usual = loaded.tables.amqp, ServerSettings()
    try:
        return ServerSettings(
            listeners=_listeners(loaded, amqp),
            access=_access(loaded.tables.users, plain_without_tls=amqp.plain_without_tls),
            limits=_limits(amqp.limits),
            forwarding=None if amqp.forwarding is None else _forwarding(loaded, amqp.forwarding),
            drain_s=usual.drain_s if amqp.drain_s is None else amqp.drain_s,
            admin_port=amqp.admin_port,
            verify_user_id=amqp.verify_user_id,
            counts_released=amqp.counts_released,
            large_bodies=_large_bodies(loaded),
            aliases=_aliases(amqp.aliases),
        )
    except InvalidSettingError as error:
        where = loaded.path or "the configuration"
        raise InvalidSettingError(f"{where}: {error}", **error.values) from None


def _large_bodies(loaded: Loaded) -> LargeBodies | None:
    limit = loaded.tables.connection.large_body_bytes
    return large_bodies_of(loaded.tables.large_bodies, UNSET if limit is None else limit, no_limit=UNSET)


def _aliases(table: Mapping[str, str]) -> dict[str, Destination]:
    made: dict[str, Destination] = {}
    for address, name in table.items():
        setting = f"amqp.aliases.{json.dumps(address)}"
        if not is_foreign(address):
            rule = "it is for an address that no queue or topic of ours can have, as '/queues/orders' or 'a:b'"
            raise wrong_value(setting, name, rule)
        try:
            made[address] = destination_at(name)
        except InvalidDestinationError as error:
            raise wrong_value(setting, name, f"{error}") from None
    return made


def _listeners(loaded: Loaded, amqp: AmqpTable) -> list[Listener]:
    if amqp.listeners is None:
        return [Listener()]
    if not amqp.listeners:
        rule = 'write [[amqp.listeners]] and below it url = "amqp://0.0.0.0:5672"'
        raise wrong_value("amqp.listeners", amqp.listeners, rule)
    return [_listener(loaded, at, each) for at, each in enumerate(amqp.listeners)]


def _listener(loaded: Loaded, at: int, table: ListenerTable) -> Listener:
    name = f"amqp.listeners[{at}].url"
    rule = "write amqp://HOST:PORT, or amqps://HOST:PORT with a certificate"
    try:
        parts = urlsplit(table.url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong_value(name, table.url, rule) from None
    if parts.scheme not in _PORTS or not host or parts.path or parts.query or "@" in parts.netloc:
        raise wrong_value(name, table.url, rule)
    return Listener(host, _PORTS[parts.scheme] if port is None else port, _tls(loaded, at, parts.scheme, table))


def _tls(loaded: Loaded, at: int, scheme: str, table: ListenerTable) -> ssl.SSLContext | None:
    name = f"amqp.listeners[{at}]"
    given = {"certificate": table.certificate, "key": table.key, "client_ca": table.client_ca}
    files = {
        each: PemFile(f"{name}.{each}", path, loaded.beside(each, path, "amqp", "listeners", at))
        for each, path in given.items()
        if path is not None
    }
    if scheme == "amqp":
        for each in files:
            raise wrong_value(f"{name}.{each}", given[each], "amqp:// has no TLS; write amqps://, or leave it out")
        return None
    if "certificate" not in files:
        raise wrong_value(f"{name}.url", table.url, "amqps:// needs certificate, and key if that is another file")
    made = server_tls(files["certificate"], files.get("key"))
    if "client_ca" in files:
        trust(made, files["client_ca"])
        made.verify_mode = ssl.CERT_OPTIONAL
    return made


def _forwarding(loaded: Loaded, table: ForwardingTable) -> ForwardingSettings:
    password = table.password.get_secret_value()
    if not password:
        text = "amqp.forwarding.password is empty; the user has the right forward in each file"
        raise InvalidSettingError(text, setting="amqp.forwarding.password")
    host, _, port = table.advertised.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        rule = "write HOST:PORT, as the other sidecars reach this one"
        raise wrong_value("amqp.forwarding.advertised", table.advertised, rule)
    tls = None
    if table.server_ca is not None:
        path = loaded.beside("server_ca", table.server_ca, "amqp", "forwarding")
        tls = client_tls(PemFile("amqp.forwarding.server_ca", table.server_ca, path))
    return ForwardingSettings(table.advertised, table.user, password, tls)


def users_of(tables: Mapping[str, UserTable]) -> dict[str, User]:
    """Returns the users of the configuration by name. Raises InvalidSettingError."""
    return {name: _user(f"users.{name}", given) for name, given in tables.items()}


def _access(users: Mapping[str, UserTable], *, plain_without_tls: bool) -> Access:
    if not users:
        text = "users: there are none, so nobody could come in; `jbm-kafka sidecar user NAME` prints the lines of one"
        raise InvalidSettingError(text, setting="users")
    if ANONYMOUS in users and users[ANONYMOUS].forward is not None:
        rule = "nobody in particular is a sidecar; give forward to a user with a password"
        raise wrong_value(f"users.{ANONYMOUS}.forward", users[ANONYMOUS].forward, rule)
    return Access(users_of(users), plain_without_tls=plain_without_tls)


def _user(name: str, table: UserTable) -> User:
    password = None if table.password is None else table.password.get_secret_value()
    verifier = None if password is None else Verifier.of_text(f"{name}.password", password)
    given: dict[Action, list[str] | None] = {each: getattr(table, each) for each in ACTIONS}
    rights: dict[Action, Sequence[str]] = {each: found for each, found in given.items() if found is not None}
    return User(verifier, rights, table.client_ids)


def _limits(table: Mapping[str, Any]) -> Limits:
    taken: dict[str, Any] = {}
    for key, value in table.items():
        name = f"amqp.limits.{key}"
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
