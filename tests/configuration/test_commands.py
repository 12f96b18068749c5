"""Every command reads the configuration; `jbm-kafka config` checks and shows it."""

import json
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from jbm_kafka.cli.main import cli, main
from jbm_kafka.providers.in_memory import use_world
from jbm_spark.cli import main as job
from jbm_spark.cli.job_command import cli as jobs
from tests.configuration.conftest import Write

NEED_NO_CLUSTER = {
    "broker": "the local one",
    "docs": "prints a page",
    "config schema": "of the file's form",
    "sidecar user": "prints lines",
    "bench-instructions": "has one of its own",
    **dict.fromkeys(("outbox create", "outbox list", "outbox retry", "outbox drop"), "speaks to the database alone"),
    **dict.fromkeys(("store show", "store drop"), "looks into a folder"),
    "erase": "rewrites an archive alone",
}


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        elif command is not None:
            yield f"{before}{name}", command


@pytest.mark.parametrize("group", [cli, jobs])
def test_every_command_takes_the_same_options(group: click.Group) -> None:
    wanted = {"bootstrap", "namespace", "kafka_property", "cluster_name", "config"}
    without = [
        name
        for name, command in commands(group)
        if not wanted <= {each.name for each in command.params} and not name.startswith(tuple(NEED_NO_CLUSTER))
    ]
    assert without == []


@pytest.mark.parametrize(
    "command",
    [
        *(
            "list",
            "show orders",
            "create orders",
            "send orders --text x",
            "receive orders --timeout 1",
            "browse orders",
        ),
        *("explain orders", "doctor", "exporter --port 0", "provision --queues orders", "settings list", "sidecar run"),
        *("subscriptions list prices", "dead-letters list", "truncate orders"),
    ],
)
def test_commands_speak_to_the_files_cluster(write: Write, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """CONF-1: they look in the current folder, too."""
    write(
        '[clusters.there]\nbootstrap = "127.0.0.1:1"\n[users.anonymous]\nsend = ["#"]\n[amqp]\nlisteners = [{url = "amqp://127.0.0.1:0"}]\n'
    )
    assert main(command.split()) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["archive orders --to out", "audit orders", "load x.csv orders", "bench"])
def test_jobs_of_spark_read_it_too(write: Write, capsys: pytest.CaptureFixture[str], command: str) -> None:
    write('bootstrap = "127.0.0.1"\n')
    assert job(command.split()) == 2
    assert "jbm-kafka.toml, bootstrap is '127.0.0.1': the port is missing" in capsys.readouterr().err


def test_the_exporters_port_is_of_the_file(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is taken, so that it ends at once and names it."""
    world = use_world(secrets.token_hex(4))
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        write(f'bootstrap = "memory://{world.name}"\nexporter.port = {port}\n')
        assert main(["exporter"]) == 1
    world.let_go()
    assert str(port) in capsys.readouterr().err


def test_a_right_configuration_has_nothing_wrong(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write('bootstrap = "a:1"\n[workers.ship]\ntarget = "shop:worker"\n[console]\nlisten = "localhost:8161"\n')
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == f"{path.name}: nothing is wrong\n"
    assert main(["config", "check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": path.name, "faults": [], "notes": []}


def test_the_store_of_large_bodies_is_checked(write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """CONF-4."""
    write(f'bootstrap = "a:1"\nlarge_bodies = "file:{tmp_path}"\nconnection.large_body_bytes = 1000\n')
    assert main(["config", "check"]) == 0
    write('bootstrap = "a:1"\nlarge_bodies = "file:bodies"\n')
    capsys.readouterr()
    assert main(["config", "check"]) == 3
    said = capsys.readouterr().out
    assert said.startswith("large_bodies is 'file:bodies': write file:/"), said


def test_a_file_with_two_clusters_and_no_choice_is_told(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """CONF-3: nothing in it is wrong, and a command without a choice would refuse it."""
    write('[clusters.here]\nbootstrap = "here:1"\n[clusters.there]\nbootstrap = "there:1"\n')
    assert main(["config", "check"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("nothing is wrong\n")
    assert "there are the clusters here, there; say which: --cluster NAME" in said.err
    assert main(["config", "check", "--cluster", "here"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["config", "check", "--cluster", "nowhere"]) == 3
    assert "there is no such cluster" in capsys.readouterr().out


def test_each_table_is_checked_by_those_that_use_it(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONF-4: all at once."""
    write("""
bootstrap = "a"
destinations.queues = ["orders", "orders"]
amqp.listeners = [{url = "http://a"}]
users.joe.send = ["#"]
[clusters.b]
bootstrap = "b:1"
kafka.linger.ms = "x"
[clusters.c]
bootstrap = "c:1"
namespace = "a b"
[workers.ship]
target = "shop:worker"
concurrency = 2
[workers.pay]
target = "pay"
queue = "a b"
[console]
listen = "0.0.0.0:8161"
certificate = "none.pem"
schema_registry = "registry:8081"
[users.ann]
password = "open sesame"
look = ["#"]
""")
    monkeypatch.setenv("JBM_BOTSTRAP", "a:1")
    monkeypatch.setenv("JBM_HOME", "/somewhere")
    assert main(["config", "check"]) == 3
    lines = capsys.readouterr().out.splitlines()
    for line, beginning in zip(
        lines,
        [
            "JBM_BOTSTRAP: there is no such variable; did you mean JBM_BOOTSTRAP?",
            "jbm-kafka.toml, bootstrap is 'a': the port is missing",
            "jbm-kafka.toml, clusters.b.kafka.linger.ms is 'x': ",
            "jbm-kafka.toml, clusters.c.namespace is 'a b': use at most",
            "jbm-kafka.toml: amqp.listeners[0].url is 'http://a': write amqp://HOST:PORT",
            "jbm-kafka.toml: 'orders' is named twice",
            "jbm-kafka.toml, workers.ship.concurrency: it goes with queue",
            "jbm-kafka.toml, workers.pay.queue is 'a b': ",
            "jbm-kafka.toml, workers.pay.target: 'pay': write MODULE:NAME",
            "jbm-kafka.toml: users.ann.password is no such line; write the SCRAM-SHA-256$... that `jbm-kafka sidecar",
            "jbm-kafka.toml: console.certificate is 'none.pem': No such file or",
            "jbm-kafka.toml: schema_registry is 'registry:8081': it is https://HOST:PORT of a schema registry",
        ],
        strict=True,
    ):
        assert line.startswith(beginning)


def test_each_value_is_shown_with_its_place(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write('drain_s = 5\n[clusters.there]\nbootstrap = "there:1"\nkafka.linger.ms = 5\n')
    monkeypatch.setenv("JBM_EXPORTER__PORT", "9000")
    assert main(["config", "show", "--json", "--namespace", "shop"]) == 0
    shown = {each["setting"]: (each["value"], each["origin"]) for each in json.loads(capsys.readouterr().out)}
    assert shown == {
        "bootstrap": ("there:1", "jbm-kafka.toml, clusters.there.bootstrap"),
        "namespace": ("shop", "--namespace"),
        "kafka.linger.ms": ("5", "jbm-kafka.toml, clusters.there.kafka.linger.ms"),
        "clusters.there.bootstrap": ("there:1", "jbm-kafka.toml, clusters.there.bootstrap"),
        "clusters.there.kafka.linger.ms": ("5", "jbm-kafka.toml, clusters.there.kafka.linger.ms"),
        "amqp.drain_s": (5.0, "jbm-kafka.toml, drain_s"),
        "exporter.port": (9000, "JBM_EXPORTER__PORT"),
    }
    assert main(["config", "show", "--all", "--json"]) == 0
    everything = {each["setting"]: each["origin"] for each in json.loads(capsys.readouterr().out)}
    assert everything["console.listen"] == "default"
    assert everything["amqp.verify_user_id"] == "default"


def test_the_schema_knows_each_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["additionalProperties"] is False
    assert {"bootstrap", "clusters", "connection", "workers", "users", "amqp", "console"} <= schema["properties"].keys()
    assert schema["$defs"]["ConnectionTable"]["properties"]["prefetch"]["anyOf"][0]["maximum"] == 1_000_000
    assert "connections" in schema["$defs"]["AmqpTable"]["properties"]["limits"]["propertyNames"]["enum"]


@pytest.mark.parametrize(
    ("text", "command", "told"),
    [
        ("", "run", "name what to run, MODULE:NAME or a worker of the configuration: the configuration has no"),
        ('workers.a.target = "a:a"\nworkers.b.target = "b:b"', "run", "[workers] has a, b"),
        ('workers.ship.target = "a:a"', "run shp", "'shp': write MODULE:NAME, or the name of a worker"),
        ('workers.ship.target = "a:a"', "run shp", "known are ship; did you mean 'ship'?"),
        ('workers.ship.target = "no.such:a"', "run ship", "no.such"),
        ("", "config check a.toml --config b.toml", "FILE and --config are the same; leave one out"),
    ],
)
def test_wrong_usage_is_one_line(
    write: Write, capsys: pytest.CaptureFixture[str], text: str, command: str, told: str
) -> None:
    write(text)
    assert main(command.split()) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
