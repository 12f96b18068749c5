"""Security properties that cannot work together, told before a client is made: librdkafka says less, or nothing."""

from collections.abc import Mapping
from pathlib import Path

MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")
_MEAN_SASL = ("sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms")
_MEAN_TLS = (*_FILES, "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
_PROBE = "probe"
"""As `ssl.ca.location`: look where systems keep their authorities."""


def security_fault(settings: Mapping[str, object]) -> tuple[str, str] | None:
    """The property that is wrong or missing, and one line about it; None when nothing is. No secret is repeated."""
    protocol = str(settings.get("security.protocol", "")).upper()
    if not protocol:
        return _unused(settings)
    if protocol not in _PROTOCOLS:
        return "security.protocol", f"{settings['security.protocol']!r} is not one of {', '.join(_PROTOCOLS)}"
    fault = _sasl_fault(protocol, settings) if protocol.startswith("SASL") else None
    return fault or (_file_fault(settings) if protocol.endswith("SSL") else None)


def _unused(settings: Mapping[str, object]) -> tuple[str, str] | None:
    """Credentials that nobody would use: the connection would be plain, and nobody would notice."""
    for names, protocols in ((_MEAN_SASL, "SASL_SSL (or SASL_PLAINTEXT)"), (_MEAN_TLS, "SSL or SASL_SSL")):
        for name in names:
            if name in settings:
                return name, f"it would not be used: set security.protocol to {protocols}"
    return None


def _sasl_fault(protocol: str, settings: Mapping[str, object]) -> tuple[str, str] | None:
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))).upper()
    if not mechanism:
        return "sasl.mechanism", f"security.protocol {protocol} needs it: set it to {MECHANISMS}"
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for name in ("sasl.username", "sasl.password"):
            if not settings.get(name):
                return name, f"sasl.mechanism {mechanism} needs it: set it"
    return None


def _file_fault(settings: Mapping[str, object]) -> tuple[str, str] | None:
    for name in _FILES:
        path = str(settings.get(name, ""))
        if not path or (name == "ssl.ca.location" and path == _PROBE):
            continue
        try:
            Path(path).open("rb").close()
        except IsADirectoryError:
            continue  # of authorities, each in a file of its own
        except OSError as error:
            return name, f"{path}: {error.strerror}; name a file that can be read"
    return None
