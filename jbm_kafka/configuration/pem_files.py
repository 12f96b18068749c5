"""Certificates, keys and authorities of PEM files: one that cannot be used is told with its setting, value and
remedy."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.wrong_values import shown, wrong_value

_OF_ANOTHER = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""The last is of a key of another kind: OpenSSL has a certificate for each, as one of RSA and one of ECDSA."""


@dataclass(frozen=True, slots=True)
class PemFile:
    """A file that a setting names."""

    setting: str
    """As a message names it: `console.certificate`."""
    written: str
    """As whoever gave it wrote it."""
    path: Path


def server_tls(certificate: PemFile, key: PemFile | None) -> ssl.SSLContext:
    """Returns the TLS of a server that shows this certificate, with its chain.

    Args:
        certificate: has the key, too, where that has no file of its own.
        key: is without a password, for a server starts where nobody can type one.

    Raises:
        InvalidSettingError: one of the files cannot be used.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    show(made, certificate, key, None, "write the key without one, as openssl pkey -in FILE -out OTHER does")
    return made


def client_tls(authorities: PemFile | None) -> ssl.SSLContext:
    """Returns the TLS of a client that trusts these authorities; None: those that the system knows.

    Raises:
        InvalidSettingError: the file cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=None if authorities is None else authorities.path)
    except (OSError, ValueError) as error:
        if authorities is None:
            raise
        raise _unusable(authorities, error) from None


def trust(context: ssl.SSLContext, authorities: PemFile) -> None:
    """Have the context trust whom these authorities signed. Raises InvalidSettingError: the file cannot be used."""
    try:
        context.load_verify_locations(authorities.path)
    except (OSError, ValueError) as error:
        raise _unusable(authorities, error) from None


def show(
    context: ssl.SSLContext, certificate: PemFile, key: PemFile | None, password: str | None, of_password: str
) -> None:
    """Have the context show this certificate, with its chain. Nobody is asked to type a password.

    Args:
        context: is changed, and not to be used where this raises.
        certificate: has the key, too, where that has no file of its own.
        key: the file of the key alone.
        password: of the key.
        of_password: what to do where the key has a password, and not this one.

    Raises:
        InvalidSettingError: one of the files cannot be used.
    """
    trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate)  # load_cert_chain does not tell which file it is
    asked = []

    def typed() -> str:
        asked.append(True)
        return password or ""

    of_key = certificate if key is None else key
    try:
        context.load_cert_chain(certificate.path, of_key.path, typed)
    except ssl.SSLError as error:
        if asked:
            rule = f"its key has {'a' if password is None else 'another'} password; {of_password}"
        elif error.reason in _OF_ANOTHER:
            rule = f"it is not the key of {shown(certificate.written)}; name the one that belongs to it"
        elif error.reason is None:
            rule = "it has no private key in PEM form; name the file of one"
        else:
            rule = f"OpenSSL does not take it ({error.reason}); have one made that it takes"
        raise wrong_value(of_key.setting, of_key.written, rule) from None
    except (OSError, ValueError) as error:
        raise _unusable(of_key, error) from None


def _unusable(file: PemFile, error: OSError | ValueError) -> InvalidSettingError:
    if isinstance(error, ssl.SSLError):
        rule = "it has no certificate in PEM form; name a file that has one"
    else:
        why = error.strerror if isinstance(error, OSError) else str(error)
        where = "" if file.written == str(file.path) else f"{shown(str(file.path))}: "
        rule = f"{where}{why}; name a PEM file that can be read"
    return wrong_value(file.setting, file.written, rule)
