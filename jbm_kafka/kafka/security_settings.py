"""Security properties that cannot work together, refused before a client is made: librdkafka says less, or nothing."""

from collections.abc import Mapping
from pathlib import Path

from jbm_kafka.core.wrong_values import shown

MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")
_MEAN_SASL = ("sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms")
_MEAN_TLS = (*_FILES, "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
_CONTENTS = {
    "ssl.ca.location": "certificates in PEM form, those of the authorities that are trusted",
    "ssl.certificate.location": "a certificate in PEM form",
    "ssl.key.location": "a private key in PEM form, and ssl.key.password is right if it has one",
    "ssl.keystore.location": "a PKCS#12 store, and ssl.keystore.password is right",
}
_PAIRS = {
    "ssl.certificate.location": ("ssl.key.location", "ssl.key.pem", "ssl_key", "ssl.keystore.location"),
    "ssl.key.location": ("ssl.certificate.location", "ssl.certificate.pem", "ssl_certificate", "ssl.keystore.location"),
}
"""A file, and what must be set with it, of which one is enough."""
_TOKENS = ("sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt", "oauth_cb")
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
    elif mechanism == "OAUTHBEARER":
        return _token_fault(settings)
    elif mechanism != "GSSAPI":  # which librdkafka has, and the wheels of it have not
        name = "sasl.mechanism" if "sasl.mechanism" in settings else "sasl.mechanisms"
        return name, f"{shown(settings[name])} is not one of {MECHANISMS}"
    return None


def _token_fault(settings: Mapping[str, object]) -> tuple[str, str] | None:
    """Without a source of tokens librdkafka waits for one for ever, and connects to nobody."""
    if any(str(settings.get(name, "")).lower() not in ("", "default", "false") for name in _TOKENS):
        return None
    return "sasl.oauthbearer.method", (
        "sasl.mechanism OAUTHBEARER needs a source of tokens: set it to oidc, with "
        "sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, or give a "
        "function as oauth_cb"
    )


def content_fault(fault: str, settings: Mapping[str, object]) -> tuple[str, str] | None:
    """The property whose file librdkafka cannot use, and one line about it; None where it complains of no file."""
    for name, content in _CONTENTS.items():
        if name in fault and name in settings:
            if "key values mismatch" in fault:
                return name, f"{settings[name]}: it is not the key of the certificate; name the one that belongs to it"
            return name, f"{settings[name]}: librdkafka cannot read it ({fault}); name a file that holds {content}"
    return None


def pair_fault(settings: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the file that lacks what belongs to it, a certificate's key or a key's certificate, and one line about it.

    Without the key librdkafka shows no certificate, and says nothing; without the certificate it names no file.
    """
    is_encrypted = str(settings.get("security.protocol", "")).upper().endswith("SSL")
    for name, others in _PAIRS.items() if is_encrypted else ():
        if settings.get(name) and not any(settings.get(other) for other in others):  # empty is as good as not set
            remedy = "set that, too (to the same file, if it has both), or leave both out"
            return name, f"{settings[name]}: it needs {others[0]}: {remedy}"
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
