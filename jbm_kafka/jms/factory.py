"""The connection factory: where the queues are, and how to use them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

from jbm_kafka.client.bodies.body_store import BodyStore
from jbm_kafka.client.bodies.large_bodies import large_bodies_of
from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.bootstrap import checked_bootstrap, without_credentials
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError, InvalidTypeError, JMSSecurityError
from jbm_kafka.core.plain_text import plain_text, plain_texts, recorded_text
from jbm_kafka.core.sentinels import SYSTEM_GENERATED, UNSET, UnitMarker, Unset
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.subscription import checked_client_id
from jbm_kafka.core.wrong_values import checked_int, shown, shown_name, wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import check_mode, checked_flag
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.one_process import check_pickled
from jbm_kafka.jms.connection import Connection, sender_of
from jbm_kafka.jms.context import Context
from jbm_kafka.jms.sender import Sender
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.shared.connection_core import ConnectionDefaults
from jbm_kafka.ports.connection_ranges import RANGES
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.ports.provider import Provider, ProviderModule
from jbm_kafka.store_and_forward.store_limits import StoreLimits, StoreSettings

if TYPE_CHECKING:
    from confluent_kafka.serialization import Deserializer, Serializer

_AMQP = ("amqp", "amqps")
PROVIDERS = {
    "kafka": "jbm_kafka.providers.embedded",
    "memory": "jbm_kafka.providers.in_memory",
    **dict.fromkeys(_AMQP, "jbm_kafka.amqp_client.entry"),
}
"""Module by scheme."""


class ConnectionFactory:
    """Makes connections (create_connection), contexts (create_context) and senders (create_sender). Thread-safe.

    It holds settings only; the first connection starts the sidecar. It can be pickled, for a child process.

    What is left out is as in the sidecar that other factories of this process have started for the same url, namespace
    and state folder, or else the default that stands last with each. What is given holds, or connecting is refused.

    Args:
        url: `host:port`, several with commas, or the same after `kafka://`. `memory://NAME`: no broker, but a world of
            that name in this process, gone with its last connection (docs/testing.md). `amqp://host:port`, or
            `amqps://`: a standalone sidecar, or any AMQP 1.0 broker (docs/amqp.md); of several the first that answers.
        client_id: the connection's name, for durable subscriptions and `no_local`: one connection at a time has it.
        state_dir: folder of the local state (docs/settings.md#the-local-state); None: a temporary one, rebuilt from the
            changelog.
        kafka: properties of librdkafka for every client, such as docs/security.md; what must be ours is refused by
            name.
        address_settings: by pattern of destination names (docs/settings.md#addresssettings).
        default_unit_of_order: a name, or SYSTEM_GENERATED: one for each session; None.
        auto_create: make missing queues at first use; True. The command line makes one only by `create`.
        namespace: prefix of every group, changelog and `jbm.` topic, so that several installations share a cluster.
        memory_budget_bytes: bound of what is read ahead and held in memory
            (docs/settings.md#the-memory-of-a-process); 256 MiB.
        session_timeout_ms: after so long without a sign of life the group gives a process's partitions to others;
            10,000.
        revoke_drain_ms: how long a move of partitions waits for messages in work: as long as the slowest handler needs
            (docs/graceful-shutdown.md#when-a-worker-comes-or-goes). Creating a consumer waits for its first partitions
            at most 60 s longer; 30,000.
        membership_idle_ms: how long a consumer that pauses between two receives keeps its process in the queue's group,
            and with it its share of the partitions; 60,000.
        receiver_idle_ms: how long it keeps messages that it has not asked for yet, meanwhile; then other consumers of
            its process get them; 3,000.
        checkpoint_interval_ms: how often acknowledgements are recorded in Kafka: a crash may bring back what was
            acknowledged since the last time; 50.
        record_timeout_ms: how long each record of a commit may take to be written, 3,000 to 120,000, before the commit
            is given up and made again. Longer where brokers are slow; a process that dies in a commit holds up its
            partitions by as much more; 3,000.
        commit_timeout_ms: how long the brokers may take to answer to a commit, 5,000 to 600,000; then it is asked for
            whether it took place; 10,000.
        block_on_acknowledge: True: an acknowledgement returns when it is recorded; in PRE a message arrives when its
            acknowledgement is (docs/acknowledging.md); False.
        persist_delivery_count_before_delivery: True: an attempt is recorded before the application gets the message
            (docs/retries-and-dead-letters.md#a-message-that-kills-its-worker); False.
        prefetch: how many messages a consumer may hold unacknowledged
            (docs/sending-and-receiving.md#a-full-prefetch); 1,000.
        codecs: serializers and deserializers of confluent_kafka, each alone or as a tuple of both, by subject
            ("orders-value") or by content type: they write and read bodies of a docs/schema-registry.md.
        large_bodies: where bodies go that are too large for Kafka: "s3://bucket/folder", "file:/folder", another URL of
            fsspec, or an object with put, get, list and remove; of all programs the same (docs/large-bodies.md).
        large_body_bytes: how large a body stays in its record; 900,000.
        store_and_forward: a folder where sends are stored, and forwarded from when Kafka is there: they succeed while
            it is away (docs/store-and-forward.md). One process at a time has it.
        store_fsync: a send returns when the store has it on the disk; True. False: the disk has it within a second.
        store_bytes_max: how much the store holds before sends are refused; 1 GiB.
        store_age_max_ms: sends are refused while the oldest that is stored waits longer; 0: however long it waits.

    Raises:
        InvalidSettingError: a setting cannot be; the text names it, its value and what it should be.
        InvalidClientIDError: the client id cannot be one.
    """

    __slots__ = ("_defaults", "_installation", "_provider", "_scheme", "_store")

    def __init__(
        self,
        url: str,
        *,
        client_id: str | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        kafka: Mapping[str, object] | None = None,
        address_settings: Mapping[str, AddressSettings] | None = None,
        default_unit_of_order: UnitOfOrder = None,
        auto_create: bool | Unset = UNSET,
        namespace: str = "",
        memory_budget_bytes: int | Unset = UNSET,
        session_timeout_ms: int | Unset = UNSET,
        revoke_drain_ms: int | Unset = UNSET,
        membership_idle_ms: int | Unset = UNSET,
        receiver_idle_ms: int | Unset = UNSET,
        checkpoint_interval_ms: int | Unset = UNSET,
        record_timeout_ms: int | Unset = UNSET,
        commit_timeout_ms: int | Unset = UNSET,
        block_on_acknowledge: bool = False,
        persist_delivery_count_before_delivery: bool | Unset = UNSET,
        prefetch: int = 1000,
        codecs: Mapping[str, Serializer | Deserializer | tuple[Serializer, Deserializer]] | None = None,
        large_bodies: str | BodyStore | None = None,
        large_body_bytes: int | Unset = UNSET,
        store_and_forward: str | os.PathLike[str] | None = None,
        store_fsync: bool | Unset = UNSET,
        store_bytes_max: int | Unset = UNSET,
        store_age_max_ms: int | Unset = UNSET,
    ) -> None:
        namespace = checked_namespace(namespace)
        _check_type("client_id", client_id, str, "a str, or None")
        if client_id is not None:
            client_id = checked_client_id(client_id)
        _check_type("kafka", kafka, Mapping, "a dict of librdkafka properties, or None")
        _check_type(
            "codecs", codecs, Mapping, "a dict from subject or content type to confluent's serializers, or None"
        )
        _check_type("address_settings", address_settings, Mapping, "a dict from pattern to AddressSettings, or None")
        asked = {
            "session_timeout_ms": session_timeout_ms,
            "revoke_drain_ms": revoke_drain_ms,
            "membership_idle_ms": membership_idle_ms,
            "receiver_idle_ms": receiver_idle_ms,
            "checkpoint_interval_ms": checkpoint_interval_ms,
            "record_timeout_ms": record_timeout_ms,
            "commit_timeout_ms": commit_timeout_ms,
            "memory_budget_bytes": memory_budget_bytes,
            "address_settings": UNSET if address_settings is None else address_settings,
            "persist_delivery_count_before_delivery": persist_delivery_count_before_delivery,
            "auto_create": auto_create,
        }
        given = {name: _CHECKS[name](name, value) for name, value in asked.items() if value is not UNSET}
        self._scheme, address = _address(url)
        if large_bodies is not None and self._scheme in _AMQP:
            rule = "a sidecar has the store: give large_bodies in its file, and leave it out here"
            raise InvalidSettingError(f"large_bodies: {rule}", setting="large_bodies")
        self._store = _store_settings(
            store_and_forward,
            {
                "store_fsync": store_fsync,
                "store_bytes_max": store_bytes_max,
                "store_age_max_ms": store_age_max_ms,
            },
            self._scheme,
        )
        self._installation = Installation(
            bootstrap=address,
            client_settings=plain_texts(kafka),
            state_dir=_folder("state_dir", state_dir, "a temporary one"),
            config=SidecarConfig(namespace=namespace, **given),
            is_encrypted=self._scheme == "amqps",
            given=frozenset(given),
        )
        self._provider = _provider(self._scheme)
        self._provider.check(self._installation)
        self._defaults = ConnectionDefaults(
            client_id=client_id,
            prefetch=_CHECKS["prefetch"]("prefetch", prefetch),
            block_on_acknowledge=checked_flag("block_on_acknowledge", block_on_acknowledge),
            default_unit_of_order=_unit(default_unit_of_order),
            url=f"{self._scheme}://{address}",
            codecs=SchemaCodecs(codecs) if codecs else None,
            large_bodies=large_bodies_of(large_bodies, large_body_bytes, no_limit=UNSET),
        )

    @classmethod
    def from_config(cls, path: str | os.PathLike[str] | None = None, **overrides: Any) -> Self:
        """A factory as the configuration says: arguments, then JBM_ variables, then the file, then defaults.

        docs/configuration.md has the file. Where nobody names a cluster it is the local broker.

        Args:
            path: the file; None: that of JBM_CONFIG, else ./jbm-kafka.toml, else ~/.config/jbm-kafka/config.toml, or
                no file; "": none.
            overrides: arguments of a ConnectionFactory, and `cluster`, which of the file's [clusters]. Each wins; of
                `kafka` and `address_settings` name by name.

        Raises:
            InvalidSettingError: a value that cannot be; the text names its place.
        """
        return cls._configured(path, reads_file=True, overrides=overrides)

    @classmethod
    def from_env(cls, **overrides: Any) -> Self:
        """The same of arguments and JBM_ variables alone; no file is read."""
        return cls._configured(None, reads_file=False, overrides=overrides)

    @classmethod
    def _configured(cls, path: str | os.PathLike[str] | None, *, reads_file: bool, overrides: dict[str, Any]) -> Self:
        from jbm_kafka.configuration.factory_arguments import configured_arguments  # Pydantic, a quarter of a second

        loaded, arguments = configured_arguments(path, overrides, reads_file=reads_file)
        try:
            return cls(**arguments)
        except InvalidSettingError as error:
            raise loaded.placed(error) from None

    def __reduce__(self) -> tuple[object, ...]:
        """For other processes: it is settings only."""
        check_pickled("kafka", self._installation.client_settings)
        if self._defaults.codecs is not None:
            check_pickled("codecs", self._defaults.codecs.given)
        if self._defaults.large_bodies is not None:
            check_pickled("large_bodies", {"": self._defaults.large_bodies})
        defaults = replace(self._defaults, tracing=None)
        return _made_again, (self._scheme, self._installation, defaults, type(self), self._store)

    def __repr__(self) -> str:
        return f"<ConnectionFactory {self._defaults.url}>"

    def create_connection(self, username: str | None = None, password: str | None = None) -> Connection:
        """A connection, stopped.

        Raises:
            ConnectionFailedError: nobody answers at the cluster's address.
            JMSError: the state folder cannot be used.
            InvalidSettingError: a connection of this process to the same cluster was made with other `kafka`, or
                with another value of a setting that this factory was given.
        """
        for given in (username, password):
            if isinstance(given, AcknowledgeMode):
                its = f"create_connection().create_session({given}), or create_context({given})"
                raise InvalidTypeError(f"create_connection() was given {given}: a session has the mode, {its}")
        if (username is not None or password is not None) and self._scheme in _AMQP:
            return Connection(self._provider.connect(self._as_user(username, password)), self._defaults)
        if username is not None or password is not None:
            remedy = "leave them out" if self._scheme == "memory" else "give Kafka's in kafka={'sasl.username': …}"
            raise JMSSecurityError(
                f"username or password is given: {self._scheme}:// has no users of its own; {remedy}"
            )
        return self._connect(self._defaults)

    def create_context(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Context:
        """Connection and session in one, started at its first consumer (JMS 2.0)."""
        check_mode(acknowledge_mode)
        return Context(self._connect(replace(self._defaults, called="context")), acknowledge_mode)

    def create_sender(self) -> Sender:
        """A sender that any thread may use at once, with a connection of its own. Errors as of create_connection."""
        return sender_of(self._connect(replace(self._defaults, called="sender")))

    def _at(self, other: ConnectionFactory) -> ConnectionFactory:
        """With these settings at the cluster of the other one, with its properties and its namespace if it has any."""
        there, here = other._installation, self._installation
        namespace = there.config.namespace or here.config.namespace
        moved = replace(
            here,
            bootstrap=there.bootstrap,
            client_settings=there.client_settings or here.client_settings,
            config=replace(here.config, namespace=namespace),
        )
        return _made_again(other._scheme, moved, replace(self._defaults, url=other._defaults.url), store=self._store)

    def _with_own_folder(self, name: str) -> ConnectionFactory:
        """With folders of its own in the state folder and in the store, if it has any: two processes share neither."""
        folder = self._installation.state_dir
        own = None if folder is None else os.path.join(folder, name)  # noqa: PTH118 - as it was written
        store = self._store
        if store is not None:
            store = replace(store, folder=os.path.join(store.folder, name))  # noqa: PTH118 - as it was written
        return _made_again(self._scheme, replace(self._installation, state_dir=own), self._defaults, store=store)

    def _connect(self, defaults: ConnectionDefaults) -> Connection:
        return Connection(self._open_provider(), defaults)

    def _as_user(self, username: str | None, password: str | None) -> Installation:
        """The installation, where the server is to know the client as this user."""
        given = {"sasl.username": username, "sasl.password": password}
        for name, value in given.items():
            _check_type(name.removeprefix("sasl."), value, str, "a str, or None")
        settings = {**self._installation.client_settings, **{k: v for k, v in given.items() if v is not None}}
        return replace(self._installation, client_settings=settings)

    def _open_provider(self) -> Provider:
        if self._store is None:
            return self._provider.connect(self._installation)
        storing = import_module("jbm_kafka.store_and_forward.storing")  # RocksDB, for those who store
        made = storing.connect_storing(
            self._provider, self._installation, self._store, is_near=self._scheme == "memory"
        )
        return cast(Provider, made)


def _made_again(
    scheme: str,
    installation: Installation,
    defaults: ConnectionDefaults,
    kind: type[ConnectionFactory] = ConnectionFactory,
    store: StoreSettings | None = None,
) -> ConnectionFactory:
    factory = kind.__new__(kind)
    factory._scheme, factory._installation, factory._defaults = scheme, installation, defaults
    factory._store = store
    factory._provider = _provider(scheme)
    return factory


def _provider(scheme: str) -> ProviderModule:
    """Return what serves a URL's scheme. By name: nothing here needs what only one of them needs."""
    return cast(ProviderModule, import_module(PROVIDERS[scheme]))


def _address(url: str) -> tuple[str, str]:
    """Scheme, and what it is about: brokers as `host:port,…`, or the name of a world in memory."""
    scheme, _, rest = plain_text(url).partition("://") if isinstance(url, str) else ("", "", "")
    if scheme == "memory":
        return scheme, rest
    if scheme in _AMQP:
        if "@" in rest:
            rule = "give user and password to create_connection(username, password), or as kafka={'sasl.username': …}"
            raise wrong_value("url", without_credentials(url), rule)
        port = 5671 if scheme == "amqps" else 5672
        named = [each if re.search(r":\d+$", each) else f"{each}:{port}" for each in rest.rstrip("/").split(",")]
        return scheme, checked_bootstrap("url", ",".join(named))
    if isinstance(url, str) and url.lower().startswith("memory:"):
        raise wrong_value("url", url, f"write memory://{shown_name(url[len('memory:') :].lstrip('/'))}")
    return "kafka", checked_bootstrap("url", url)


def _folder(name: str, given: object, left_out: str) -> str | None:
    """The path of a folder as text. `left_out`: what leaving it out means.

    Raises:
        InvalidSettingError: it cannot be a folder's path, or is that of a file.
    """
    if given is None:
        return None
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str):
        raise wrong_type(name, given, "it is the path of a folder as a str or a Path, or None")
    if not path or "\0" in path:
        raise wrong_value(name, given, f"it is the path of a folder; leave it out for {left_out}")
    if not os.path.isdir(path) and os.path.exists(path):  # noqa: PTH110, PTH112 - as it was written
        raise wrong_value(name, given, "it is a file; name a folder, which is made if it is not there")
    return plain_text(path)


def _store_settings(folder: object, given: Mapping[str, Any], scheme: str) -> StoreSettings | None:
    """Return what is said of the store beside the sender; None: there is none.

    Raises:
        InvalidSettingError: a value cannot be, or is of a store that is not there.
    """
    path = _folder("store_and_forward", folder, "sends that go to Kafka at once")
    said = {name: _CHECKS[name](name, value) for name, value in given.items() if value is not UNSET}
    if path is None:
        if said:
            name, value = next(iter(said.items()))
            raise InvalidSettingError(
                f"{name} is {value!r}, and there is no store: give store_and_forward=FOLDER too, or leave it out",
                setting=name,
                value=value,
            )
        return None
    if scheme in _AMQP:
        rule = "a sidecar has the store: give store_and_forward in its file, and leave it out here"
        raise InvalidSettingError(f"store_and_forward: {rule}", setting="store_and_forward")
    usual = StoreLimits()
    limits = StoreLimits(said.get("store_bytes_max", usual.bytes_max), said.get("store_age_max_ms", usual.age_max_ms))
    return StoreSettings(path, said.get("store_fsync", True), limits)


def checked_namespace(value: str) -> str:
    """The namespace, if it can be that of our topics and groups.

    Raises:
        InvalidSettingError: it cannot.
    """
    _check_type("namespace", value, str, "a str, '' for none", may_be_none=False)
    try:
        with_namespace("jbm.registry", plain_text(value))
    except InvalidDestinationError as fault:
        raise InvalidSettingError(str(fault), setting="namespace", value=value) from None
    return plain_text(value)


def _check_type(name: str, value: object, wanted: type, what: str, *, may_be_none: bool = True) -> None:
    if not isinstance(value, wanted) and not (may_be_none and value is None):
        raise wrong_type(name, value, f"it is {what}")


def _unit(value: object) -> str | UnitMarker | None:
    if value is None or value is SYSTEM_GENERATED:
        return value
    if isinstance(value, str) and value:
        return recorded_text("default_unit_of_order", value)
    wrong = wrong_value if isinstance(value, str | UnitMarker) else wrong_type
    raise wrong("default_unit_of_order", value, "it is a str that is not empty, SYSTEM_GENERATED or None")


def _address_settings(_: str, given: Any) -> Mapping[str, AddressSettings]:
    taken = {}
    for pattern, settings in given.items():
        taken[checked_pattern(pattern)] = settings
        if not isinstance(settings, AddressSettings):
            raise wrong_type(
                f"address_settings[{shown(pattern)}]",
                settings,
                "it is an AddressSettings(…); AddressSettings.from_mapping(a_dict) makes one",
            )
    return taken


def _whole_from(least: int, most: int, unit: str) -> Callable[[str, object], int]:
    return lambda name, value: checked_int(name, value, least, most, unit)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    **{name: _whole_from(*within) for name, within in RANGES.items()},
    "address_settings": _address_settings,
    "persist_delivery_count_before_delivery": checked_flag,
    "auto_create": checked_flag,
    "store_fsync": checked_flag,
}
"""The settings of a sidecar and of a store: what each may be."""
