"""What the configuration costs those that do not use it."""

import subprocess
import sys

import pytest

CHECK = """
import sys
loaded = [name for name in sys.modules if name.startswith(("pydantic", "jbm_kafka.configuration.models"))]
assert not loaded, loaded
"""


@pytest.mark.parametrize(
    "program",
    [
        "import jbm_kafka",
        "from jbm_kafka import ConnectionFactory; ConnectionFactory('localhost:9092')",
        "from jbm_kafka import ConnectionFactory; ConnectionFactory('memory://cost').create_context().close()",
        "from jbm_kafka import Worker; Worker('localhost:9092'); Worker()",
        "from jbm_kafka.admin import Admin",
        "import jbm_kafka.cli.main, jbm_kafka.cli.queues, jbm_kafka.cli.run_command",
        "import jbm_spark",
    ],
)
def test_who_names_everything_by_arguments_imports_no_pydantic(program: str) -> None:
    """CONF-6."""
    subprocess.run([sys.executable, "-c", program + CHECK], check=True, timeout=60)
