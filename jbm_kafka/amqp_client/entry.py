"""The provider that `amqp://` and `amqps://` stand for: implements `ProviderModule`."""

from __future__ import annotations

from jbm_kafka.amqp_client import client_settings
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.provider import Provider


def check(installation: Installation) -> None:
    """Raises InvalidSettingError for a setting that can be seen to be wrong without connecting."""
    client_settings.checked(installation)


def connect(installation: Installation) -> Provider:
    """Return a provider for one connection.

    Raises:
        ConnectionFailedError: nobody answers there.
        JMSSecurityError: the server does not let this user in.
        JMSError: qpid-proton is not installed.
    """
    try:
        from jbm_kafka.amqp_client.amqp_provider import AmqpProvider
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("proton", "cproton", "cffi"):
            raise
        raise JMSError("amqp:// needs qpid-proton, which is built from source: pip install 'jbm-kafka[amqp]'") from None
    return AmqpProvider(client_settings.checked(installation), receiver_idle_ms=installation.config.receiver_idle_ms)
