"""The cluster that a command speaks to, and credentials, as the configuration has them, checked.

Secrets are values too: of `kafka` no text here repeats any but a number and a switch.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jbm_kafka.admin.cluster.administered import IN_MEMORY
from jbm_kafka.configuration.file import CONFIG_VARIABLE
from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.kafka.settings import CONTROLLED, check_client_settings

if TYPE_CHECKING:
    from jbm_kafka.configuration.loaded import Told, ToldCluster

BOOTSTRAP_VARIABLE = "JBM_BOOTSTRAP"
NAMESPACE_VARIABLE = "JBM_NAMESPACE"
CLUSTER_VARIABLE = "JBM_CLUSTER"
LARGE_BODIES_VARIABLE = "JBM_LARGE_BODIES"
KAFKA_VARIABLES = "JBM_KAFKA_"
"""`JBM_KAFKA_SASL_PASSWORD` is `sasl.password`: no property of librdkafka that is a text has an underscore."""

_ADDRESSES = ("bootstrap.servers", "metadata.broker.list")


class SettingsFault(Exception):
    """One line that names the place, the name and the remedy."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, as options, environment and file name it."""

    bootstrap: str
    """`host:port`, several with commas."""
    namespace: str = ""
    """The namespace of the installation; "" for none."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """librdkafka properties, checked; some are secrets."""
    is_named: bool = True
    """False when nobody said which, and `bootstrap` is the local one."""
    large_bodies: str | None = field(default=None, repr=False)
    """The URL of the store of large bodies, which may have a password; None: there is none."""


def as_arguments(
    bootstrap: str | None = None,
    namespace: str | None = None,
    properties: Iterable[str] = (),
    cluster: str | None = None,
) -> dict[str, Any]:
    """Returns what the command line says, by the keys of the configuration.

    Of a property that is given twice the last one holds.

    Raises:
        SettingsFault: a property without `=`.
    """
    kafka = {}
    for each in properties:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            # Not what was given: it may be a secret whose name was forgotten.
            raise SettingsFault("--kafka-property: write KEY=VALUE, for example security.protocol=SASL_SSL")
        kafka[name.strip()] = value
    said = {"bootstrap": bootstrap, "namespace": namespace, "cluster": cluster, "kafka": kafka or None}
    return {name: value for name, value in said.items() if value is not None}


OPTIONS = {
    "bootstrap": "--bootstrap",
    "namespace": "--namespace",
    "cluster": "--cluster",
    "kafka": "--kafka-property {}",
}
"""How a message names what the command line says."""


def environment_of(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process of ours that uses this cluster; arguments would be readable by everybody.

    A property with an underscore does not come along; librdkafka has one that a user can set, `log_level`.
    """
    others = {
        name: value
        for name, value in environment.items()
        if not name.startswith(KAFKA_VARIABLES) and name != CLUSTER_VARIABLE
    }
    kafka = {
        KAFKA_VARIABLES + name.upper().replace(".", "_"): value
        for name, value in cluster.kafka.items()
        if "_" not in name
    }
    ours = {
        CONFIG_VARIABLE: os.devnull,
        BOOTSTRAP_VARIABLE: cluster.bootstrap,
        NAMESPACE_VARIABLE: cluster.namespace,
        LARGE_BODIES_VARIABLE: cluster.large_bodies or "",
    }
    return {**others, **kafka, **ours}


def cluster_of_environment(environment: Mapping[str, str]) -> Cluster:
    """The cluster that `environment_of` put into the environment.

    Raises:
        SettingsFault: a value there is wrong.
    """
    from jbm_kafka.configuration.loaded import load

    try:
        return settle(load(environment=environment, reads_file=False).cluster(), "")
    except InvalidSettingError as error:
        raise SettingsFault(str(error)) from None


def settle(told: "ToldCluster", otherwise: str, *, makes_world: bool = False) -> Cluster:
    """The cluster that was told; `otherwise` is its address where nobody told any.

    `makes_world`: a memory:// world need not be there yet.

    Raises:
        SettingsFault: an address, a namespace or a property that cannot be.
    """
    bootstrap, namespace = told.bootstrap, told.namespace
    return Cluster(
        bootstrap=otherwise if bootstrap is None else _checked_bootstrap(bootstrap, makes_world=makes_world),
        namespace="" if namespace is None else _checked_namespace(namespace),
        kafka=_checked_kafka(told.kafka),
        large_bodies=None if told.large_bodies is None else told.large_bodies.value,
        is_named=bootstrap is not None,
    )


def _checked_bootstrap(given: "Told", *, makes_world: bool) -> str:
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


def _checked_namespace(given: "Told") -> str:
    try:
        with_namespace("jbm.registry", given.value)
    except InvalidDestinationError as error:
        raise SettingsFault(f"{given.origin} is {given.value!a}: {str(error).partition(': ')[2]}") from None
    return given.value


def _checked_kafka(kafka: Mapping[str, "Told"]) -> dict[str, str]:
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


def _place(name: str, kafka: Mapping[str, "Told"]) -> str:
    origin = kafka[name].origin
    return origin if name in origin else f"{origin} ({name})"
