"""Secrets are never shown: not in errors, not in what objects print, not by `config show`."""

import pytest

from jbm_kafka import ConnectionFactory
from jbm_kafka.cli.main import main
from jbm_kafka.configuration.loaded import ConfigurationError, load
from tests.configuration.conftest import Write

SECRET = "hush-hush"
ALL = f"""
console.tokens.ci.sha256 = "{"0" * 64}"
bootstrap = "a:1"
large_bodies = "s3://joe:{SECRET}@bodies"
login = {{user = "joe", password = "{SECRET}"}}
tls = {{key = "k.pem", certificate = "c.pem", key_password = "{SECRET}"}}
kafka.ssl.keystore.password = "{SECRET}"
clusters.b.bootstrap = "b:1"
clusters.b.login = {{user = "joe", password = "{SECRET}"}}
clusters.b.kafka = {{"ssl.key.pem" = "{SECRET}"}}
users.joe.password = "{SECRET}"
amqp.forwarding = {{advertised = "a:1", user = "joe", password = "{SECRET}"}}
"""


def test_no_object_prints_one(write: Write) -> None:
    """CONF-5."""
    write(ALL)
    loaded = load()
    said = [repr(loaded), str(loaded.tables), repr(loaded.cluster()), repr(loaded.tables.clusters["b"])]
    assert SECRET in {told.value for told in loaded.cluster().kafka.values()}
    assert not any(SECRET in each for each in said)


@pytest.mark.parametrize("options", [[], ["--all"], ["--json"], ["--cluster", "b"]])
def test_shown_settings_have_stars(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """CONF-5."""
    write(ALL)
    monkeypatch.setenv("JBM_KAFKA_SASL_PASSWORD", SECRET)
    assert main(["config", "show", *options]) == 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert "***" in printed.out


@pytest.mark.parametrize(
    "text",
    [
        f'login = "{SECRET}"',
        f'kafka = "{SECRET}"',
        f'login = {{user = "joe", pasword = "{SECRET}"}}',
        f'login = {{user = "joe", password = ["{SECRET}"]}}',
        f'kafka.sasl.password = ["{SECRET}"]',
        f'users.joe = "{SECRET}"',
        f'users.joe.password = ["{SECRET}"]',
        f'clusters.b.login = "{SECRET}"',
        f'amqp.forwarding = {{advertised = "a:1", user = "joe", password = {{x = "{SECRET}"}}}}',
        f'amqp.forwarding = "{SECRET}"',
        f'console.tokens.ci = {{sha256 = "{SECRET}"}}',
    ],
)
def test_no_mistake_repeats_one(write: Write, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """CONF-5."""
    write(text)
    with pytest.raises(ConfigurationError) as caught:
        load()
    assert SECRET not in repr(caught.value)
    assert SECRET not in str(caught.value.values)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert main(["config", "check"]) == 3
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err


def test_a_wrong_one_is_not_repeated_where_it_is_used(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Of CONF-5: neither by the library of Kafka's client nor by the AMQP server."""
    write(f'bootstrap = "joe:{SECRET}@a:1"\nusers.joe.password = "{SECRET}"\n[amqp]\ndrain_s = 1\n')
    with pytest.raises(ValueError, match="credentials do not belong in the address") as caught:
        ConnectionFactory.from_config()
    assert SECRET not in str(caught.value)
    assert main(["config", "check"]) == 3
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert "users.joe.password is" in printed.out


def test_a_file_with_secrets_that_everybody_can_read_is_told(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    path = write('bootstrap = "a:1"\nlogin = {user = "joe", password = "x"}')
    path.chmod(0o644)
    ConnectionFactory.from_config(path)
    assert f"every user of this machine can read login.password in {path}" in caplog.text
