"""The other ways to install, each in an environment of its own: from the sdist, compiled, with Spark; and in use."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import jbm_kafka
from jbm_kafka.devbroker import LocalBroker
from tests.dist.conftest import Built, Environment, build, environment

pytestmark = pytest.mark.slow

ARE_USED = "from jbm_kafka import compiled; print(compiled.are_used())"

PROGRAM = """
from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue, Session, __version__

def work(session: Session, message: Message) -> str:
    message.acknowledge()
    return message.message_id or ""

factory = ConnectionFactory("localhost:9092", address_settings={"a": AddressSettings(max_delivery_attempts=3)})
with factory.create_connection() as connection:
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    reveal_type(session)
    for message in session.create_consumer(Queue("a")):
        reveal_type(work(session, message))
print(__version__)
"""


USERS_TEST = """
from jbm_kafka import Queue

def test_an_order_comes(jbm_memory):
    with jbm_memory.factory().create_connection() as connection:
        session = connection.create_session()
        session.create_producer(Queue("orders")).send("2 books")
        assert session.create_consumer(Queue("orders")).receive(timeout=10).body == "2 books"
"""


@pytest.fixture
def broker_home(tmp_path: Path) -> Iterator[Path]:
    """A folder for JBM_HOME; a broker that is started there is gone when the test ends."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("no Java or no Maven here")
    yield tmp_path / "home"
    LocalBroker(tmp_path / "home" / "broker").kill()


def test_the_sdist_installs(built: Built, tmp_path: Path) -> None:
    made = environment(tmp_path)
    made.install(built.sdist)
    done = made.run("jbm-kafka", "--version")
    assert (done.returncode, done.stdout) == (0, f"jbm-kafka {jbm_kafka.__version__}\n"), done.stderr
    assert made.run("python", "-c", ARE_USED).stdout == "False\n"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_sdist_installs_compiled_where_pip_builds_it_alone(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_BUILD_HOOK_ENABLE_CUSTOM", "1")
    made = environment(tmp_path)
    made.install(built.sdist)
    assert made.run("python", "-c", ARE_USED).stdout == "True\n"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_compiled_wheel_is_for_this_platform_and_can_be_used_as_source(tmp_path: Path) -> None:
    compiled = build(tmp_path / "dist", {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"})
    assert not compiled.wheel.name.endswith("-none-any.whl")
    made = environment(tmp_path)
    made.install(compiled.wheel)
    assert made.run("python", "-c", ARE_USED).stdout == "True\n"
    assert made.run("python", "-c", "import jbm_kafka.core.channel.offer as m; print(m.__file__)").stdout.endswith(".so\n")
    as_source = made.run("python", "-c", "import jbm_kafka.core.channel.offer as m; print(m.__file__)", JBM_PURE="1")
    assert as_source.stdout.endswith(".py\n"), as_source.stderr


def test_a_users_program_is_checked_strictly_against_the_wheel(built: Built, tmp_path: Path) -> None:
    made = environment(tmp_path)
    made.install(built.wheel, "mypy")
    (made.work / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = made.run("python", "-m", "mypy", "--strict", "program.py")
    assert done.returncode == 0, done.stdout
    assert "Success" in done.stdout
    assert "jbm_kafka.jms.session.Session" in done.stdout
    assert '"str"' in done.stdout or '"builtins.str"' in done.stdout


def test_a_users_test_finds_the_fixtures(built: Built, tmp_path: Path) -> None:
    made = environment(tmp_path)
    made.install(built.wheel, "pytest")
    (made.work / "test_orders.py").write_text(USERS_TEST, encoding="utf-8")
    done = made.run("python", "-m", "pytest", "-q")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_demo_of_the_wheel_runs(installed: Environment, broker_home: Path) -> None:
    done = installed.run("jbm-kafka", "demo", "--no-spark", JBM_HOME=str(broker_home))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_spark_job_runs_with_the_extra_and_fetches_its_jars(built: Built, tmp_path: Path, broker_home: Path) -> None:
    made = environment(tmp_path)
    made.install(f"{built.wheel}[spark]")
    where = {"JBM_HOME": str(broker_home), "JBM_CACHE": str(tmp_path / "cache")}
    started = made.run("jbm-kafka", "broker", "start", "--json", JBM_HOME=str(broker_home))
    assert started.returncode == 0, started.stderr
    bootstrap = json.loads(started.stdout)["bootstrap"]
    for command in (["create", "DLQ"], ["send", "DLQ", "--text", "a letter"]):
        assert made.run("jbm-kafka", *command, **where).returncode == 0
    done = made.run("jbm-spark", "dead-letters", "--json", "--bootstrap", bootstrap, **where)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["groups"][0]["count"] == 1
    assert len(list((tmp_path / "cache").rglob("*.jar"))) == 5
