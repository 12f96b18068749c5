"""`jbm-kafka` on a cluster that wants TLS and a password, in a namespace: by options, environment and file."""

import json
import os
from pathlib import Path

import pytest

from jbm_kafka.admin import Admin
from jbm_kafka.cli.main import main
from tests.cli.conftest import Run, run
from tests.support.secured import ALICE, PASSWORD, SecuredBroker

pytestmark = pytest.mark.thorough

__all__ = ["run"]

NAMESPACE = "shop"


@pytest.fixture(autouse=True)
def nothing_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("JBM_KAFKA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("JBM_CONFIG", os.devnull)


@pytest.fixture
def config(secured: SecuredBroker, tmp_path: Path) -> Path:
    """A file with the address, the namespace and all of a user's properties."""
    path = tmp_path / "jbm.toml"
    # A text of JSON is a text of TOML.
    properties = [f"{name} = {json.dumps(value)}" for name, value in secured.as_user(ALICE).items()]
    lines = [f'bootstrap = "{secured.sasl}"', f'namespace = "{NAMESPACE}"', "[kafka]", *properties]
    path.write_text("\n".join(lines), encoding="utf-8")
    path.chmod(0o600)
    return path


def test_every_command_works_with_a_config_file(
    run: Run, config: Path, kafka_name: str, secured: SecuredBroker
) -> None:
    def done(*arguments: str) -> str:
        said = run(*arguments, "--config", str(config))
        assert (said.code, said.err) == (0, ""), said
        assert PASSWORD not in said.out
        return said.out

    done("create", kafka_name, "--partitions", "1")
    assert done("send", kafka_name, "--text", "hello") == f"1 sent to queue:{kafka_name}\n"
    assert kafka_name in done("list")
    assert "1 held" in done("show", kafka_name)
    assert "hello" in done("browse", kafka_name)
    assert f"no dead letters in queue:{NAMESPACE}.DLQ" in done("dead-letters", "list", "--origin", kafka_name)
    assert done("receive", kafka_name) == "hello\n"
    done("admit-partitions", kafka_name)
    with Admin(secured.open, namespace=NAMESPACE) as admin:
        assert admin.counts(kafka_name).group == f"{NAMESPACE}.jbm.queue.{kafka_name.replace('-', '%2D')}"
        assert admin.counts(kafka_name).held == 0


def test_another_namespace_has_verdicts_of_its_own(run: Run, config: Path, kafka_name: str) -> None:
    ours, theirs = ("--config", str(config)), ("--config", str(config), "--namespace", "other")
    run("create", kafka_name, "--partitions", "1", *ours)
    run("send", kafka_name, "--text", "hello", *ours)
    assert run("receive", kafka_name, *ours).out == "hello\n"
    assert run("receive", kafka_name, *theirs).out == "hello\n"


def test_the_environment_alone_reaches_it(
    run: Run, secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch, kafka_name: str
) -> None:
    monkeypatch.setenv("JBM_BOOTSTRAP", secured.sasl)
    for name, value in secured.as_user(ALICE).items():
        monkeypatch.setenv("JBM_KAFKA_" + name.upper().replace(".", "_"), value)
    assert run("create", kafka_name).code == 0


def test_options_alone_reach_it(run: Run, secured: SecuredBroker, kafka_name: str) -> None:
    options = [word for name, value in secured.as_carol().items() for word in ("--kafka-property", f"{name}={value}")]
    assert run("create", kafka_name, "--bootstrap", secured.tls, *options).code == 0


@pytest.mark.parametrize("command", [("list",), ("show", "q"), ("send", "q", "--text", "x"), ("receive", "q")])
def test_a_wrong_password_is_one_line_with_the_remedy_and_without_the_password(
    run: Run, config: Path, command: tuple[str, ...]
) -> None:
    said = run(*command, "--config", str(config), "--kafka-property", "sasl.password=guessed")
    assert (said.code, said.out) == (1, "")
    assert "does not let us in" in said.err
    assert (
        "check sasl.username, sasl.password and sasl.mechanism with --kafka-property, JBM_KAFKA_<NAME> or" in said.err
    )
    assert "guessed" not in said.err
    assert said.err.count("\n") == 1


def test_a_bug_shows_no_secret(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JBM_TRACEBACK is for a report, and a report is sent to others."""
    monkeypatch.setenv("JBM_TRACEBACK", "1")
    with pytest.raises(Exception, match="no-such") as raised:
        main(["show", "no-such", "--config", str(config)])
    assert PASSWORD not in f"{raised.getrepr(style='short')}{capsys.readouterr()}"
