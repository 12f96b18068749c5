"""Security properties that cannot work together are told when they are given, and no secret is repeated."""

from pathlib import Path

import pytest

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.kafka.security_settings import content_fault, security_fault
from jbm_kafka.kafka.settings import check_client_settings
from tests.support.secured import make_certificates

SECRET = "hunter2"
NOT_USED = "it would not be used: set security.protocol to "


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"security.protocol": "TLS"}, "'security.protocol': 'TLS' is not one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "'sasl.mechanism': security.protocol SASL_SSL needs it: set it to PLAIN, "),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": SECRET},
            "'sasl.username': sasl.mechanism SCRAM-SHA-512 needs it: set it",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "joe"},
            "'sasl.password': sasl.mechanism PLAIN needs it: set it",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM", "sasl.password": SECRET},
            "'sasl.mechanisms': 'SCRAM' is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.client.secret": SECRET,
            },
            "'sasl.oauthbearer.method': sasl.mechanism OAUTHBEARER needs a source of tokens: set it to oidc, with ",
        ),
        ({"sasl.password": SECRET}, f"'sasl.password': {NOT_USED}SASL_SSL (or SASL_PLAINTEXT)"),
        ({"ssl.key.pem": SECRET}, f"'ssl.key.pem': {NOT_USED}SSL or SASL_SSL"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/ca"}, "'ssl.ca.location': /no/ca: No such file or"),
        ({"security.protocol": "SSL", "ssl.key.location": "/no/k"}, "'ssl.key.location': /no/k: No such file or"),
        ({"sasl.jaas.config": SECRET}, "'sasl.jaas.config': Java JAAS configuration is not supported"),
        ({"security.protocol": "SSL", "ssl.key.pem": SECRET}, "ssl.key.pem failed: not in PEM format?"),
    ],
)
def test_security_that_cannot_work_is_one_line_that_names_the_property_and_the_remedy(
    settings: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        check_client_settings(settings)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.values}"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("ssl.ca.location", "name a file that holds certificates in PEM form, those of the authorities"),
        ("ssl.certificate.location", "name a file that holds a certificate in PEM form"),
        ("ssl.key.location", "name a file that holds a private key in PEM form, and ssl.key.password is right"),
        ("ssl.keystore.location", "name a file that holds a PKCS#12 store, and ssl.keystore.password is right"),
    ],
)
def test_a_file_of_junk_was_told_without_its_name_and_a_remedy(name: str, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / "junk"
    path.write_text("no certificate")
    with pytest.raises(InvalidSettingError) as caught:
        check_client_settings({"security.protocol": "SSL", name: str(path), "ssl.keystore.password": SECRET})
    assert str(caught.value).startswith(f"client setting {name!r}: {path}: librdkafka cannot read it (")
    assert remedy in str(caught.value)
    assert caught.value.names == [name]
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "other"),
    [("ssl.certificate.location", "ssl.key.location"), ("ssl.key.location", "ssl.certificate.location")],
)
def test_a_certificate_without_its_key_was_taken_and_never_shown(name: str, other: str, tmp_path: Path) -> None:
    """And of a key without its certificate neither value nor remedy was told."""
    certificates = make_certificates(tmp_path)
    files = {"ssl.certificate.location": str(certificates.certificate), "ssl.key.location": str(certificates.key)}
    check_client_settings({"security.protocol": "SSL", **files})
    check_client_settings({"security.protocol": "PLAINTEXT", name: files[name]})
    both = tmp_path / "both.pem"
    both.write_text(certificates.certificate.read_text() + certificates.key.read_text())
    check_client_settings({"security.protocol": "SSL", name: str(both), other: str(both)})
    with pytest.raises(InvalidSettingError) as caught:
        check_client_settings({"security.protocol": "SSL", name: files[name]})
    assert str(caught.value) == (
        f"client setting {name!r}: {files[name]}: it needs {other}: set that, too (to the same file, if it has both), "
        "or leave both out"
    )


def test_a_key_that_is_another_certificates_is_told_so() -> None:
    """librdkafka's text is taken: pairs that do not belong together would have to be made for it."""
    fault = "ssl.key.location failed: error:05800074:x509 certificate routines::key values mismatch"
    assert content_fault(fault, {"ssl.key.location": "a.key"}) == (
        "ssl.key.location",
        "a.key: it is not the key of the certificate; name the one that belongs to it",
    )
    assert content_fault(fault, {}) is None


@pytest.mark.parametrize(
    "source",
    [
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "joe",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        },
        {"enable.sasl.oauthbearer.unsecure.jwt": True},
        {"oauth_cb": lambda config: ("token", 0)},
    ],
)
def test_each_source_of_tokens_is_one(source: dict[str, object]) -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    assert security_fault({**settings, **source}) is None


def test_security_that_can_work_is_taken(tmp_path: Path) -> None:
    by_password = {"sasl.mechanism": "PLAIN", "sasl.username": "joe", "sasl.password": SECRET}
    check_client_settings({**by_password, "security.protocol": "SASL_SSL"})
    # Of a file for another cluster, set aside by one who says so.
    check_client_settings({**by_password, "security.protocol": "PLAINTEXT"})
    check_client_settings({"security.protocol": "SSL", "ssl.ca.location": "probe"})
    check_client_settings({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path)})
