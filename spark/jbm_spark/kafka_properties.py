"""librdkafka's properties, as commands and factories take them, as options of Spark's Kafka source. No Spark needed.

Spark's client is Java's: other names, other forms of certificates, and a password inside a line of JAAS. What says how
to get in is translated or refused; tuning of the other client means nothing here and is left out.
"""

from collections.abc import Mapping
from pathlib import Path

from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.kafka.settings import check_client_settings
from jbm_spark.errors import OptionRefusedError

_LOGIN = "org.apache.kafka.common.security.{}LoginModule required"
_LOGIN_MODULES = {
    "PLAIN": _LOGIN.format("plain.Plain"),
    "SCRAM-SHA-256": _LOGIN.format("scram.Scram"),
    "SCRAM-SHA-512": _LOGIN.format("scram.Scram"),
}

_SAME = ("client.id", "client.rack", "client.dns.lookup")
"""The same name and meaning in both clients."""

_SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl.", "enable.sasl.", "https.")
"""How the names begin that say how to get in: none of these is left out in silence."""

_OWN_OPTIONS = "give Spark's own options (kafka.…) for it"

_REFUSED = {
    "ssl.cipher.suites": f"Java has other names for them; {_OWN_OPTIONS}",
    "ssl.crl.location": f"Java takes lists of revoked certificates otherwise; {_OWN_OPTIONS}",
    "ssl.keystore.password": "it belongs to ssl.keystore.location; name that too",
    "ssl.key.password": "it belongs to ssl.key.location or ssl.key.pem; name that too",
    "sasl.username": "sasl.mechanism must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 with it",
    "sasl.password": "sasl.username is missing; name it too",
}


def checked_kafka_options(properties: Mapping[str, object] | None) -> dict[str, str]:
    """As `kafka_options`, after librdkafka checked the properties: a misspelt one is refused as misspelt.

    Raises:
        InvalidTypeError: they are something else than properties by name; the error is a ConnectionFactory's.
        InvalidSettingError: librdkafka does not know a property, or its value, or we decide it.
        OptionRefusedError: as `kafka_options`.
    """
    if properties is not None and not isinstance(properties, Mapping):
        raise wrong_type("kafka", properties, "it is a dict of librdkafka properties, or None")
    check_client_settings(properties or {})
    return kafka_options(properties or {})


def kafka_options(properties: Mapping[str, object]) -> dict[str, str]:
    """Options for `messages` and Spark's readers and writers, made of librdkafka's properties.

    Client keys and certificates are read here, so their files need not be where Spark's executors are; those of
    `ssl.ca.location` and `ssl.keystore.location` are read there.

    Raises:
        OptionRefusedError: names the property that Java's client cannot have, or the file, and what to do.
    """
    given = {name: str(value) for name, value in properties.items()}
    options = {f"kafka.{name}": given.pop(name) for name in _SAME if name in given}
    for translate in (_protocol, _login, _authority, _client_certificate, _host_name_check):
        options |= {f"kafka.{name}": value for name, value in translate(given).items()}
    for name in sorted(given):
        if name.startswith(_SECURITY):
            raise OptionRefusedError(f"Kafka property {name} is refused: {_REFUSED.get(name, _OWN_OPTIONS)}")
    return options


# Each takes what it understands out of the properties, and gives Java's instead.


def _protocol(given: dict[str, str]) -> dict[str, str]:
    protocol = given.pop("security.protocol", None)
    return {} if protocol is None else {"security.protocol": protocol.upper()}


def _login(given: dict[str, str]) -> dict[str, str]:
    named = [given.pop(name) for name in ("sasl.mechanism", "sasl.mechanisms") if name in given]  # two names of one
    mechanism = named[0].upper() if named else ""
    if not mechanism:
        return {}
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise OptionRefusedError(
            f"sasl.mechanism {mechanism} is refused: {', '.join(_LOGIN_MODULES)} are translated; {_OWN_OPTIONS}"
        )
    for name in ("sasl.username", "sasl.password"):
        if name not in given:
            raise OptionRefusedError(f"sasl.mechanism {mechanism} needs {name}: set it")
    user, password = _quoted(given.pop("sasl.username")), _quoted(given.pop("sasl.password"))
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} username={user} password={password};"}


def _authority(given: dict[str, str]) -> dict[str, str]:
    place = given.pop("ssl.ca.location", None)
    text = given.pop("ssl.ca.pem", None)
    if text is not None:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    if place in (None, "", "probe"):
        return {}  # Java looks into its own authorities
    if Path(str(place)).is_dir():
        raise OptionRefusedError(f"ssl.ca.location {place} is a folder: Java takes one PEM file; write them into one")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(place)}


def _client_certificate(given: dict[str, str]) -> dict[str, str]:
    store = given.pop("ssl.keystore.location", None)
    if store is not None:
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": store,
            "ssl.keystore.password": given.pop("ssl.keystore.password", ""),
        }
    chain = given.pop("ssl.certificate.pem", None) or _read(given, "ssl.certificate.location")
    key = given.pop("ssl.key.pem", None) or _read(given, "ssl.key.location")
    given.pop("ssl.certificate.location", None)
    given.pop("ssl.key.location", None)
    if chain is None and key is None:
        return {}
    if chain is None or key is None:
        missing = "ssl.certificate.location" if chain is None else "ssl.key.location"
        raise OptionRefusedError(f"a client certificate needs {missing} too: set it")
    java = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    password = given.pop("ssl.key.password", None)
    if "BEGIN PRIVATE KEY" in key:
        return java  # Java would take a password to mean that the key is encrypted
    if "BEGIN ENCRYPTED PRIVATE KEY" not in key:
        raise OptionRefusedError(
            "ssl.key.location: Java takes PKCS #8 only; convert it: openssl pkcs8 -topk8 -in key.pem -out key8.pem"
        )
    if password is None:
        raise OptionRefusedError("the client's key is encrypted and ssl.key.password is missing: set it")
    return {**java, "ssl.key.password": password}


def _host_name_check(given: dict[str, str]) -> dict[str, str]:
    if given.pop("enable.ssl.certificate.verification", "true").lower() in ("false", "0"):
        raise OptionRefusedError(
            "enable.ssl.certificate.verification=false is refused: Java always verifies; name the authority with "
            "ssl.ca.location"
        )
    algorithm = given.pop("ssl.endpoint.identification.algorithm", None)
    if algorithm is None:
        return {}
    return {"ssl.endpoint.identification.algorithm": "" if algorithm.lower() == "none" else algorithm.lower()}


def _read(given: Mapping[str, str], name: str) -> str | None:
    place = given.get(name)
    if place is None:
        return None
    try:
        return Path(place).read_text(encoding="utf-8")
    except OSError as error:
        raise OptionRefusedError(f"{name} {place}: {error.strerror}; name a PEM file that can be read") from None
    except UnicodeDecodeError:
        raise OptionRefusedError(f"{name} {place}: it is not a PEM file; convert it to PEM") from None


def _quoted(text: str) -> str:
    """Return the text between double quotes, with the escapes that a value of JAAS has (Java's StreamTokenizer)."""
    escaped = "".join(_ESCAPES.get(c, c) for c in text)
    return f'"{escaped}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
