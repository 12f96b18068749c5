"""The options that name the cluster, the credentials and the namespace: the same for every command."""

import os
from collections.abc import Callable
from functools import wraps
from typing import IO, Any, TypeVar

import click

from jbm_kafka.cli.cluster_settings import (
    Cluster,
    SettingsFault,
    config_path,
    from_environment,
    from_file,
    from_options,
    secrets_for_all_to_read,
    settle,
)
from jbm_kafka.cli.wrong_usage import usage_text
from jbm_kafka.devbroker import LocalBroker

FALLBACK_BOOTSTRAP = "127.0.0.1:9092"

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ClusterUsageError(click.UsageError):
    """Wrong usage whose place may be a file or the environment: the program has it, not the command."""

    def __init__(self, message: str) -> None:
        context = click.get_current_context(silent=True)
        super().__init__(message, None if context is None else context.find_root())

    def show(self, file: IO[Any] | None = None) -> None:
        """The line, on standard error, also where click itself runs the command."""
        click.echo(usage_text(self, "jbm-kafka"), err=True, file=file)


def cluster_options(function: _Function) -> _Function:
    """`--bootstrap`, `--namespace`, `--kafka-property`, `--config`; the command is called with `cluster`, a Cluster.

    Wrong ones are a ClusterUsageError, exit code 2, before the command begins.
    """

    @_option("--config", metavar="FILE", help="TOML file with these settings. "
             "[JBM_CONFIG; else ~/.config/jbm-kafka/config.toml if it is there]")  # fmt: skip
    @_option("--kafka-property", metavar="KEY=VALUE", multiple=True,
             help="A property of Kafka's client (librdkafka), again for more; secrets rather in the file or in "
             "JBM_KAFKA_SASL_PASSWORD. [JBM_KAFKA_<KEY>; else the file's]")  # fmt: skip
    @_option("--namespace", metavar="NAME", help="The installation's namespace. [JBM_NAMESPACE; else the file's]")
    @_option("--bootstrap", metavar="HOST:PORT", help="Kafka's address. [JBM_BOOTSTRAP; else the file's; "
             "else the running local broker's, else 127.0.0.1:9092]")  # fmt: skip
    @wraps(function)
    def with_cluster(
        *arguments: Any,
        bootstrap: str | None,
        namespace: str | None,
        kafka_property: tuple[str, ...],
        config: str | None,
        **options: Any,
    ) -> Any:
        cluster = _cluster(bootstrap, namespace, kafka_property, config)
        return function(*arguments, cluster=cluster, **options)

    return with_cluster  # type: ignore[return-value]


def check_own_broker(cluster: Cluster) -> bool:
    """Whether nobody named a cluster, so that a local broker will do.

    Raises:
        ClusterUsageError: none is named, and yet Kafka's properties are, which a local broker has no use for.
    """
    if not cluster.is_named and cluster.kafka:
        names = ", ".join(sorted(cluster.kafka))
        raise ClusterUsageError(
            f"{names} cannot be used on a local broker; name the cluster with --bootstrap, JBM_BOOTSTRAP or in the "
            f"config file"
        )
    return not cluster.is_named


def default_bootstrap() -> str:
    """The user's running local broker, else the port Kafka usually has."""
    broker = LocalBroker()
    return broker.bootstrap if broker.is_running else FALLBACK_BOOTSTRAP


def _cluster(bootstrap: str | None, namespace: str | None, properties: tuple[str, ...], config: str | None) -> Cluster:
    try:
        sources = [from_options(bootstrap, namespace, properties), from_environment(os.environ)]
        path = config_path(config, os.environ)
        if path is not None:
            file = from_file(path)
            sources.append(file)
            if secrets := secrets_for_all_to_read(path, file):
                _warn(f"every user of this machine can read {', '.join(secrets)} in {path}; chmod o-rwx {path}")
        is_named = any(source.bootstrap for source in sources)
        return settle(sources, "" if is_named else default_bootstrap())
    except SettingsFault as fault:
        raise ClusterUsageError(str(fault)) from None


def _warn(text: str) -> None:
    click.echo(f"{_program(click.get_current_context(silent=True))}: warning: {text}", err=True)


def _program(context: click.Context | None) -> str:
    return (context.find_root().info_name if context is not None else None) or "jbm-kafka"


_option: Callable[..., Callable[[_Function], _Function]] = click.option
