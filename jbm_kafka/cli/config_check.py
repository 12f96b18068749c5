"""All that is wrong with a configuration: its form, and what its values mean to those that use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from jbm_kafka.bridge import Bridge
from jbm_kafka.cli.cluster_settings import OPTIONS, Cluster, SettingsFault, settle
from jbm_kafka.cli.connect import factory_of
from jbm_kafka.cli.provision_command import wish_of
from jbm_kafka.cli.sidecar_file import server_of, users_of
from jbm_kafka.configuration.loaded import ConfigurationError, Loaded, load
from jbm_kafka.configuration.local_cluster import FALLBACK_BOOTSTRAP
from jbm_kafka.configuration.value_places import PREFIX, Configuration
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError, JMSError
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.worker.loading import TargetError, parts_of

_OTHERS = ("KAFKA", "CONFIG", "HOME", "CACHE", "PURE", "TRACEBACK", "TEST", "SPARK")
"""Beginnings of variables that are no settings of the configuration."""


def config_faults(path: str | None, arguments: Mapping[str, Any]) -> tuple[list[str], Loaded | None]:
    """Returns a line for each wrong value, and the configuration if it could be loaded."""
    lines = list(_misspelt_variables(os.environ))
    try:
        loaded = load(path, arguments=arguments, names=OPTIONS)
    except ConfigurationError as error:
        found: Any = error.values["lines"]
        return [*lines, *found], None
    of_clusters = []
    if loaded.unclear and loaded.tables.cluster is not None:
        of_clusters.append(loaded.unclear)
    elif not loaded.unclear:
        of_clusters += _of_cluster(loaded)
    for name in loaded.tables.clusters:
        of_clusters += _of_cluster(load(path, arguments={**arguments, "cluster": name}, names=OPTIONS))
    lines += of_clusters
    lines += _of_tables(loaded)
    lines += _of_console(loaded)
    if not of_clusters:  # a bridge would tell again what is wrong with its ends' clusters
        lines += _of_bridges(loaded, arguments)
    return list(dict.fromkeys(lines)), loaded


def _of_cluster(loaded: Loaded) -> Iterator[str]:
    try:
        if (loaded.tables.bootstrap or "").startswith("amqp"):
            _check_server(loaded)
            return
        cluster = settle(loaded.cluster(), FALLBACK_BOOTSTRAP, makes_world=True)
        said = loaded.factory_arguments()
        others = said.keys() - {"url", "namespace", "kafka", "large_bodies"}
        factory_of(cluster, **{name: said[name] for name in others})
    except (SettingsFault, JMSError) as fault:
        yield str(fault)


def _check_server(loaded: Loaded) -> None:
    """Raises InvalidSettingError: what leads to an AMQP server cannot be; `connection` is of clusters of Kafka."""
    said = loaded.factory_arguments()
    try:
        ConnectionFactory(said["url"], kafka=said.get("kafka"))
    except InvalidSettingError as error:
        raise loaded.placed(error) from None


def _of_tables(loaded: Loaded) -> Iterator[str]:
    tables = loaded.tables
    if tables.amqp.model_fields_set:
        try:
            server_of(loaded)
        except JMSError as error:
            yield str(error)
    try:
        wish_of(tables.destinations, tables.namespace or "")
    except (SettingsFault, JMSError) as error:
        yield f"{loaded.path or 'destinations'}: {error}"
    for name, worker in tables.workers.items():
        where = loaded.origin("workers", name, "queue")
        try:
            if worker.queue is not None:
                destination_at(worker.queue)
        except InvalidDestinationError as error:
            yield f"{where} is {shown(worker.queue)}: {error}"
        try:
            parts_of(worker.target)
        except TargetError as error:
            yield f"{loaded.origin('workers', name, 'target')}: {error}"
        if worker.concurrency is not None and worker.queue is None:
            where = loaded.origin("workers", name, "concurrency")
            yield f"{where}: it goes with queue; a Worker's handlers have their own"


def _of_console(loaded: Loaded) -> Iterator[str]:
    """Yields what is wrong with users and console, as far as a console can run here."""
    where = "" if loaded.path is None else f"{loaded.path}: "
    checks: list[Callable[[], object]] = [lambda: users_of(loaded.tables.users)]
    if loaded.tables.console.model_fields_set:
        with suppress(ImportError):
            from jbm_kafka.cli.console_file import address_of, console_of

            checks += [lambda: address_of(loaded), lambda: console_of(loaded, Cluster(FALLBACK_BOOTSTRAP))]
            if registry := loaded.tables.console.schema_registry:
                from jbm_kafka.console.frame.registry_schemas import RegistrySchemas

                checks.append(lambda: RegistrySchemas(registry))
    for check in checks:
        try:
            check()
        except InvalidSettingError as error:
            yield f"{where}{error}"
        except SettingsFault as fault:  # it has the place
            yield str(fault)


def _of_bridges(loaded: Loaded, arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in loaded.tables.bridges:
        try:
            Bridge._of_file(loaded, name, arguments)
        except JMSError as error:
            yield str(error)


def _misspelt_variables(environment: Mapping[str, str]) -> Iterator[str]:
    known = [PREFIX + name.upper() for name in Configuration.model_fields]
    for variable in environment:
        name = variable.partition("__")[0]
        is_ours = name.startswith(PREFIX) and not name.removeprefix(PREFIX).startswith(_OTHERS)
        near = get_close_matches(name, known, n=1, cutoff=0.8)
        if is_ours and name.upper() not in known and near:
            yield f"{variable}: there is no such variable; did you mean {near[0]}?"
