"""The broker's Java process: its command line, its settings file, its log, its end.

The process is a child of nobody here: it outlives the command that started it, and whoever stops it need not be its
parent. The lock that it inherits shows that it lives (file_lock.py), never by a number in a file.
"""

import base64
import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.broker_jars import resource_text

FORMAT_TIMEOUT_S = 60.0
BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java's options for what lives for moments: no time goes into speed that nothing has of."""

_STANDING = "TtZX"
"""The letters of proc(5) for a thread that is stopped, traced or dead."""

# The shell's only job is to be the parent that ends at once.
_DETACH = 'log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!'


def write_settings(
    folder: Path, *, port: int, controller_port: int, properties: Mapping[str, str], host: str = "127.0.0.1"
) -> Path:
    """Writes server.properties, with `properties` over ours, and the log settings into `folder`; the former's path.

    Listeners in `properties` come beside ours, which tells whether the broker is up.
    """
    clients = f"PLAINTEXT://{host}:{port}"
    own = {
        "controller.quorum.voters": f"1@{host}:{controller_port}",
        **properties,
        "listeners": _beside(properties, "listeners", f"{clients},CONTROLLER://{host}:{controller_port}"),
        "advertised.listeners": _beside(properties, "advertised.listeners", clients),
        "log.dirs": str(folder / "data"),
    }
    lines = "".join(f"{name}={value}\n" for name, value in own.items())
    path = folder / "server.properties"
    path.write_text(resource_text("common.properties") + "\n# This broker's own.\n" + lines, encoding="utf-8")
    (folder / "log4j2.properties").write_text(resource_text("log4j2.properties"), encoding="utf-8")
    return path


def _beside(properties: Mapping[str, str], name: str, ours: str) -> str:
    return f"{ours},{properties[name]}" if name in properties else ours


def new_cluster_id() -> str:
    """A random id in Kafka's form."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def format_data(folder: Path, *, java: str, jars: Path, cluster_id: str | None = None) -> None:
    """Gives a new data folder its cluster id, without one a new one; a folder that has one keeps it."""
    if (folder / "data" / "meta.properties").exists():
        return
    command = [java, *BRIEF, *_with_archive(jars)]
    command += ["-cp", f"{jars}/*", "kafka.tools.StorageTool", "format", "--ignore-formatted"]
    # One word with "=", because an id may begin with "-".
    command += [f"--cluster-id={cluster_id or new_cluster_id()}", "--config", str(folder / "server.properties")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
        # Below a Java error's own line stands only where it came from.
        said = next((line for line in lines if "Exception" in line), lines[-1])
        raise LocalBrokerError(f"the broker's data folder {folder / 'data'} could not be prepared: {said}")


def archive_of(jars: Path) -> Path:
    """Where class_archive.py puts its archive."""
    return jars / "classes.jsa"


def _with_archive(jars: Path) -> list[str]:
    """Java's options to take the archive, if there is one, and to say nothing where it does not fit."""
    archive = archive_of(jars)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if archive.exists() else []


def spawn(folder: Path, *, java: str, jars: Path, options: Sequence[str], lock_fd: int) -> int:
    """Starts the broker, detached, with the lock in its hands; its process id."""
    log = log_file(folder)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    command = [java, *_with_archive(jars), *options]
    command += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
    command += ["-cp", f"{jars}/*", "kafka.Kafka", str(folder / "server.properties")]
    shell = subprocess.run(
        ["/bin/sh", "-c", _DETACH, "sh", str(log), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        pass_fds=[lock_fd],
        start_new_session=True,  # a Ctrl-C in the terminal is for the command, not for the broker it started
    )
    return int(shell.stdout)


def log_file(folder: Path) -> Path:
    """Return what the broker printed since it was last started."""
    return folder / "broker.log"


def log_tail(folder: Path, lines: int = 12) -> str:
    """The last lines the broker printed, indented; or a line that says that it printed nothing."""
    try:
        said = log_file(folder).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        said = []
    return "\n".join(f"  {line[:300]}" for line in said[-lines:]) or "  (it printed nothing)"


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signals the process; nothing happens when it is gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def stands_still(pid: int) -> bool:
    """No thread of the process runs: after SIGSTOP they go on until the first of them hears of it.

    True as well where the system does not tell (no /proc), and when the process is gone.
    """
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][0] not in _STANDING:
                return False
    return True
