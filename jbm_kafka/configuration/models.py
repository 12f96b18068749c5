"""The model of `jbm-kafka.toml`: its tables and keys, and of what kind each is.

What a value means to Kafka, to a connection factory or to the AMQP server is checked where it is used, by the rules
that hold for arguments.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.networks import IPvAnyNetwork

from jbm_kafka.configuration.flat_properties import flat_properties
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.sentinels import SYSTEM_GENERATED
from jbm_kafka.core.settings.address_pattern import pattern_of_people
from jbm_kafka.core.settings.address_settings import SETTING_NAMES, AddressSettings
from jbm_kafka.core.settings.setting_rules import TYPES
from jbm_kafka.core.wrong_values import did_you_mean
from jbm_kafka.ports.connection_ranges import RANGES


def _no_flag(value: object) -> object:
    """Refuses true and false, which are numbers to Python alone."""
    if isinstance(value, bool):
        raise ValueError("it is a number")  # noqa: TRY004 - Pydantic gathers these alone
    return value


def _within(name: str) -> Any:
    """The range that the argument of a connection factory has."""
    return Field(ge=RANGES[name].least, le=RANGES[name].most)


def _tls_table(value: object) -> object:
    return {True: {}, False: None}.get(value, value) if isinstance(value, bool) else value


def _known_limits(table: dict[str, Any]) -> dict[str, Any]:
    known = [each.name for each in fields(Limits)]
    for name in table:
        if name not in known:
            raise InvalidSettingError(f"{name}: there is no such limit{did_you_mean(name, known)}")
    return table


def address_settings_of(table: Mapping[str, object]) -> AddressSettings:
    """The settings of a pattern. TOML has no word for nothing: an empty text says that, as in `settings set`.

    Raises:
        InvalidSettingError: a name or a value that cannot be.
    """
    return AddressSettings.from_mapping({name: _setting(name, value) for name, value in table.items()})


def _setting(name: str, value: object) -> object:
    types = TYPES.get(name, ())
    if value == "" and type(None) in types:
        return None
    return SYSTEM_GENERATED if type(SYSTEM_GENERATED) in types and value == SYSTEM_GENERATED.value else value


def _checked_settings(table: dict[str, Any]) -> dict[str, Any]:
    wrong = []
    for name, value in table.items():
        try:
            address_settings_of({name: value})
        except InvalidSettingError as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidSettingError("\n".join(wrong))  # a line each: pydantic takes one error of a validator
    address_settings_of(table)  # what does not fit together
    return table


_NO_FLAG = BeforeValidator(_no_flag)
Seconds = Annotated[float, Field(ge=0, le=86_400), _NO_FLAG]
Port = Annotated[int, Field(ge=0, le=65_535), _NO_FLAG]
Count = Annotated[int, Field(ge=1), _NO_FLAG]
Pattern = Annotated[str, AfterValidator(pattern_of_people)]
Text = Annotated[str, Field(min_length=1)]
_SETTINGS_SCHEMA = {"propertyNames": {"enum": list(SETTING_NAMES)}}
_LIMITS_SCHEMA = {"propertyNames": {"enum": [each.name for each in fields(Limits)]}}


class Table(BaseModel):
    """A table of the file; a key that it does not know is a mistake."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True, validate_default=False
    )


class Tls(Table):
    """TLS to the cluster, by PEM files; paths begin at the file's folder."""

    ca: Text | None = None
    """The authority that signed the brokers' certificates; without it those that the system knows."""
    certificate: Text | None = None
    """The certificate of this client."""
    key: Text | None = None
    """The key of that certificate."""
    key_password: SecretStr | None = None
    """The password of that key."""


class LoginTable(Table):
    """Who programs are to the cluster (SASL)."""

    user: Text
    """Their name there."""
    password: SecretStr | None = None
    """In a file that others cannot read; or JBM_KAFKA_SASL_PASSWORD."""
    password_file: Text | None = None
    """A file that has the password alone, such as a mounted secret."""
    mechanism: Text = "SCRAM-SHA-512"
    """SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN."""


class ClusterTable(Table):
    """A Kafka cluster, and who programs are there."""

    bootstrap: str | None = None
    """HOST:PORT, several with commas; for programs also memory://NAME, amqp://HOST:PORT."""
    namespace: str | None = None
    """Prefix of everything of ours, so that installations share a cluster; none."""
    tls: Annotated[Tls | None, BeforeValidator(_tls_table, json_schema_input_type=bool | Tls | None)] = None
    """`ca`, `certificate`, `key`, `key_password`: PEM files, from the file's folder on; or true."""
    login: LoginTable | None = None
    """`user`; `password` or `password_file`; `mechanism`: SCRAM-SHA-512, or another that docs/security.md names."""
    large_bodies: Annotated[Text | None, Field(repr=False)] = None
    """The URL of the store of bodies that are too large for Kafka, as in s3://shop-bodies: docs/large-bodies.md."""
    kafka: Annotated[
        dict[str, str],
        BeforeValidator(flat_properties, json_schema_input_type=dict[str, Any]),
    ] = Field(default_factory=dict, repr=False)
    """Any other property of librdkafka (docs/settings.md#properties-of-librdkafka); it wins over `tls` and `login`."""


class ConnectionTable(Table):
    """Arguments of a ConnectionFactory: docs/settings.md."""

    client_id: Text | None = None
    state_dir: Text | None = None
    """From the file's folder on."""
    default_unit_of_order: Text | None = None
    auto_create: bool | None = None
    memory_budget_bytes: Annotated[int, _within("memory_budget_bytes"), _NO_FLAG] | None = None
    session_timeout_ms: Annotated[int, _within("session_timeout_ms"), _NO_FLAG] | None = None
    revoke_drain_ms: Annotated[int, _within("revoke_drain_ms"), _NO_FLAG] | None = None
    membership_idle_ms: Annotated[int, _within("membership_idle_ms"), _NO_FLAG] | None = None
    receiver_idle_ms: Annotated[int, _within("receiver_idle_ms"), _NO_FLAG] | None = None
    checkpoint_interval_ms: Annotated[int, _within("checkpoint_interval_ms"), _NO_FLAG] | None = None
    record_timeout_ms: Annotated[int, _within("record_timeout_ms"), _NO_FLAG] | None = None
    commit_timeout_ms: Annotated[int, _within("commit_timeout_ms"), _NO_FLAG] | None = None
    block_on_acknowledge: bool | None = None
    persist_delivery_count_before_delivery: bool | None = None
    prefetch: Annotated[int, _within("prefetch"), _NO_FLAG] | None = None
    large_body_bytes: Annotated[int, Field(ge=0), _NO_FLAG] | None = None
    """How large a body stays in its record, with `large_bodies`."""
    store_and_forward: Text | None = None
    """Where sends are stored and forwarded from, from the file's folder on: docs/store-and-forward.md."""
    store_fsync: bool | None = None
    store_bytes_max: Annotated[int, _within("store_bytes_max"), _NO_FLAG] | None = None
    store_age_max_ms: Annotated[int, _within("store_age_max_ms"), _NO_FLAG] | None = None


class DestinationsTable(Table):
    """Queues and topics that must exist: `jbm-kafka provision` makes them (docs/provision.md)."""

    queues: list[str] = Field(default_factory=list)
    """NAME, or NAME:PARTITIONS."""
    topics: list[str] = Field(default_factory=list)
    """The same."""
    letters: list[str] = Field(default_factory=list)
    """Dead-letter and expiry addresses; without any the namespace's own."""
    roles: list[str] = Field(default_factory=list)
    """ROLE:PRINCIPAL, as in worker:User:app."""
    partitions: Annotated[int, Field(ge=1, le=10_000), _NO_FLAG] | None = None
    events_partitions: Count | None = None
    max_message_bytes: Count | None = None
    replication: Annotated[int, Field(ge=1, le=32_767), _NO_FLAG] | None = None
    min_isr: Annotated[int, Field(ge=1, le=32_767), _NO_FLAG] | None = None


class WorkerTable(Table):
    """A worker that `jbm-kafka run NAME` runs, and `jbm-kafka run MODULE:NAME` of its target."""

    target: Text
    """MODULE:NAME of a Worker, or of a function that is called with each message of `queue`."""
    queue: Text | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000), _NO_FLAG] | None = None
    """With `queue`."""
    processes: Annotated[int, Field(ge=1, le=1_000), _NO_FLAG] | None = None
    drain_s: Seconds | None = None
    metrics_port: Annotated[int, Field(ge=1, le=65_535), _NO_FLAG] | None = None


class BridgeEndTable(Table):
    """Where a bridge's messages come from, or go to."""

    destination: Text
    """A queue's name, or topic:NAME."""
    cluster: Text | None = None
    """Which of `clusters`, one with amqp:// as its bootstrap too; none: the cluster in use."""
    namespace: str | None = None
    """In place of the cluster's."""
    subscription: Text | None = None
    """Of a topic as source: the durable subscription; none: called as the bridge."""
    duplicate_property: Text | None = None
    """Of an AMQP server as target: by which it drops duplicates, as _AMQ_DUPL_ID of Artemis."""
    address: Text | None = None
    """Of an AMQP server: what it calls the destination, such as /amq/queue/orders; none: as the destination."""


class BridgeTable(Table):
    """What `jbm-kafka bridge` takes from one place to another: docs/bridge.md#as-a-command."""

    source: BridgeEndTable
    target: BridgeEndTable
    guarantee: Literal["exactly-once", "duplicates-okay", "at-most-once"] | None = None
    """None: the strongest that there is."""
    selector: Text | None = None
    """Which messages go, as in region = 'EU'."""
    rate: Text | None = None
    """How many may go, as in 100/s."""
    reply_to: Literal["keep", "drop"] | dict[str, str] = "keep"
    """Where answers go; or by where they go now where they are to go, empty for nowhere."""
    in_flight: Annotated[int, Field(ge=1, le=10_000), _NO_FLAG] | None = None
    """How many messages may be in hand."""
    lanes: Annotated[int, Field(ge=1, le=16), _NO_FLAG] | None = None
    """How many sessions work side by side within one cluster."""
    drain_s: Seconds | None = None


class UserTable(Table):
    """Who may come in, to the AMQP server (docs/amqp.md#users) and the console (docs/console.md#who-may); rights are
    patterns of names of destinations."""

    password: SecretStr | None = None
    """The line that `jbm-kafka sidecar user NAME` prints."""
    client_ids: list[str] | None = None
    """The client ids that the user may have, `*` for any text."""
    send: list[Pattern] | None = None
    receive: list[Pattern] | None = None
    browse: list[Pattern] | None = None
    create: list[Pattern] | None = None
    forward: list[Pattern] | None = None
    """For the other sidecars."""
    look: list[Pattern] | None = None
    """In the console."""
    operate: list[Pattern] | None = None
    """In the console."""


class ListenerTable(Table):
    """An address of the AMQP server; paths begin at the file's folder."""

    url: str
    """amqp://HOST:PORT, or amqps://HOST:PORT with a certificate."""
    certificate: Text | None = None
    key: Text | None = None
    client_ca: Text | None = None


class ForwardingTable(Table):
    """How the sidecars of a namespace reach each other."""

    advertised: Text
    """HOST:PORT."""
    user: Text
    password: SecretStr
    server_ca: Text | None = None


class AmqpTable(Table):
    """The AMQP server, `jbm-kafka sidecar run`: docs/amqp.md#what-the-file-may-have."""

    listeners: list[ListenerTable] | None = None
    limits: Annotated[dict[str, Any], AfterValidator(_known_limits), Field(json_schema_extra=_LIMITS_SCHEMA)] = Field(
        default_factory=dict
    )
    forwarding: ForwardingTable | None = None
    drain_s: Seconds | None = None
    verify_user_id: Literal["off", "check", "set"] = "off"
    counts_released: bool = False
    aliases: dict[str, Text] = Field(default_factory=dict)
    """Queues, or topic:NAME, by what clients call them, where no name of ours can be that."""
    plain_without_tls: bool = False
    metrics_port: Port | None = None
    console_port: Port | None = None
    """Serves the console, too, at the host of `console.listen`."""
    backlog_metrics: bool = False
    admin_port: Port | None = None


class TokenTable(Table):
    """A program that asks the console, as `jbm-kafka console --new-token NAME` prints it."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The SHA-256 digest of its token."""
    look: list[Pattern] = Field(default_factory=list)
    operate: list[Pattern] = Field(default_factory=list)


class TrustedProxyTable(Table):
    """A proxy that says in a header who the user is."""

    header: Annotated[str, Field(pattern="^[A-Za-z0-9-]+$")]
    networks: Annotated[list[IPvAnyNetwork], Field(min_length=1)]
    """From which it speaks, as in 10.0.0.0/8."""


class ConsoleTable(Table):
    """The console: docs/console.md#who-may. `[users]` says who may come in."""

    listen: Text = "127.0.0.1:8161"
    """HOST:PORT; 127.0.0.1:8161. Another address than this machine's needs users, and a certificate."""
    certificate: Text | None = None
    """A PEM file, its chain, from the file's folder on, as the next; without it no TLS."""
    key: Text | None = None
    """Its key, unless it is in the certificate's file."""
    plain_without_tls: bool = False
    """true where a proxy before it has the TLS."""
    read_only: bool = False
    """true: by this console nobody changes anything."""
    hosts: list[str] = Field(default_factory=list)
    """Names by which browsers reach it, others are refused; any, and without users those of this machine."""
    secret_file: Text | None = None
    """Has 32 random bytes or more, which sign the cookies: the same for several consoles behind one address. Without it
    a restart logs all out."""
    schema_registry: Text | None = None
    """Its address: bodies that its serializers wrote are shown as Avro, JSON or Protobuf; without it as bytes."""
    schema_registry_user: Text | None = None
    """The user there."""
    schema_registry_password: SecretStr | None = None
    """The user's password."""
    proxy: TrustedProxyTable | None = None
    """Single sign-on: a proxy with an address of these `networks` says in the `header` which user asks, as `header =
    "X-Remote-User"`, `networks = ["10.0.0.0/24"]`."""
    tokens: dict[str, TokenTable] = Field(default_factory=dict)
    """Programs, with `sha256`, `look` and `operate`; `jbm-kafka console --new-token NAME` prints the lines."""


class ExporterTable(Table):
    """`jbm-kafka exporter`."""

    port: Port = 9_108


class FileTables(ClusterTable):
    """All of the file; `bootstrap` and what stands beside it are the one cluster that has no name."""

    cluster: Text | None = None
    """Which of `clusters` is used."""
    clusters: dict[str, ClusterTable] = Field(default_factory=dict)
    connection: ConnectionTable = ConnectionTable()
    address_settings: dict[
        Pattern,
        Annotated[dict[str, Any], AfterValidator(_checked_settings), Field(json_schema_extra=_SETTINGS_SCHEMA)],
    ] = Field(default_factory=dict)
    """Settings by pattern of names."""
    destinations: DestinationsTable = DestinationsTable()
    workers: dict[str, WorkerTable] = Field(default_factory=dict)
    bridges: dict[str, BridgeTable] = Field(default_factory=dict)
    users: dict[str, UserTable] = Field(default_factory=dict)
    amqp: AmqpTable = AmqpTable()
    console: ConsoleTable = ConsoleTable()
    exporter: ExporterTable = ExporterTable()
