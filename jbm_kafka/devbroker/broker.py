"""A real Apache Kafka on this machine: one node, KRaft, its own data folder, for development and tests.

It goes on after the command that started it; another process may stop it. What it stores survives stop and start.
"""

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from jbm_kafka.devbroker import ports, process
from jbm_kafka.devbroker.asking_again import wait_until
from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.file_lock import FileLock, is_locked
from jbm_kafka.devbroker.folders import state_folder
from jbm_kafka.devbroker.java import find_java
from jbm_kafka.devbroker.probe import answers, wait_answers

START_TIMEOUT_S = 90.0
"""A start takes about 3 s here; a loaded machine with a large data folder needs much longer."""

STOP_TIMEOUT_S = 30.0

PAUSE_TIMEOUT_S = 10.0
"""A signal arrives when one of the process's threads gets a processor."""

LOCK_TIMEOUT_S = 0.2
"""A process that asks whether a broker runs holds the lock for microseconds; a broker holds it for good."""

PORT_TRIES = 3


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The state of a local broker at one moment."""

    is_running: bool
    """Its process lives, even if paused."""
    is_answering: bool
    """It answered a metadata request just now."""
    bootstrap: str | None
    """`host:port` for clients while it runs."""
    pid: int | None
    """Its process id while it runs."""
    data_dir: Path
    """Its data, settings and log."""


class LocalBroker:
    """The broker of one data folder; at most one process at a time serves it, whoever started it.

    As a context manager: started on entering, stopped on leaving if this object started it.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        heap_mb: int = 512,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        """
        Args:
            data_dir: None is the user's one broker, under `$JBM_HOME` or the user's state folder.
            heap_mb: Java heap, MiB.
            properties: Kafka's broker settings, of the next `start`, over those in common.properties.
            java_options: of the next `start`, beside ours.
        """
        self.data_dir = Path(data_dir).absolute() if data_dir is not None else state_folder() / "broker"
        self.heap_mb = heap_mb
        self.properties = dict(properties or {})
        self.java_options = tuple(java_options)
        self._lock_path = self.data_dir / "broker.lock"
        self._record_path = self.data_dir / "broker.json"
        self._started_here = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started_here:
            self.stop()

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients; the same after every restart. LocalBrokerError before the first start."""
        port = self._record().get("port")
        if port is None:
            raise LocalBrokerError(f"the local broker of {self.data_dir} was never started")
        return f"127.0.0.1:{port}"

    @property
    def is_running(self) -> bool:
        """True while its process lives, even if paused, and while another call is starting it."""
        return is_locked(self._lock_path)

    @property
    def log_file(self) -> Path:
        """Return what it printed since its last start."""
        return process.log_file(self.data_dir)

    def start(self, port: int | None = None, *, preferred_port: int | None = None) -> bool:
        """Returns when the broker answers: True when this call started it, False when it ran already.

        `port` must be had; without it the port of the last run is taken, else `preferred_port`, else any that is free.

        Raises:
            LocalBrokerError: Java or Maven is missing, the port is taken, or the broker did not come up; then no
                process is left behind.
        """
        lock = FileLock(self._lock_path)
        self._make_folder()
        if not lock.wait_acquire(LOCK_TIMEOUT_S):
            self._join_running(port)
            return False
        try:
            self._start_locked(lock, port, preferred_port)
        finally:
            lock.close()
        return True

    def _make_folder(self) -> None:
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalBrokerError(
                f"the data folder {self.data_dir} cannot be made ({error.strerror}); choose another one"
            ) from None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Ends the broker in order, by force after the timeout: True when it ran, False when nothing did."""
        pid = self._running_pid()
        if pid is None:
            return False
        process.send_signal(pid, signal.SIGTERM)
        process.send_signal(pid, signal.SIGCONT)  # a paused one would never see the first signal
        if not self._wait_gone(timeout_s):
            self.kill()
        self._started_here = False
        return True

    def kill(self) -> None:
        """Ends the broker at once with SIGKILL, as a crash would."""
        pid = self._running_pid()
        if pid is None:
            return
        process.send_signal(pid, signal.SIGKILL)
        if not self._wait_gone(STOP_TIMEOUT_S):
            raise LocalBrokerError(f"the broker process {pid} of {self.data_dir} is still there after SIGKILL", pid=pid)

    def pause(self) -> None:
        """Freezes the process (SIGSTOP): connections stay open and nothing answers, until `resume`."""
        pid = self._signal_running(signal.SIGSTOP)
        if not wait_until(lambda: process.stands_still(pid), timeout_s=PAUSE_TIMEOUT_S, poll_s=0.001):
            raise LocalBrokerError(f"the broker process {pid} of {self.data_dir} still runs after SIGSTOP", pid=pid)

    def resume(self) -> None:
        """Lets a paused broker go on."""
        self._signal_running(signal.SIGCONT)

    def status(self) -> BrokerStatus:
        """Return what is true now; asks the broker, for at most 2 s."""
        pid = self._running_pid()
        bootstrap = self.bootstrap if pid is not None else None
        return BrokerStatus(
            is_running=pid is not None,
            is_answering=bootstrap is not None and answers(bootstrap),
            bootstrap=bootstrap,
            pid=pid,
            data_dir=self.data_dir,
        )

    def _start_locked(self, lock: FileLock, port: int | None, preferred_port: int | None) -> None:
        java, jars = find_java(), ensure_jars()
        self._write_record(port=self._record().get("port"))  # the last run's process id is somebody else's by now
        for _ in range(PORT_TRIES):
            chosen = self._choose_port(port, preferred_port)
            controller_port = ports.free_port(besides=chosen)
            process.write_settings(
                self.data_dir, port=chosen, controller_port=controller_port, properties=self.properties
            )
            process.format_data(self.data_dir, java=java, jars=jars)
            pid = process.spawn(
                self.data_dir,
                java=java,
                jars=jars,
                options=[f"-Xmx{self.heap_mb}m", *self.java_options],
                lock_fd=lock.fd,
            )
            self._write_record(pid=pid, port=chosen)
            lock.close()  # from here the process alone holds it, so that its end is seen
            self._started_here = True
            if self._wait_up():
                return
            tail = process.log_tail(self.data_dir)
            # Between choosing a port and listening on it somebody else may have taken it.
            if "Address already in use" not in tail or port is not None or not lock.try_acquire():
                break
        self._started_here = False
        raise LocalBrokerError(f"the local broker did not come up; the end of {self.log_file}:\n{tail}")

    def _wait_up(self) -> bool:
        """Waits until the broker answers; no process is left when it does not, or when the wait is interrupted."""
        is_up = False
        try:
            is_up = self._wait_answers()
        finally:
            if not is_up:
                self.kill()
        return is_up

    def _wait_answers(self) -> bool:
        return wait_answers(self.bootstrap, timeout_s=START_TIMEOUT_S, is_alive=lambda: self.is_running)

    def _choose_port(self, asked: int | None, preferred: int | None) -> int:
        if asked is not None:
            if not ports.is_free(asked):
                raise LocalBrokerError(f"port {asked} is in use by another program; choose another port", port=asked)
            return asked
        for port in (self._record().get("port"), preferred):
            if port is not None and ports.is_free(port):
                return port
        return ports.free_port()

    def _join_running(self, port: int | None) -> None:
        """Waits for the broker another call has started, or is starting."""
        if self._running_pid() is None or not self._wait_answers():
            raise LocalBrokerError(
                f"a broker process serves {self.data_dir} but does not answer; stop it and start it again"
            )
        running = self._record()["port"]
        if port is not None and port != running:
            raise LocalBrokerError(
                f"the broker of {self.data_dir} runs on port {running} already; stop it before moving it to {port}"
            )

    def _wait_gone(self, timeout_s: float) -> bool:
        return wait_until(lambda: not self.is_running, timeout_s=timeout_s)

    def _signal_running(self, number: signal.Signals) -> int:
        pid = self._running_pid()
        if pid is None:
            raise LocalBrokerError(f"no broker of {self.data_dir} is running")
        process.send_signal(pid, number)
        return pid

    def _running_pid(self) -> int | None:
        """Its process id, None when nothing runs; waits while another call is between locking and starting it."""
        wait_until(lambda: not self.is_running or "pid" in self._record(), timeout_s=START_TIMEOUT_S)
        return self._record().get("pid") if self.is_running else None

    def _write_record(self, *, port: int | None, pid: int | None = None) -> None:
        """Replaces the record as a whole: a reader sees the old one or the new one."""
        record = {name: value for name, value in (("port", port), ("pid", pid)) if value is not None}
        partial = self._record_path.with_suffix(".partial")
        partial.write_text(json.dumps(record) + "\n", encoding="utf-8")
        partial.replace(self._record_path)

    def _record(self) -> dict[str, int]:
        """Process id and port of the last start; empty before the first one."""
        try:
            record: dict[str, int] = json.loads(self._record_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return record
