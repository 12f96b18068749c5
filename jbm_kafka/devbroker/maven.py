"""Maven as a fetcher of jars: copies what a pom names, once, into a folder of ours. The broker's jars and Spark's."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from jbm_kafka.core.jms_errors import JMSError

FETCH_TIMEOUT_S = 900.0
"""A slow line and a first run of Maven, which fetches its own parts too."""


class MavenError(JMSError):
    """Maven is missing, or could not fetch; the message is one line that says what to do."""


def copy_jars(pom: str, folder: Path, *, what: str) -> None:
    """Copies every jar that the text of a pom needs at run time into the folder; `what` names them to the reader.

    Raises:
        MavenError: Maven is missing, too slow, or failed. The folder may hold some of the jars then.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenError(
            f"{what} are not in {folder.parent} yet and Maven (mvn), which fetches them, was not found: "
            "install it (Debian: apt-get install maven)"
        )
    with tempfile.TemporaryDirectory(prefix="jbm-maven-") as own:  # the package's own folder may not be writable
        pom_file = Path(own) / "pom.xml"
        pom_file.write_text(pom, encoding="utf-8")
        command = [maven, "--batch-mode", "--no-transfer-progress", "-f", str(pom_file), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise MavenError(f"Maven did not fetch {what} within {FETCH_TIMEOUT_S:g} s: try again") from None
    if done.returncode != 0:
        raise MavenError(f"Maven could not fetch {what}: {_first_error(done.stdout)}")


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return lines[0].removeprefix("[ERROR] ") if lines else "it gave no reason"
