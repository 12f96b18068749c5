"""What a user gets from the wheel alone: outside the tree, in an environment of its own, without the extras."""

import re
import shutil
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import jbm_kafka
from jbm_kafka.cli.main import COMMANDS
from jbm_kafka.devbroker import LocalBroker
from tests.dist.conftest import Built, Environment
from tests.house.release_check import wrong_in
from tests.house.sources import ROOT

pytestmark = pytest.mark.thorough

IN_MEMORY = """
from jbm_kafka import ConnectionFactory, Queue

with ConnectionFactory("memory://first").create_connection() as connection:
    session = connection.create_session()
    session.create_producer(Queue("orders")).send("hello")
    print(session.create_consumer(Queue("orders")).receive(timeout=10).body)
"""

DATA = {".LICENSE", ".avsc", ".css", ".html", ".jar", ".js", ".json", ".jsonl", ".properties", ".sha256", ".svg", ".typed", ".xml"}


def test_the_wheel_is_pure_and_holds_every_file_of_the_packages_and_no_other(built: Built) -> None:
    assert built.wheel.name == f"jbm_kafka-{jbm_kafka.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(built.wheel).namelist()
    ours = {name for name in names if ".dist-info/" not in name}
    wanted = set()
    for root, package in ((ROOT, "jbm_kafka"), (ROOT / "spark", "jbm_spark"), (ROOT / "spark", "pyspark_jbm")):
        files = [path for path in (root / package).rglob("*") if path.suffix in {".py", *DATA}]
        wanted |= {path.relative_to(root).as_posix() for path in files}
    wanted |= {f"jbm_kafka/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "schemas").rglob("*.avsc")}
    wanted |= {
        f"jbm_kafka/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "docs").rglob("*") if path.is_file()
    }
    assert ours == wanted


def test_a_registry_refuses_nothing_of_the_wheel(built: Built) -> None:
    assert [line for line in wrong_in(built.wheel, jbm_kafka.__version__) if "console-scripts" not in line] == []


def test_what_a_registry_shows_has_its_makers_and_no_link_that_leads_nowhere_there(built: Built) -> None:
    archive = zipfile.ZipFile(built.wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    shown = Parser().parsestr(archive.read(name).decode())
    assert (shown["Author"], shown["Author-email"]) == ("The jbm-kafka developers", None)
    assert shown["Description-Content-Type"] == "text/markdown"
    assert shown.get_all("Project-URL") is None
    text = shown.get_payload()
    assert isinstance(text, str)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    assert "the tutorial (`docs/tutorial.md`)" in text


def test_the_sdist_holds_what_a_build_and_a_reader_need_and_nothing_else(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"hatch_build.py", "setup.py", "pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "constraints.txt"}
    assert needed <= names
    assert {name.partition("/")[0] for name in names - needed} == {
        ".gitignore", "PKG-INFO", "docs", "jbm_kafka", "schemas", "spark"
    }  # fmt: skip
    assert not {name for name in names if name.endswith((".so", ".pyc"))}
    assert {name for name in names if name.endswith(".jar")} == {"spark/jbm_spark/jbm-spark.jar"}


def test_the_library_imports_from_the_environment_and_finds_its_schemas(installed: Environment) -> None:
    code = "import jbm_kafka; from jbm_kafka.codec.schemas import codec; codec('Held'); print(jbm_kafka.__file__)"
    done = installed.run("python", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(installed.folder))
    assert done.stdout.strip().endswith("site-packages/jbm_kafka/__init__.py")


def test_every_module_of_the_library_imports_without_the_extras(installed: Environment) -> None:
    code = (
        "import importlib, pkgutil, jbm_kafka\n"
        "names = [found.name for found in pkgutil.walk_packages(jbm_kafka.__path__, 'jbm_kafka.')]\n"
        "names = [name for name in names if not name.endswith(('__main__', '.pytest_plugin'))]\n"
        "extras = ('amqp', 'cli.console_file', 'console', 'metrics', 'otel', 'outbox.')\n"
        "extras = (*extras, 'bridge.bridge_collector', 'bridge.amqp_source')\n"
        "extras = tuple(f'jbm_kafka.{name}' for name in extras)\n"
        "names = [name for name in names if not name.startswith(extras)]\n"
        "print(len([importlib.import_module(name) for name in names]))\n"
    )
    done = installed.run("python", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 150


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("jbm_kafka.metrics", "prometheus-client is not installed: pip install 'jbm-kafka[metrics]'"),
        ("jbm_kafka.otel", "opentelemetry-api is not installed: pip install 'jbm-kafka[otel]'"),
        (
            "jbm_kafka.outbox as it; it.XaTransaction; it.Outbox",
            "sqlalchemy is not installed: pip install 'jbm-kafka[outbox]'",
        ),
    ],
)
def test_a_module_of_an_extra_tells_what_to_install(installed: Environment, module: str, told: str) -> None:
    done = installed.run("python", "-c", f"import {module}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {told}"


def test_every_command_is_there(installed: Environment) -> None:
    for command in ("jbm-kafka", "jbm-spark"):
        told = installed.run(command, "--version")
        assert (told.returncode, told.stdout) == (0, f"{command} {jbm_kafka.__version__}\n"), told.stderr
    code = "import sys; from jbm_kafka.cli.main import main; sys.exit(any(main([c, '--help']) for c in sys.argv[1:]))"
    done = installed.run("python", "-c", code, *COMMANDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: jbm-kafka") == len(COMMANDS)


def test_a_spark_job_without_the_extra_is_refused_in_one_line(installed: Environment) -> None:
    done = installed.run("jbm-spark", "dead-letters", "--bootstrap", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "PySpark is not installed: pip install 'pyspark==" in done.stderr


def test_a_spark_program_without_the_extra_is_told_what_to_install(installed: Environment) -> None:
    done = installed.run("python", "-c", "from jbm_spark.messages import messages")
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert told.startswith("jbm_spark.errors.PySparkMissingError: PySpark is not installed: pip install 'pyspark==")


def test_the_jars_of_spark_without_the_extra_are_refused_in_one_line(installed: Environment, tmp_path: Path) -> None:
    done = installed.run("python", "-m", "jbm_spark.jars", "fetch", JBM_CACHE=str(tmp_path))
    assert done.returncode == 1
    assert re.fullmatch(r"PySpark is not installed: pip install 'pyspark==[0-9.]+'\n", done.stderr)


def test_a_message_in_memory_needs_nothing_but_the_wheel(installed: Environment, tmp_path: Path) -> None:
    (installed.work / "in_memory.py").write_text(IN_MEMORY, encoding="utf-8")
    done = installed.run("python", "in_memory.py", PATH=str(tmp_path), HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_java_and_a_missing_maven_are_told_in_one_line_each(installed: Environment, tmp_path: Path) -> None:
    where = {"JBM_CACHE": str(tmp_path / "cache"), "JBM_HOME": str(tmp_path / "home"), "JAVA_HOME": ""}
    done = installed.run("jbm-kafka", "broker", "start", PATH=str(tmp_path), **where)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "found no java: install a Java 17 runtime" in done.stderr
    _java(tmp_path / "java", version="11.0.2")
    done = installed.run("jbm-kafka", "broker", "start", PATH=str(tmp_path), **where)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is Java 11: install a Java 17 runtime" in done.stderr
    _java(tmp_path / "java", version="17.0.2")
    done = installed.run("jbm-kafka", "broker", "start", PATH=str(tmp_path), **where)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Maven (mvn), which fetches them, was not found: install it" in done.stderr


def test_a_broker_started_by_the_installed_command_takes_a_message(installed: Environment, tmp_path: Path) -> None:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("no Java or no Maven here")
    try:
        started = installed.run("jbm-kafka", "broker", "start", JBM_HOME=str(tmp_path))
        assert started.returncode == 0, started.stderr
        for command in (["create", "parcels"], ["send", "parcels", "--text", "parcel 1"]):
            done = installed.run("jbm-kafka", *command, JBM_HOME=str(tmp_path))
            assert done.returncode == 0, done.stderr
        received = installed.run("jbm-kafka", "receive", "parcels", JBM_HOME=str(tmp_path))
        assert (received.returncode, received.stderr) == (0, "")
        assert "parcel 1" in received.stdout
        assert installed.run("jbm-kafka", "broker", "stop", JBM_HOME=str(tmp_path)).returncode == 0
    finally:
        LocalBroker(tmp_path / "broker").kill()


def _java(path: Path, *, version: str) -> None:
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
