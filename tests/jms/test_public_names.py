"""What `jbm_kafka` exports is there, and is loaded only when asked for."""

import inspect
import pickle
import pydoc
import re
import subprocess
import sys
import tomllib
import traceback
import typing

import pytest

import jbm_kafka
from jbm_kafka import admin, errors, version
from jbm_kafka.admin import Admin
from tests.house.sources import ROOT


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(jbm_kafka, name) is not None for name in jbm_kafka.__all__)
    with pytest.raises(AttributeError, match="'NoSuchName'"):
        _ = jbm_kafka.NoSuchName  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Admin", ": it is in jbm_kafka.admin"),
        ("MemoryWorld", ": it is in jbm_kafka.testing.memory_world"),
        ("JMSError", ": it is in jbm_kafka.errors"),
        ("ConectionFactory", "; 'ConnectionFactory' is meant, probably"),
        ("Consumer", "; 'MessageConsumer' is meant, probably"),
        ("Producer", "; 'MessageProducer' is meant, probably"),
        ("AckMode", "; 'AcknowledgeMode' is meant, probably"),
        ("State", "; 'MessageState' is meant, probably"),
        ("Listener", "; 'MessageListener' is meant, probably"),
        ("Destinations", "; 'Destination' is meant, probably"),
        ("KafkaVeiw", "; 'KafkaView' is meant, probably"),
        ("NoSuchName", ""),
        ("__nothing__", ""),
    ],
)
def test_a_name_that_is_elsewhere_or_misspelt_says_so(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(jbm_kafka, name)
    assert str(refused.value) == f"module 'jbm_kafka' has no attribute {name!r}{told}"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("from jbm_kafka import JMSError", "'JMSError' from 'jbm_kafka': it is in jbm_kafka.errors"),
        ("from jbm_kafka import Admin", "'Admin' from 'jbm_kafka': it is in jbm_kafka.admin"),
        (
            "from jbm_kafka.testing import MemoryWorld",
            "'MemoryWorld' from 'jbm_kafka.testing': it is in jbm_kafka.testing.memory_world",
        ),
        (
            "from jbm_kafka.testing import jbm_broker",
            "'jbm_broker' from 'jbm_kafka.testing': it is a fixture of pytest; name it as an argument of the test",
        ),
        ("from jbm_spark import build_session", "'build_session' from 'jbm_spark': it is in jbm_spark.session"),
        ("from jbm_spark import write_messages", "'write_messages' from 'jbm_spark': it is in jbm_spark.messages"),
        (
            "from jbm_kafka import KafkaConsumer",
            "'KafkaConsumer' from 'jbm_kafka'; that is a Kafka client's, write "
            "ConnectionFactory('host:port').create_context().create_consumer(Queue('orders'))",
        ),
        (
            "from jbm_kafka import KafkaAdminClient",
            "'KafkaAdminClient' from 'jbm_kafka'; that is a Kafka client's, write from jbm_kafka.admin import Admin",
        ),
        ("from jbm_spark import QueryError", "'QueryError' from 'jbm_spark': it is in jbm_spark.errors"),
        (
            "from jbm_spark import read_messages",
            "'read_messages' from 'jbm_spark'; 'write_messages' is meant, probably",
        ),
        ("from jbm_kafka import Sesion", "'Sesion' from 'jbm_kafka'; 'Session' is meant, probably"),
        (
            "from jbm_kafka.errors import JMSException",
            "'JMSException' from 'jbm_kafka.errors'; 'JMSError' is meant, probably",
        ),
        ("from jbm_kafka.errors import JMSErorr", "'JMSErorr' from 'jbm_kafka.errors'; 'JMSError' is meant, probably"),
    ],
)
def test_an_import_of_a_name_that_is_elsewhere_says_no_more_than_that_it_is_not_here(statement: str, told: str) -> None:
    """It did; Python's own ImportError knows nothing of where it is."""
    with pytest.raises(ImportError) as refused:
        exec(statement)
    assert str(refused.value) == f"cannot import name {told}"


def test_a_name_that_is_not_there_is_an_attribute_error_for_who_asks_whether_it_is() -> None:
    assert not hasattr(jbm_kafka, "JMSError")
    assert not hasattr(errors, "JMSException")
    with pytest.raises(AttributeError, match="has no attribute 'JMSException'; 'JMSError' is meant"):
        _ = errors.JMSException  # type: ignore[attr-defined]
    from jbm_kafka import cli  # a folder that may not be loaded yet is asked for by the same way

    assert cli.__name__ == "jbm_kafka.cli"


def test_the_codec_of_a_spark_job_loads_neither_rocksdb_nor_a_kafka_client() -> None:
    script = "import sys, jbm_kafka.codec.dead_letter; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rocksdict", "confluent_kafka"} & set(loaded)


def test_dir_lists_what_nobody_has_asked_for_yet() -> None:
    script = "import jbm_kafka; print(*(n for n in dir(jbm_kafka) if not n.startswith('__') or n == '__version__'))"
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(jbm_kafka.__all__)


def test_dir_of_the_administration_listed_its_modules() -> None:
    script = "import jbm_kafka.admin as admin; print(*(name for name in dir(admin) if not name.startswith('__')))"
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(admin.__all__)


def test_help_of_the_package_shows_its_classes() -> None:
    text = pydoc.plain(pydoc.render_doc(jbm_kafka))
    assert all(f"class {name}(" in text for name in ("Session", "Context", "MessageConsumer", "QueueBrowser"))


def test_the_version_is_that_of_pyproject() -> None:
    assert jbm_kafka.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(("command", "module"), [("jbm-kafka", "jbm_kafka.cli.main"), ("jbm-spark", "jbm_spark.cli")])
def test_a_command_tells_its_version(command: str, module: str) -> None:
    told = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{command} {jbm_kafka.__version__}\n"


def test_a_package_that_was_not_installed_has_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert version.version() == version.UNKNOWN


MANUALS = [
    *(jbm_kafka.Session, jbm_kafka.Connection, jbm_kafka.Context, jbm_kafka.MessageProducer, jbm_kafka.MessageConsumer),
    *(jbm_kafka.ConnectionFactory, jbm_kafka.QueueBrowser, jbm_kafka.Message, Admin),
]
OF_ONE_TYPE = re.compile(r"[gs]et_(boolean|byte|short|long|float|double|string|object)_property")
"""`get_int_property` and `set_int_property` stand for all."""


@pytest.mark.parametrize("name", errors.__all__)
def test_a_traceback_shows_an_error_where_applications_import_it_from(name: str) -> None:
    """It named jbm_kafka.core.jms_errors, which is on no page."""
    kind = getattr(errors, name)
    assert traceback.format_exception_only(kind("full")) == [f"jbm_kafka.errors.{name}: full\n"]
    assert type(pickle.loads(pickle.dumps(kind("full")))) is kind


@pytest.mark.parametrize("kind", MANUALS, ids=lambda kind: str(kind.__name__))
def test_help_begins_with_every_name_in_the_order_of_use(kind: type) -> None:
    """Python lists them by the alphabet. One that is not in the overview is new, or the package's own."""
    told = set(re.findall(r"\w+", inspect.getdoc(kind) or ""))
    names = {name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}
    assert {name for name in names if not OF_ONE_TYPE.fullmatch(name)} - told == set()


@pytest.mark.parametrize("kind", [*MANUALS[:5], Admin], ids=lambda kind: str(kind.__name__))
def test_help_lists_no_method_as_another_classs(kind: type) -> None:
    inherited = pydoc.plain(pydoc.render_doc(kind)).partition("Methods inherited from")[2]
    assert re.findall(r"^ \|  ([a-z]\w*)\(", inherited, re.MULTILINE) == []


def test_objects_show_what_the_page_of_names_has() -> None:
    """Attributes that an object is given when it is made are in no class; `dir` of one shows them."""
    page = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))
    with jbm_kafka.ConnectionFactory("memory://shown-names").create_context() as context:
        connection = context._connection
        session, queue = connection.create_session(), jbm_kafka.Queue("orders")
        made = [context, connection, session, session.create_producer(queue), session.create_consumer(queue)]
        made += [
            session.create_browser(queue),
            context.create_producer(),
            connection.metadata,
            session.create_message(),
        ]
        shown = {name for each in made for name in dir(each) if not name.startswith("_")}
    assert {name for name in shown - page if not OF_ONE_TYPE.fullmatch(name)} == set()


def test_help_tells_of_every_method_and_of_its_arguments() -> None:
    """Of those, too, that are compiled: mypyc leaves docstrings out, setup.py puts them in."""
    classes = [each for each in [getattr(jbm_kafka, name) for name in jbm_kafka.__all__] if inspect.isclass(each)]
    assert jbm_kafka.MessageConsumer in classes
    silent = []
    for each in classes:
        for name, member in inspect.getmembers(each):
            if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
                silent += [] if inspect.getdoc(member) else [f"{each.__name__}.{name}"]
    assert silent == []
    assert str(inspect.signature(jbm_kafka.MessageConsumer.receive)).startswith("(self, ")
    assert "`timeout` seconds" in pydoc.plain(pydoc.render_doc(jbm_kafka.MessageConsumer.receive))
    assert inspect.getdoc(jbm_kafka.MessageConsumer.prefetch)


def test_the_text_of_the_package_tells_of_names_that_are_no_classes() -> None:
    """Their own `help()` is Python's of `Callable` and of a union."""
    values = {name: getattr(jbm_kafka, name) for name in jbm_kafka.__all__}
    aliases = {name for name, value in values.items() if typing.get_origin(value) is not None}
    assert aliases == {"CompletionListener", "ExceptionListener", "MessageListener", "UnitOfOrder"}
    assert aliases <= set(re.findall(r"\w+", jbm_kafka.__doc__ or ""))
