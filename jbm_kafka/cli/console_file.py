"""Reads the configuration of a console: `[console]`, and `look` and `operate` of `[users]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from jbm_kafka.cli.cluster_settings import Cluster, SettingsFault
from jbm_kafka.cli.sidecar_file import users_of
from jbm_kafka.console.frame.console import LookedAtCluster
from jbm_kafka.console.frame.console_settings import ConsoleSettings, ProgramToken, TrustedProxy
from jbm_kafka.console.serving import ConsoleAddress
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.wrong_values import shown

if TYPE_CHECKING:
    from jbm_kafka.bridge.bridge_spec import BridgeSpec
    from jbm_kafka.configuration.loaded import Loaded


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """A console as the configuration describes it, checked."""

    cluster: Cluster
    settings: ConsoleSettings
    address: ConsoleAddress

    @property
    def looked_at(self) -> LookedAtCluster:
        """The cluster as the console takes it."""
        return LookedAtCluster(self.cluster.bootstrap, self.cluster.kafka, self.cluster.namespace)


def console_of(
    loaded: Loaded,
    cluster: Cluster,
    listen: str | None = None,
    *,
    read_only: bool = False,
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> ConsoleFile:
    """Returns the console of this cluster that the configuration describes; `listen` and `read_only` win over it.

    `overrides`: what was given over the file, by its keys, for the ends of bridges that name no cluster.

    Raises:
        SettingsFault: one line that names the value, and what it should be.
    """
    try:
        settings, address = _settings(loaded, overrides), address_of(loaded)
        if listen is not None:
            at = ConsoleAddress.of_text(listen)
            address = replace(address, host=at.host, port=at.port)
        address.check(has_login=settings.has_login)
    except InvalidSettingError as error:
        where = "" if loaded.path is None else f"{loaded.path}: "
        raise SettingsFault(f"{where}{error}") from None
    return ConsoleFile(cluster, replace(settings, read_only=settings.read_only or read_only), address)


def _settings(loaded: Loaded, overrides: Mapping[str, Any]) -> ConsoleSettings:
    table, users = loaded.tables.console, users_of(loaded.tables.users)
    store = loaded.tables.connection.store_and_forward
    secret = None if table.secret_file is None else loaded.beside("secret_file", table.secret_file, "console")
    return ConsoleSettings(
        read_only=table.read_only,
        users={name: user for name, user in users.items() if {"look", "operate"} & user.rights.keys()},
        proxy=None if table.proxy is None else TrustedProxy(table.proxy.header, table.proxy.networks),
        tokens={
            name: ProgramToken(bytes.fromhex(each.sha256), each.look, each.operate)
            for name, each in table.tokens.items()
        },
        hosts=table.hosts,
        schema_registry=table.schema_registry or "",
        schema_registry_user=table.schema_registry_user or "",
        schema_registry_password=_said(table.schema_registry_password),
        secret=b"" if secret is None else _secret(secret),
        bridges={name: _bridge(loaded, name, overrides) for name in loaded.tables.bridges},
        store=None if store is None else loaded.beside("store_and_forward", store, "connection"),
    )


def _bridge(loaded: Loaded, name: str, overrides: Mapping[str, Any]) -> BridgeSpec | str:
    """The bridge; or why there is none: a console may be without the passwords that its bridges have."""
    from jbm_kafka.bridge import Bridge

    try:
        return Bridge._of_file(loaded, name, overrides)._spec
    except InvalidSettingError as error:
        return str(error)


def _said(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def address_of(loaded: Loaded) -> ConsoleAddress:
    """Returns where the configuration has the console listen.

    Raises:
        InvalidSettingError: it is no address, or its certificate or key cannot be used.
    """
    table = loaded.tables.console
    made = replace(
        ConsoleAddress.of_text(table.listen, "console.listen"),
        certificate=_beside(loaded, "certificate", table.certificate),
        key=_beside(loaded, "key", table.key),
        plain_without_tls=table.plain_without_tls,
    )
    made.tls()
    return made


def _beside(loaded: Loaded, name: str, path: str | None) -> str:
    return "" if path is None else str(loaded.beside(name, path, "console"))


def _secret(path: Path) -> bytes:
    try:
        found = path.read_bytes().strip()
    except (OSError, ValueError) as error:
        rule = f"{shown(str(path))}: {_why(error)}; write 32 or more random bytes there, as by openssl rand -hex 32"
        raise InvalidSettingError(f"console.secret_file: {rule}", setting="console.secret_file") from None
    if len(found) < 32:
        rule = "it has fewer than 32 bytes; write more there, as by openssl rand -hex 32"
        raise InvalidSettingError(f"console.secret_file: {rule}", setting="console.secret_file")
    return found


def _why(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
