"""What is told where the extra `spark` was not installed. tests/dist sees the same from a wheel."""

import subprocess
import sys
import tomllib

import pytest

from tests.house.sources import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = next(each for each in PYPROJECT["project"]["optional-dependencies"]["spark"] if each.startswith("pyspark"))
TOLD = f"PySpark is not installed: pip install '{PINNED}'"
"""An earlier text named the package, which pip does not find where it came as a file."""


def run(code: str) -> "subprocess.CompletedProcess[str]":
    """In a process in which no PySpark can be found."""
    hidden = "import sys; sys.modules['pyspark'] = None; "
    return subprocess.run([sys.executable, "-c", hidden + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["messages", "columns", "session"])
def test_a_module_that_needs_pyspark_says_in_one_line_what_to_install(module: str) -> None:
    done = run(f"import jbm_spark.{module}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"jbm_spark.errors.PySparkMissingError: {TOLD}"
    assert done.stderr.count("Error") == 1, done.stderr


def test_the_demo_says_before_its_work_what_to_install() -> None:
    done = run("from jbm_kafka.cli.main import main; sys.exit(main(['demo', '--bootstrap', '127.0.0.1:1']))")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"jbm-kafka: {TOLD}, or leave it out with --no-spark\n"


def test_it_is_an_import_error_that_names_the_module() -> None:
    done = run("\ntry:\n    import jbm_spark.messages\nexcept ImportError as error:\n    print(error.name, error)")
    assert (done.stdout, done.stderr) == (f"pyspark {TOLD}\n", "")


def test_another_missing_module_is_told_as_such() -> None:
    hidden = "import sys; sys.modules['py4j'] = None; import jbm_spark.messages"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "py4j" in done.stderr.splitlines()[-1]
    assert "not installed" not in done.stderr


def test_its_modules_are_imported_from_the_package_and_a_name_of_one_of_them_is_not() -> None:
    done = run("from jbm_spark import errors, jars; print(errors.__name__, jars.__name__); import jbm_spark.nothing")
    assert done.stdout == "jbm_spark.errors jbm_spark.jars\n"
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'jbm_spark.nothing'"
    assert run("import jbm_spark; print(hasattr(jbm_spark, 'build_session'), hasattr(jbm_spark, 'x'))").stdout == (
        "False False\n"
    )


def test_the_package_itself_and_its_errors_need_no_pyspark() -> None:
    done = run("import jbm_spark, jbm_spark.errors, jbm_spark.jars; print([m for m in sys.modules if 'pyspark.' in m])")
    assert (done.stdout, done.stderr) == ("[]\n", "")
