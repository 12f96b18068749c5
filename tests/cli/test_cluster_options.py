"""Which cluster a command speaks to: from options, environment, file, default; and each mistake told in one line."""

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from jbm_kafka.cli.cluster_options import ClusterUsageError, check_own_broker, cluster_options
from jbm_kafka.cli.cluster_settings import Cluster, cluster_of_environment, environment_of

SECURE = """
bootstrap = "file:9093"
namespace = "of-file"

[kafka]
"security.protocol" = "SASL_SSL"
sasl.mechanism = "PLAIN"          # without quotes it is a table in a table to TOML
sasl.username = "file-user"
sasl.password = "file-secret"
linger.ms = 5
socket.keepalive.enable = true
"""

Tell = Callable[..., Result]


@pytest.fixture
def seen() -> list[Cluster]:
    return []


@pytest.fixture
def tell(seen: list[Cluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tell:
    """Runs a command that notes its cluster, in an environment with nothing of ours."""
    for name in [name for name in os.environ if name.startswith("JBM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("JBM_HOME", str(tmp_path / "home"))

    @click.command()
    @cluster_options
    def note(cluster: Cluster) -> None:
        seen.append(cluster)

    return lambda *arguments, **environment: CliRunner().invoke(note, arguments, env=environment, prog_name="jbm-x")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jbm.toml"
    path.write_text(SECURE)
    path.chmod(0o640)
    return path


def test_without_anything_it_is_the_local_broker(tell: Tell, seen: list[Cluster]) -> None:
    assert tell().exit_code == 0
    assert seen == [Cluster("127.0.0.1:9092", is_named=False)]


def test_the_file_says_everything(tell: Tell, seen: list[Cluster], file: Path) -> None:
    said = tell("--config", str(file))
    assert (said.exit_code, said.output) == (0, "")
    assert (seen[0].bootstrap, seen[0].namespace, seen[0].is_named) == ("file:9093", "of-file", True)
    assert seen[0].kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "file-user",
        "sasl.password": "file-secret",
        "linger.ms": "5",
        "socket.keepalive.enable": "true",
    }


def test_an_option_wins_over_the_environment_and_that_over_the_file_name_by_name(
    tell: Tell, seen: list[Cluster], file: Path
) -> None:
    options = ("--bootstrap", "option:1", "--kafka-property", "sasl.password=from=option")
    environment = {
        "JBM_CONFIG": str(file),
        "JBM_BOOTSTRAP": "environment:2",
        "JBM_NAMESPACE": "of-environment",
        "JBM_KAFKA_SASL_USERNAME": "environment-user",
        "JBM_KAFKA_SASL_PASSWORD": "environment-secret",
        "JBM_KAFKA_LINGER_MS": "",  # says nothing
    }
    assert tell(*options, **environment).exit_code == 0
    assert (seen[0].bootstrap, seen[0].namespace) == ("option:1", "of-environment")
    names = ("sasl.username", "sasl.password", "sasl.mechanism", "linger.ms")
    assert [seen[0].kafka[name] for name in names] == ["environment-user", "from=option", "PLAIN", "5"]


def test_an_option_may_say_none(tell: Tell, seen: list[Cluster], file: Path) -> None:
    assert tell("--namespace", "", "--config", str(file)).exit_code == 0
    assert tell("--config", "", JBM_CONFIG=str(file)).exit_code == 0
    assert [cluster.namespace for cluster in seen] == ["", ""]
    assert seen[1].kafka == {}


def test_the_usual_file_is_read_when_it_is_there(tell: Tell, seen: list[Cluster], file: Path, tmp_path: Path) -> None:
    usual = tmp_path / "config" / "jbm-kafka" / "config.toml"
    usual.parent.mkdir(parents=True)
    file.rename(usual)
    assert tell().exit_code == 0
    assert tell(JBM_CONFIG="").exit_code == 0
    other = tmp_path / "other.toml"
    other.write_text('bootstrap = "other:1"')
    assert tell(JBM_CONFIG=str(other)).exit_code == 0
    assert [cluster.bootstrap for cluster in seen] == ["file:9093", "file:9093", "other:1"]
    assert seen[2].kafka == {}


def test_an_address_may_be_written_as_the_factorys_url(tell: Tell, seen: list[Cluster]) -> None:
    assert tell("--bootstrap", "kafka://a:1,b:2").exit_code == 0
    assert seen[0].bootstrap == "a:1,b:2"


def test_secrets_in_a_file_that_everybody_can_read_are_warned_of(tell: Tell, file: Path) -> None:
    file.chmod(0o644)
    said = tell("--config", str(file))
    assert said.exit_code == 0
    assert said.stderr == (
        f"jbm-x: warning: every user of this machine can read sasl.password in {file}; chmod o-rwx {file}\n"
    )
    file.write_text('bootstrap = "file:9093"')
    assert tell("--config", str(file)).stderr == ""


def test_a_cluster_shows_no_secrets(tell: Tell, seen: list[Cluster], file: Path) -> None:
    tell("--config", str(file))
    assert "file-secret" not in repr(seen[0])


def test_a_process_of_ours_is_told_the_same_cluster_by_its_environment() -> None:
    secrets = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p=\n",
    }
    named = Cluster("a:1,b:2", "shop", secrets, large_bodies="s3://bodies")
    ours = {
        "JBM_KAFKA_LINGER_MS": "5",
        "JBM_NAMESPACE": "other",
        "JBM_LARGE_BODIES": "s3://other",
        "JBM_CONFIG": "/our/file",
        "PATH": "/bin",
    }
    environment = environment_of(named, ours)
    assert cluster_of_environment(environment) == named
    assert (environment["PATH"], environment["JBM_CONFIG"]) == ("/bin", os.devnull)
    assert cluster_of_environment(environment_of(Cluster("a:1"), ours)) == Cluster("a:1")


def test_a_local_broker_will_do_where_nobody_names_one_and_wants_no_properties() -> None:
    assert check_own_broker(Cluster("127.0.0.1:9092", is_named=False))
    assert not check_own_broker(Cluster("a:1", kafka={"linger.ms": "5"}))
    with pytest.raises(ClusterUsageError, match=r"linger.ms cannot be used on a local broker; name the cluster with"):
        check_own_broker(Cluster("127.0.0.1:9092", kafka={"linger.ms": "5"}, is_named=False))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("bootstrap = ", "it is not TOML: Invalid value (at end of document)"),
        ("security.protocol=SASL_SSL", 'it is not TOML: Invalid value (at line 1, column 19); write NAME = "VALUE"'),
        ("bootstrap = 'a:1'\n[kafka", "it is not TOML"),
        ('boostrap = "a:1"', "boostrap: there is no such setting; did you mean 'bootstrap'?"),
        (
            'security.protocol = "SSL"',
            "security: there is no such setting; known are bootstrap, namespace",
        ),
        ('bootstrap = ["a:1"]', "bootstrap is a list: it is a text"),
        ('bootstrap = "a"', "bootstrap is 'a': the port is missing; write 'host:port', as in 'a:9092'"),
        ('namespace = "a b"', "namespace is 'a b': use at most"),
        ('kafka = "x"', "kafka is a str: it is a table; write [kafka] and the settings below it"),
        ('[kafka]\n"group.id" = "x"', "group.id cannot be set: it decides "),
        ("[kafka]\nenable.idempotence = false", "enable.idempotence cannot be set: it decides whether a message"),
        (
            '[kafka]\nbootstrap.servers = "x:1"',
            "bootstrap.servers cannot be set: --bootstrap or JBM_BOOTSTRAP gives it",
        ),
        ('[kafka]\n"no.such" = "x"', 'no.such: No such configuration property: "no.such"'),
        ('[kafka]\n"debug" = ["x"]', "debug is a list; write a text, a number, true or false"),
        ("[kafka]\nlinger.ms = true", "linger.ms is 'true': Invalid value for configuration property"),
        ("[kafka]\ndebug = 1979-05-27", "debug is a date; write a text"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_with_its_place_and_remedy(
    tell: Tell, tmp_path: Path, content: str, told: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(content)
    said = tell("--config", str(path))
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith(f"jbm-x: {path}")
    assert told in said.stderr
    assert said.stderr.count("\n") == 1


def test_a_mark_that_an_editor_puts_before_the_text_is_no_mistake(
    tell: Tell, seen: list[Cluster], tmp_path: Path
) -> None:
    """It said that it is not TOML."""
    path = tmp_path / "marked.toml"
    path.write_text('bootstrap = "a:1"', encoding="utf-8-sig")
    assert tell("--config", str(path)).exit_code == 0
    assert seen[0].bootstrap == "a:1"


def test_a_file_that_cannot_be_read_is_one_line(tell: Tell, tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert tell("--config", str(missing)).stderr == (
        f"jbm-x: {missing}: No such file or directory; name a config file that can be read\n"
    )
    assert f"{tmp_path}: Is a directory" in tell(JBM_CONFIG=str(tmp_path)).stderr
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'namespace = "\xe4"')
    assert "it is not UTF-8 text" in tell("--config", str(latin)).stderr


@pytest.mark.parametrize(
    ("options", "environment", "told"),
    [
        (("--kafka-property", "secret"), {}, "--kafka-property: write KEY=VALUE, for example security.protocol="),
        (("--kafka-property", "=secret"), {}, "--kafka-property: write KEY=VALUE"),
        (("--kafka-property", "no.such=secret"), {}, "--kafka-property no.such: No such"),
        (("--kafka-property", "acks=1"), {}, "--kafka-property acks cannot be set: it decides whether a message"),
        (("--kafka-property", "sasl.jaas.config=secret"), {}, "Java JAAS configuration is not supported"),
        (
            ("--kafka-property", "bootstrap.servers=a:1"),
            {},
            "--kafka-property bootstrap.servers cannot be set: --bootstrap or JBM_BOOTSTRAP gives it; leave it out",
        ),
        ((), {"JBM_KAFKA_NO_SUCH": "secret"}, "JBM_KAFKA_NO_SUCH (no.such): No such"),
        ((), {"JBM_KAFKA_LINGER_MS": "x"}, "JBM_KAFKA_LINGER_MS (linger.ms) is 'x': Invalid value for configuration"),
        (
            ("--kafka-property", "linger.ms=5ms"),
            {},
            "--kafka-property linger.ms is '5ms': it is a number of milliseconds below 3000, as in 5",
        ),
        ((), {"JBM_BOOTSTRAP": "kafka://billing:secret@a:1"}, "JBM_BOOTSTRAP is 'kafka://***@a:1': credentials do not"),
        (("--bootstrap", "billing:secret@a:1"), {}, "--bootstrap is '***@a:1': credentials do not belong in the "),
        ((), {"JBM_KAFKA_SASL_PASSWORD": "secret"}, "JBM_KAFKA_SASL_PASSWORD (sasl.password): it would not be used"),
        (
            ("--kafka-property", "security.protocol=SASL_SSL"),
            {},
            "Kafka's properties: client setting 'sasl.mechanism': security.protocol SASL_SSL needs it: set it to PLAIN",
        ),
        ((), {"JBM_KAFKA_GROUP_ID": "secret"}, "JBM_KAFKA_GROUP_ID (group.id) cannot be set: it decides "),
        ((), {"JBM_BOOTSTRAP": "nowhere"}, "JBM_BOOTSTRAP is 'nowhere': the port is missing; write"),
        ((), {"JBM_NAMESPACE": "a/b"}, "JBM_NAMESPACE is 'a/b': use at most"),
        (("--namespace", ".x"), {}, "--namespace is '.x': use at most"),
    ],
)
def test_a_wrong_option_or_variable_is_one_line_that_names_it_and_no_secret(
    tell: Tell, options: tuple[str, ...], environment: dict[str, str], told: str
) -> None:
    said = tell(*options, **environment)
    assert (said.exit_code, said.stdout) == (2, "")
    assert told in said.stderr
    assert "secret" not in said.stderr
    assert said.stderr.count("\n") == 1
