"""Security properties that cannot work together are told when they are given, and no secret is repeated."""

from pathlib import Path

import pytest

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.kafka.settings import check_client_settings

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


def test_security_that_can_work_is_taken(tmp_path: Path) -> None:
    by_password = {"sasl.mechanism": "PLAIN", "sasl.username": "joe", "sasl.password": SECRET}
    check_client_settings({**by_password, "security.protocol": "SASL_SSL"})
    # Of a file for another cluster, set aside by one who says so.
    check_client_settings({**by_password, "security.protocol": "PLAINTEXT"})
    check_client_settings({"security.protocol": "SSL", "ssl.ca.location": "probe"})
    check_client_settings({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path)})
