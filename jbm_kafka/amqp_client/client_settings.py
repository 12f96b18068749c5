"""The settings of an `amqp://` factory: where to connect, and as whom. The names are those that Kafka's client has."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.configuration.pem_files import PemFile, client_tls, show
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.wrong_values import checked_int, shown, wrong_value
from jbm_kafka.ports.installation import Installation

MECHANISMS = ("SCRAM-SHA-256", "PLAIN", "EXTERNAL", "ANONYMOUS")
MESSAGE_BYTES_NAME = "receive.message.max.bytes"
MESSAGE_BYTES = 100_000_000
"""As Kafka's client has it."""
_NAMES = (
    "sasl.username",
    "sasl.password",
    "sasl.mechanism",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    MESSAGE_BYTES_NAME,
)
_TLS = tuple(name for name in _NAMES if "ssl" in name)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where to connect, as whom, and how."""

    url: str
    """For people."""
    addresses: tuple[tuple[str, int], ...]
    user: str
    password: str
    mechanism: str
    tls: ssl.SSLContext | None
    has_certificate: bool
    message_bytes: int = MESSAGE_BYTES
    """A larger message is not received, and its link ends: else a server that ends none fills the memory."""


def checked(installation: Installation) -> ClientSettings:
    """Return what the installation says.

    Raises:
        InvalidSettingError: something of it cannot be, or is the sidecar's business.
    """
    scheme = "amqps" if installation.is_encrypted else "amqp"
    _check_sidecars(installation, scheme)
    given = dict(installation.client_settings)
    for name in given:
        if name not in _NAMES:
            raise InvalidSettingError(
                f"kafka={{{name!r}: …}} is for a Kafka client; {scheme}:// takes {', '.join(_NAMES)}", setting=name
            )
        if name in _TLS and not installation.is_encrypted:
            raise InvalidSettingError(f"kafka={{{name!r}: …}} is for TLS; write amqps://", setting=name)
    mechanism = str(given.get("sasl.mechanism", ""))
    if mechanism and mechanism not in MECHANISMS:
        raise wrong_value("sasl.mechanism", mechanism, f"it is one of {', '.join(MECHANISMS)}")
    return ClientSettings(
        url=f"{scheme}://{installation.bootstrap}",
        addresses=tuple(_host_and_port(each) for each in installation.bootstrap.split(",")),
        user=str(given.get("sasl.username", "")),
        password=str(given.get("sasl.password", "")),
        mechanism=mechanism,
        tls=_context(given) if installation.is_encrypted else None,
        has_certificate=bool(given.get("ssl.certificate.location")),
        message_bytes=_message_bytes(given.get(MESSAGE_BYTES_NAME, MESSAGE_BYTES)),
    )


def _message_bytes(given: object) -> int:
    size = int(given) if isinstance(given, str) and given.isdecimal() else given
    return checked_int(MESSAGE_BYTES_NAME, size, 1_000, 2**31 - 1, "bytes")


def _check_sidecars(installation: Installation, scheme: str) -> None:
    given = set(installation.given - {"receiver_idle_ms"})
    given |= {"namespace"} if installation.config.namespace else set()
    given |= {"state_dir"} if installation.state_dir is not None else set()
    if given:
        names = ", ".join(sorted(given))
        raise InvalidSettingError(
            f"{names}: settings of the sidecar that {scheme}://{installation.bootstrap} connects to; leave them out "
            f"here, and write them in its file (jbm-kafka docs amqp)",
            setting=min(given),
        )


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _context(given: dict[str, object]) -> ssl.SSLContext:
    context = client_tls(_file(given, "ssl.ca.location"))
    certificate = _file(given, "ssl.certificate.location")
    if certificate is None and (path := given.get("ssl.key.location")):
        raise wrong_value("ssl.key.location", path, "it is of no certificate; name that as ssl.certificate.location")
    if certificate is not None:
        password = given.get("ssl.key.password")
        key, said = _file(given, "ssl.key.location"), None if password is None else str(password)
        show(context, certificate, key, said, "give that as ssl.key.password")
    if str(given.get("ssl.endpoint.identification.algorithm", "https")) == "none":
        context.check_hostname = False
    if str(given.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _file(given: dict[str, object], name: str) -> PemFile | None:
    path = given.get(name)
    if path is not None and not isinstance(path, str):
        raise wrong_value(name, shown(path), "it is the path of a file")
    return PemFile(name, path, Path(path)) if path else None  # Kafka's client, too, takes an empty one as not set
