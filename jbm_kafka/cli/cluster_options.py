"""The options that name the cluster, the credentials and the namespace: the same for every command."""

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from jbm_kafka.cli.cluster_settings import OPTIONS, Cluster, SettingsFault, as_arguments, settle
from jbm_kafka.cli.wrong_usage import usage_text
from jbm_kafka.configuration.local_cluster import default_bootstrap
from jbm_kafka.core.jms_errors import InvalidSettingError

if TYPE_CHECKING:
    from jbm_kafka.configuration.loaded import Loaded

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
    """`--bootstrap`, `--namespace`, `--kafka-property`, `--cluster`, `--config`; the command is called with `cluster`,
    a Cluster.

    Wrong ones are a ClusterUsageError, exit code 2, before the command begins.
    """

    @configuration_options
    @wraps(function)
    def with_cluster(*arguments: Any, configured: "Configured", **options: Any) -> Any:
        return function(*arguments, cluster=configured.cluster(), **options)

    return with_cluster  # type: ignore[return-value]


def configuration_options(function: _Function) -> _Function:
    """The same options, for a command that needs more of the configuration: it is called with `configured`."""

    @_option("--config", metavar="FILE", help="TOML file with these settings and others. "
             "[JBM_CONFIG; else ./jbm-kafka.toml, else ~/.config/jbm-kafka/config.toml]")  # fmt: skip
    @_option("--cluster", "cluster_name", metavar="NAME",
             help="Which of the file's [clusters]. [JBM_CLUSTER; else the file's]")  # fmt: skip
    @_option("--kafka-property", metavar="KEY=VALUE", multiple=True,
             help="A property of Kafka's client (librdkafka), again for more; secrets rather in the file or in "
             "JBM_KAFKA_SASL_PASSWORD. [JBM_KAFKA_<KEY>; else the file's]")  # fmt: skip
    @_option("--namespace", metavar="NAME", help="The installation's namespace. [JBM_NAMESPACE; else the file's]")
    @_option("--bootstrap", metavar="HOST:PORT", help="Kafka's address. [JBM_BOOTSTRAP; else the file's; "
             "else the running local broker's, else 127.0.0.1:9092]")  # fmt: skip
    @wraps(function)
    def with_configuration(
        *arguments: Any,
        bootstrap: str | None,
        namespace: str | None,
        kafka_property: tuple[str, ...],
        cluster_name: str | None,
        config: str | None,
        **options: Any,
    ) -> Any:
        try:
            said = as_arguments(bootstrap, namespace, kafka_property, cluster_name)
        except SettingsFault as fault:
            raise ClusterUsageError(str(fault)) from None
        return function(*arguments, configured=Configured(config, said), **options)

    return with_configuration  # type: ignore[return-value]


class Configured:
    """The configuration of a command, loaded when it is first asked for."""

    def __init__(self, path: str | None, arguments: Mapping[str, Any]) -> None:
        self.path = path
        self.arguments = arguments
        """The options by the keys of the file."""

    def at(self, file: str | None) -> "Configured":
        """The same with an argument FILE in place of `--config`; wrong usage where both are given."""
        if file is not None and self.path is not None:
            raise click.UsageError("FILE and --config are the same; leave one out")
        return self if file is None else Configured(file, self.arguments)

    @cached_property
    def loaded(self) -> "Loaded":
        """All of it.

        Raises:
            ClusterUsageError: a value that cannot be.
        """
        from jbm_kafka.configuration.loaded import load  # Pydantic takes a quarter of a second

        try:
            loaded = load(self.path, arguments=self.arguments, names=OPTIONS)
        except InvalidSettingError as error:
            raise ClusterUsageError(str(error)) from None
        for note in loaded.notes:
            _warn(note)
        if secrets := loaded.secrets_for_all():
            where = loaded.path
            _warn(f"every user of this machine can read {', '.join(secrets)} in {where}; chmod o-rwx {where}")
        return loaded

    def cluster(self, *, makes_world: bool = False) -> Cluster:
        """The cluster in use.

        Raises:
            ClusterUsageError: nobody says which of several, or a value of it that cannot be.
        """
        try:
            told = self.loaded.cluster()
            return settle(told, "" if told.bootstrap else default_bootstrap(), makes_world=makes_world)
        except (SettingsFault, InvalidSettingError) as fault:
            raise ClusterUsageError(str(fault)) from None


def check_own_broker(cluster: Cluster) -> bool:
    """Return True if nobody named a cluster, so that a local broker will do.

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


def _warn(text: str) -> None:
    click.echo(f"{_program(click.get_current_context(silent=True))}: warning: {text}", err=True)


def _program(context: click.Context | None) -> str:
    return (context.find_root().info_name if context is not None else None) or "jbm-kafka"


_option: Callable[..., Callable[[_Function], _Function]] = click.option
