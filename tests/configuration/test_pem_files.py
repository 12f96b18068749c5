"""A certificate, key or authority that cannot be used is a line with setting, value and remedy."""

import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory
from jbm_kafka.cli.main import main
from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.configuration.pem_files import PemFile, server_tls
from jbm_kafka.console import app
from jbm_kafka.console.serving import ConsoleAddress, ConsoleServer
from jbm_kafka.core.jms_errors import InvalidSettingError
from tests.configuration.conftest import Write
from tests.support.secured import make_certificates

SOON_S = 30
PASSWORD = "correct horse"
NO_CERTIFICATE = "it has no certificate in PEM form; name a file that has one"
NO_KEY = "it has no private key in PEM form; name the file of one"
LOCKED = "its key has a password; write the key without one, as openssl pkey -in FILE -out OTHER does"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """server.pem with its key, carol.crt and carol.key, authority.crt, locked.key (carol's), junk and a folder."""
    made = tmp_path_factory.mktemp("certificates")
    make_certificates(made)
    locked = ["-in", "carol.key", "-aes256", "-passout", f"pass:{PASSWORD}", "-out", "locked.key"]
    subprocess.run(["openssl", "pkey", *locked], cwd=made, check=True, capture_output=True)
    other = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "other_kind.key"]
    subprocess.run(["openssl", "genpkey", *other], cwd=made, check=True, capture_output=True)
    (made / "junk").write_text("no certificate")
    (made / "folder").mkdir()
    return made


@pytest.mark.parametrize(
    ("certificate", "key", "told"),
    [
        ("server.pem", None, ""),
        ("carol.crt", "carol.key", ""),
        ("junk", None, f"s.certificate is 'junk': {NO_CERTIFICATE}"),
        ("carol.key", "carol.key", f"s.certificate is 'carol.key': {NO_CERTIFICATE}"),
        ("carol.crt", "junk", f"s.key is 'junk': {NO_KEY}"),
        ("carol.crt", None, f"s.certificate is 'carol.crt': {NO_KEY}"),
        ("carol.crt", "authority.key", "s.key is 'authority.key': it is not the key of 'carol.crt'; name the one"),
        ("carol.crt", "other_kind.key", "s.key is 'other_kind.key': it is not the key of 'carol.crt'; name the one"),
        ("carol.crt", "locked.key", f"s.key is 'locked.key': {LOCKED}"),
        ("none", None, "No such file or directory; name a PEM file that can be read"),
        ("folder", None, "Is a directory; name a PEM file that can be read"),
        ("carol.crt", "none", "No such file or directory; name a PEM file that can be read"),
        ("a\0b", None, "embedded null byte; name a PEM file that can be read"),
    ],
)
def test_each_fault_of_a_servers_files_is_one_line(files: Path, certificate: str, key: str | None, told: str) -> None:
    shown = PemFile("s.certificate", certificate, files / certificate)
    of_key = None if key is None else PemFile("s.key", key, files / key)
    if not told:
        server_tls(shown, of_key)
        return
    with pytest.raises(InvalidSettingError) as caught:
        server_tls(shown, of_key)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.values["setting"] == ("s.certificate" if str(caught.value).startswith("s.c") else "s.key")


def test_a_password_opens_a_clients_key_and_another_one_is_told(files: Path) -> None:
    kafka: dict[str, object] = {
        "ssl.ca.location": str(files / "authority.crt"),
        "ssl.certificate.location": str(files / "carol.crt"),
        "ssl.key.location": str(files / "locked.key"),
    }
    ConnectionFactory("amqps://a:1", kafka={**kafka, "ssl.key.password": PASSWORD})
    with pytest.raises(InvalidSettingError, match="it is of no certificate; name that as ssl"):
        ConnectionFactory("amqps://a:1", kafka={"ssl.key.location": kafka["ssl.key.location"]})
    for more, what in (({}, "a password"), ({"ssl.key.password": "guessed"}, "another password")):
        with pytest.raises(InvalidSettingError) as caught:
            ConnectionFactory("amqps://a:1", kafka={**kafka, **more})
        assert str(caught.value).startswith("ssl.key.location is '")
        assert str(caught.value).endswith(f"its key has {what}; give that as ssl.key.password")
        assert PASSWORD not in str(caught.value)
        assert "guessed" not in str(caught.value)


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
def test_an_empty_setting_was_the_folder_that_a_client_of_an_amqp_server_stood_in(name: str) -> None:
    """As a variable that is not set makes it; Kafka's client takes it as none."""
    ConnectionFactory("amqps://a:1", kafka={name: ""})
    ConnectionFactory("a:1", kafka={"security.protocol": "SSL", name: ""})


CONFIGURED = """
bootstrap = "a:1"
[users.anonymous]
look = ["#"]
send = ["#"]
[clusters.server]
bootstrap = "amqps://a:1"
tls = {{ca = "{server}"}}
[[amqp.listeners]]
url = "amqps://a:1"
certificate = "{certificate}"
client_ca = "{client_ca}"
[amqp.forwarding]
advertised = "a:1"
user = "sidecar"
password = "p"
server_ca = "{server_ca}"
[console]
certificate = "{console}"
"""


def test_config_check_took_a_console_s_certificate_that_was_no_pem(
    files: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """CONF-4: and an AMQP server's authority, which a program met when it connected."""
    right = {"server": "authority.crt", "certificate": "server.pem", "client_ca": "authority.crt"} | {
        "server_ca": "authority.crt", "console": "server.pem"
    }  # fmt: skip
    path = write("", str(files / "jbm-kafka.toml"))
    for wrong, told in (
        ({}, None),
        ({"server": "junk"}, "clusters.server.tls.ca: ssl.ca.location is "),
        ({"certificate": "junk"}, "jbm-kafka.toml: amqp.listeners[0].certificate is 'junk': "),
        ({"client_ca": "junk"}, "jbm-kafka.toml: amqp.listeners[0].client_ca is 'junk': "),
        ({"server_ca": "junk"}, "jbm-kafka.toml: amqp.forwarding.server_ca is 'junk': "),
        ({"console": "junk"}, "jbm-kafka.toml: console.certificate is "),
    ):
        path.write_text(CONFIGURED.format(**{**right, **wrong}))
        assert main(["config", "check", str(path)]) == (3 if wrong else 0), capsys.readouterr().out
        (line,) = capsys.readouterr().out.splitlines()
        assert told is None or told in line, line
        assert told is None or line.endswith(NO_CERTIFICATE)
    path.write_text(CONFIGURED.format(**{**right, "certificate": "carol.crt"}))
    with pytest.raises(Exception, match=r"listeners\[0\].certificate is 'carol.crt': it has no private key"):
        read_sidecar_file(path)


def test_a_console_is_served_by_a_certificate_and_asks_nobody_for_the_password_of_a_key(files: Path) -> None:
    application = app("memory://pem")
    certificate, key = str(files / "carol.crt"), str(files / "carol.key")
    for wrong, told in (
        (ConsoleAddress(port=0, certificate=certificate, key=str(files / "locked.key")), LOCKED),
        (ConsoleAddress(port=0, key=key), "it is of no certificate; name that as console.certificate"),
    ):
        with pytest.raises(InvalidSettingError) as caught:
            ConsoleServer(application, wrong)
        assert str(caught.value).startswith("console.key is ")
        assert str(caught.value).endswith(told)
    with ConsoleServer(application, ConsoleAddress(port=0, certificate=certificate, key=key)) as server:
        assert server.url.startswith("https://")
        tls = ssl.create_default_context(cafile=files / "authority.crt")
        tls.check_hostname = False
        asked = HTTPSConnection("127.0.0.1", server.port, context=tls, timeout=SOON_S)
        asked.request("GET", "/healthz")
        assert asked.getresponse().read() == b"ok\n"
        asked.close()
