"""The cluster that a command speaks to, and credentials: from its options, the environment and a file, in this order.

Each name is looked up on its own: what the option does not say the environment may, and then the file. Every value
remembers where it came from, so that an error names that place. Secrets are values too: of `kafka` no text
here repeats any but a number and a switch.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jbm_kafka.admin.cluster.administered import IN_MEMORY
from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.kafka.settings import CONTROLLED, check_client_settings

CONFIG_VARIABLE = "JBM_CONFIG"
BOOTSTRAP_VARIABLE = "JBM_BOOTSTRAP"
NAMESPACE_VARIABLE = "JBM_NAMESPACE"
KAFKA_VARIABLES = "JBM_KAFKA_"
"""`JBM_KAFKA_SASL_PASSWORD` is `sasl.password`: no property of librdkafka that is a text has an underscore."""

_SECRET = re.compile(r"password|passphrase|secret|key\.pem|sasl\.oauthbearer\.config")
CLUSTER_KEYS = ("bootstrap", "namespace", "kafka")
_ADDRESSES = ("bootstrap.servers", "metadata.broker.list")


class SettingsFault(Exception):
    """One line that names the place, the name and the remedy."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, as options, environment and file name it."""

    bootstrap: str
    """`host:port`, several with commas."""
    namespace: str = ""
    """Of the installation; "" for none."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """librdkafka properties, checked; some are secrets."""
    is_named: bool = True
    """False when nobody said which, and `bootstrap` is the local one."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value as text, and where it was given."""

    value: str = field(repr=False)
    origin: str
    """As a message begins: `--namespace`, `JBM_NAMESPACE`, `/etc/jbm.toml, namespace`."""


@dataclass(frozen=True, slots=True)
class Source:
    """What one of options, environment and file says; None and absent: nothing."""

    bootstrap: Given | None = None
    namespace: Given | None = None
    kafka: Mapping[str, Given] = field(default_factory=dict)


def from_options(bootstrap: str | None, namespace: str | None, properties: Iterable[str]) -> Source:
    """What the command line says; of a property that is given twice the last one holds.

    Raises:
        SettingsFault: a property without `=`.
    """
    kafka = {}
    for each in properties:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            # Not what was given: it may be a secret whose name was forgotten.
            raise SettingsFault("--kafka-property: write KEY=VALUE, for example security.protocol=SASL_SSL")
        kafka[name.strip()] = Given(value, f"--kafka-property {name.strip()}")
    return Source(_given(bootstrap, "--bootstrap"), _given(namespace, "--namespace"), kafka)


def from_environment(environment: Mapping[str, str]) -> Source:
    """What the environment says; an empty variable says nothing."""
    kafka = {
        variable.removeprefix(KAFKA_VARIABLES).lower().replace("_", "."): Given(value, variable)
        for variable, value in environment.items()
        if variable.startswith(KAFKA_VARIABLES) and value
    }
    return Source(
        _given(environment.get(BOOTSTRAP_VARIABLE) or None, BOOTSTRAP_VARIABLE),
        _given(environment.get(NAMESPACE_VARIABLE) or None, NAMESPACE_VARIABLE),
        kafka,
    )


def environment_of(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process of ours that uses this cluster; arguments would be readable by everybody.

    A property with an underscore does not come along; librdkafka has one that a user can set, `log_level`.
    """
    others = {name: value for name, value in environment.items() if not name.startswith(KAFKA_VARIABLES)}
    kafka = {
        KAFKA_VARIABLES + name.upper().replace(".", "_"): value
        for name, value in cluster.kafka.items()
        if "_" not in name
    }
    ours = {
        CONFIG_VARIABLE: os.devnull,
        BOOTSTRAP_VARIABLE: cluster.bootstrap,
        NAMESPACE_VARIABLE: cluster.namespace,
    }
    return {**others, **kafka, **ours}


def cluster_of_environment(environment: Mapping[str, str]) -> Cluster:
    """The cluster that `environment_of` put into the environment.

    Raises:
        SettingsFault: a value there is wrong.
    """
    return settle([from_environment(environment)], "")


def config_path(option: str | None, environment: Mapping[str, str]) -> Path | None:
    """The file to read: the named one, else the user's usual one if it is there, else none."""
    named = option if option is not None else environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser()
    if named is not None and option is not None:  # --config '' : no file, not even the usual one
        return None
    usual = usual_config_path(environment)
    return usual if usual.is_file() else None


def usual_config_path(environment: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/jbm-kafka/config.toml`, and without the variable the same under `~/.config`."""
    folder = environment.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "jbm-kafka" / "config.toml"


def from_file(path: Path) -> Source:
    """What the file says.

    Raises:
        SettingsFault: it cannot be read, is not TOML, or says something that means nothing here.
    """
    content = read_toml(path)
    for key in content.keys() - set(CLUSTER_KEYS):
        raise SettingsFault(f"{path}: {key!r} is not known; a config file has bootstrap, namespace and, for Kafka's "
                            "own properties, a table [kafka]")  # fmt: skip
    return from_content(content, path)


def read_toml(path: Path) -> dict[str, Any]:
    """What a file has. Raises SettingsFault when it cannot be read or is not TOML."""
    try:
        # Some editors put a mark of three bytes before the text.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsFault(f'{path}: it is not TOML: {error}; write NAME = "VALUE" lines') from None
    except UnicodeDecodeError:
        raise SettingsFault(f"{path}: it is not UTF-8 text; write it as TOML") from None
    except OSError as error:
        raise SettingsFault(f"{path}: {error.strerror}; name a config file that can be read") from None


def from_content(content: Mapping[str, Any], path: Path) -> Source:
    """What a file's content says of the cluster. Raises SettingsFault when that means nothing."""
    table = content.get("kafka", {})
    if not isinstance(table, dict):
        raise SettingsFault(f"{path}: kafka is not a table; write [kafka] and the properties below it")
    kafka = {name: Given(value, f"{path}, {name}") for name, value in _flat(table, path)}
    return Source(_text(content, "bootstrap", path), _text(content, "namespace", path), kafka)


def secrets_for_all_to_read(path: Path, source: Source) -> list[str]:
    """The names of the secrets in a file that every user of the machine can read; none when not."""
    if not path.stat().st_mode & stat.S_IROTH:
        return []
    return sorted(name for name in source.kafka if is_secret(name))


def is_secret(name: str) -> bool:
    """Whether nobody should read the property's value."""
    return _SECRET.search(name) is not None


def settle(sources: Iterable[Source], otherwise: str, *, makes_world: bool = False) -> Cluster:
    """The cluster that the sources name, the first before the later ones; `otherwise` is its address without any.

    `makes_world`: a memory:// world need not be there yet.

    Raises:
        SettingsFault: an address, a namespace or a property that cannot be.
    """
    bootstrap = namespace = None
    kafka: dict[str, Given] = {}
    for source in sources:
        bootstrap = bootstrap or source.bootstrap
        namespace = namespace or source.namespace
        kafka = {**source.kafka, **kafka}
    return Cluster(
        bootstrap=otherwise if bootstrap is None else _checked_bootstrap(bootstrap, makes_world=makes_world),
        namespace="" if namespace is None else _checked_namespace(namespace),
        kafka=_checked_kafka(kafka),
        is_named=bootstrap is not None,
    )


def _checked_bootstrap(given: Given, *, makes_world: bool) -> str:
    if given.value.startswith(IN_MEMORY):
        from jbm_kafka.providers.in_memory import worlds  # what it loads no command needs for a cluster's name

        if not makes_world and given.value.removeprefix(IN_MEMORY) not in worlds():
            raise SettingsFault(
                f"{given.origin} is {given.value!a}: there is no such world in this process, and no other can be "
                f"reached; name a cluster, as in 'localhost:9092'"
            )
        return given.value
    try:
        return checked_bootstrap(given.origin, given.value)
    except InvalidSettingError as error:
        raise SettingsFault(str(error)) from None


def _checked_namespace(given: Given) -> str:
    try:
        with_namespace("jbm.registry", given.value)
    except InvalidDestinationError as error:
        raise SettingsFault(f"{given.origin} is {given.value!a}: {str(error).partition(': ')[2]}") from None
    return given.value


def _checked_kafka(kafka: Mapping[str, Given]) -> dict[str, str]:
    for name in sorted(CONTROLLED.keys() & kafka.keys()):
        why = "--bootstrap or JBM_BOOTSTRAP gives it" if name in _ADDRESSES else CONTROLLED[name]
        raise SettingsFault(f"{_place(name, kafka)} cannot be set: {why}; leave it out")
    for name in kafka:
        if not is_utf8(name + kafka[name].value):
            raise SettingsFault(f"{_place(name, kafka)} is not UTF-8; write it in that encoding")
    properties = {name: given.value for name, given in kafka.items()}
    try:
        check_client_settings(properties)
    except InvalidSettingError as error:
        names: Any = error.values["names"]
        if len(names) == 1 and names[0] in kafka:
            value = f" is {shown(error.values['value'])}" if "value" in error.values else ""
            raise SettingsFault(f"{_place(names[0], kafka)}{value}: {str(error).partition(': ')[2]}") from None
        raise SettingsFault(f"Kafka's properties: {error}") from None
    return properties


def is_utf8(text: str) -> bool:
    """False for what a shell gave in another encoding: Python has lone surrogates for such bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(name: str, kafka: Mapping[str, Given]) -> str:
    origin = kafka[name].origin
    return origin if name in origin else f"{origin} ({name})"


def _given(value: str | None, origin: str) -> Given | None:
    return None if value is None else Given(value, origin)


def _text(content: Mapping[str, Any], key: str, path: Path) -> Given | None:
    value = content.get(key)
    if value is None or isinstance(value, str):
        return _given(value, f"{path}, {key}")
    raise SettingsFault(f'{path}: {key} is of type {type(value).__name__}, not a text; write {key} = "..."')


def _flat(table: Mapping[str, Any], path: Path, before: str = "") -> Iterable[tuple[str, str]]:
    """The properties of a table; `sasl.mechanism = ...` without quotes is a table in a table to TOML."""
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(value, path, f"{name}.")
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, str | int | float):
            yield name, str(value)
        else:
            raise SettingsFault(f"{path}: {name} is a {type(value).__name__}; write a text, a number, true or false")
