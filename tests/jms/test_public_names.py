"""What `jbm_kafka` exports is there, and is loaded only when asked for."""

import pickle
import re
import subprocess
import sys
import tomllib
import traceback

import pytest

import jbm_kafka
from jbm_kafka import errors, version
from jbm_kafka.cli.api_pages import api_page
from tests.house.sources import ROOT


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(jbm_kafka, name) is not None for name in jbm_kafka.__all__)
    with pytest.raises(AttributeError, match="'NoSuchName'"):
        _ = jbm_kafka.NoSuchName  # type: ignore[attr-defined]


def test_a_folder_that_is_not_loaded_yet_is_asked_for_in_the_same_way() -> None:
    from jbm_kafka import cli

    assert cli.__name__ == "jbm_kafka.cli"


def test_the_codec_of_a_spark_job_loads_neither_rocksdb_nor_a_kafka_client() -> None:
    script = "import sys, jbm_kafka.codec.dead_letter; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rocksdict", "confluent_kafka"} & set(loaded)


def test_dir_lists_what_nobody_has_asked_for_yet() -> None:
    script = "import jbm_kafka; print(*(n for n in dir(jbm_kafka) if not n.startswith('__') or n == '__version__'))"
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(jbm_kafka.__all__)


def test_the_version_is_that_of_pyproject() -> None:
    assert jbm_kafka.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(("command", "module"), [("jbm-kafka", "jbm_kafka.cli.main"), ("jbm-spark", "jbm_spark.cli")])
def test_a_command_tells_its_version(command: str, module: str) -> None:
    told = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{command} {jbm_kafka.__version__}\n"


def test_a_package_that_was_not_installed_has_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert version.version.__wrapped__() == version.UNKNOWN  # not what was found before


OF_ONE_TYPE = re.compile(r"[gs]et_(boolean|byte|short|long|float|double|string|object)_property")
"""`get_int_property` and `set_int_property` stand for all."""


@pytest.mark.parametrize("name", errors.__all__)
def test_a_traceback_shows_an_error_where_applications_import_it_from(name: str) -> None:
    """It named jbm_kafka.core.jms_errors, which is on no page."""
    kind = getattr(errors, name)
    assert traceback.format_exception_only(kind("full")) == [f"jbm_kafka.errors.{name}: full\n"]
    assert type(pickle.loads(pickle.dumps(kind("full")))) is kind


def test_objects_show_what_the_page_of_names_has() -> None:
    """Attributes that an object is given when it is made are in no class; `dir` of one shows them."""
    page = set(re.findall(r"\w+", api_page("api")))
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
