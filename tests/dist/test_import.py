"""Importing the package is quick because little is loaded.

That is what is looked at here: the time itself depends on the machine, and on who else uses it.
"""

import subprocess
import sys

import pytest

HEAVY = {"confluent_kafka", "fastavro", "rocksdict", "pyroaring", "rich", "click", "importlib.metadata", "tempfile"}
"""What takes long to load, or brings much along."""


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the code."""
    script = f"{code}\nimport sys; print(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_the_package_loads_nothing_of_its_dependencies_nor_its_own_layers() -> None:
    loaded = loaded_by("import jbm_kafka")
    assert HEAVY & loaded == set()
    ours = {name for name in loaded if name.startswith("jbm_kafka.")}
    assert ours == {"jbm_kafka.compiled", "jbm_kafka.supported"}


@pytest.mark.parametrize("name", ["ConnectionFactory", "Queue", "AddressSettings", "Message", "errors"])
def test_a_name_loads_no_kafka_client_no_store_and_no_command_line(name: str) -> None:
    loaded = loaded_by(f"from jbm_kafka import {name}")
    assert loaded & (HEAVY - {"pyroaring", "tempfile"}) == set()


def test_the_list_of_commands_loads_none_of_them() -> None:
    loaded = loaded_by("import jbm_kafka.cli.main as cli; cli.main(['--help'])")
    assert loaded & (HEAVY - {"click", "tempfile"}) == set()
