"""librdkafka's security properties as Spark's options. No Spark is started; tests/security reads with them."""

from pathlib import Path

import pytest

from jbm_spark.errors import OptionRefusedError
from jbm_spark.kafka_properties import kafka_options
from jbm_spark.options import checked

KEY = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"
ENCRYPTED = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE")
OLD_KEY = KEY.replace("PRIVATE", "RSA PRIVATE")
PLAIN = {"security.protocol": "sasl_ssl", "sasl.mechanism": "plain", "sasl.username": "joe", "sasl.password": "s"}


def test_user_and_password_become_a_line_of_jaas() -> None:
    options = kafka_options(PLAIN)
    assert options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="joe" password="s";',
    }
    scram = kafka_options({**PLAIN, "sasl.mechanism": "SCRAM-SHA-512"})["kafka.sasl.jaas.config"]
    assert scram.startswith("org.apache.kafka.common.security.scram.ScramLoginModule required username=")
    other_name = {"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": "joe", "sasl.password": "s"}
    assert kafka_options(other_name)["kafka.sasl.mechanism"] == "SCRAM-SHA-256"


def test_no_password_can_end_the_line_of_jaas() -> None:
    options = kafka_options({**PLAIN, "sasl.password": 'a"; \\\n'})
    assert options["kafka.sasl.jaas.config"].endswith(r' password="a\"; \\\n";')


def test_the_authority_is_a_pem_truststore() -> None:
    assert kafka_options({"security.protocol": "SSL", "ssl.ca.location": "/etc/ca.pem"}) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/etc/ca.pem",
    }
    assert kafka_options({"ssl.ca.pem": "text"}) == {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "text",
    }
    assert kafka_options({"ssl.ca.location": "probe"}) == {}


def test_a_clients_certificate_and_key_are_read_into_a_pem_keystore(tmp_path: Path) -> None:
    (tmp_path / "me.crt").write_text("certificate")
    (tmp_path / "me.key").write_text(KEY)
    files = {"ssl.certificate.location": str(tmp_path / "me.crt"), "ssl.key.location": str(tmp_path / "me.key")}
    store = {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "certificate",
        "kafka.ssl.keystore.key": KEY,
    }
    assert kafka_options(files) == store
    assert kafka_options({**files, "ssl.key.password": "p"}) == store
    (tmp_path / "me.key").write_text(ENCRYPTED)
    encrypted = kafka_options({**files, "ssl.key.password": "p"})
    assert encrypted == {**store, "kafka.ssl.keystore.key": ENCRYPTED, "kafka.ssl.key.password": "p"}
    assert kafka_options({"ssl.certificate.pem": "certificate", "ssl.key.pem": KEY}) == store
    assert kafka_options({"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"}) == {
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": "/k.p12",
        "kafka.ssl.keystore.password": "p",
    }


@pytest.mark.parametrize(("ours", "javas"), [("none", ""), ("https", "https"), ("HTTPS", "https")])
def test_whether_the_name_in_the_certificate_counts(ours: str, javas: str) -> None:
    name = "ssl.endpoint.identification.algorithm"
    assert kafka_options({name: ours}) == {f"kafka.{name}": javas}


def test_tuning_of_the_other_client_is_left_out_and_what_both_know_stays() -> None:
    given = {"linger.ms": 5, "socket.keepalive.enable": True, "queued.min.messages": "1", "client.id": "job"}
    assert kafka_options(given) == {"kafka.client.id": "job"}


def test_every_option_made_is_one_that_messages_takes() -> None:
    options = kafka_options({**PLAIN, "ssl.ca.location": "/etc/ca.pem", "client.rack": "a"})
    assert checked(options) == options


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER is refused: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 are"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": "s"}, "sasl.mechanism PLAIN needs sasl.username: set it"),
        ({"sasl.username": "joe"}, "sasl.username is refused: sasl.mechanism must be"),
        ({"sasl.kerberos.keytab": "/k"}, "sasl.kerberos.keytab is refused: give Spark's own options (kafka.…) for it"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites is refused: Java has other names for them"),
        ({"ssl.certificate.pem": "c"}, "a client certificate needs ssl.key.location too: set it"),
        ({"ssl.key.pem": KEY}, "a client certificate needs ssl.certificate.location too: set it"),
        ({"ssl.key.pem": OLD_KEY, "ssl.certificate.pem": "c"}, "Java takes PKCS #8 only; convert it: openssl pkcs8"),
        (
            {"ssl.key.pem": ENCRYPTED, "ssl.certificate.pem": "c"},
            "is encrypted and ssl.key.password is missing: set it",
        ),
        ({"ssl.certificate.location": "/no/crt"}, "/no/crt: No such file or directory; name a PEM file"),
        ({"ssl.ca.location": "/"}, "ssl.ca.location / is a folder: Java takes one PEM file"),
        ({"enable.ssl.certificate.verification": False}, "Java always verifies; name the authority with ssl.ca.loc"),
        ({"ssl.key.password": "secret"}, "ssl.key.password is refused: it belongs to ssl.key.location"),
    ],
)
def test_what_java_cannot_be_told_is_refused_with_the_remedy_and_without_secrets(
    properties: dict[str, object], told: str
) -> None:
    with pytest.raises(OptionRefusedError) as raised:
        kafka_options(properties)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)
