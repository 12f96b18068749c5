"""The first question to a cluster, which fails as soon as nobody answers or somebody refuses.

A client that finds nobody goes on looking, for brokers come back. Who connects for the first time has most likely a
wrong address, or has not started the broker yet, and wants to know that now; the same with TLS to a port without it
or the other way round; a broker that is slow, but there, has all the time that the question has.
"""

import socket
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from jbm_kafka.kafka.connection_faults import IN_KAFKA, ConnectionFaults
from jbm_kafka.kafka.host_names import ADVERTISED_REMEDY, BOOTSTRAP_REMEDY, looked_up, unknown_hosts
from jbm_kafka.kafka.spoken_protocol import speaks_plain_kafka, speaks_tls
from jbm_kafka.ports import AccessRefused, NobodyAnswers

_T = TypeVar("_T")
_LOOK_S = 0.05
_PATIENCE_S = 0.5
"""A connected broker answers in milliseconds; one that has not in this time is looked for besides."""
NOBODY_S = 2.0
"""How long an address may go without taking a connection. A stopped or busy broker's system still takes them."""
NO_NAME_S = 1.0
"""How long all its names may be unknown; a container's is known when it starts."""
_PAUSE_S = 0.1
_CONNECT_MIN_S = 0.2
_LOOK_UP_S = 1.0


class FirstContact:
    """Runs a question on a thread of its own, and looks meanwhile whether it can ever be answered."""

    def __init__(
        self, *, bootstrap: str, uses_tls: bool, faults: ConnectionFaults, poll: Callable[[float], object]
    ) -> None:
        """`poll` brings what the client has to say of its connections to `faults`."""
        self._bootstrap = bootstrap
        self._uses_tls = uses_tls
        self._faults = faults
        self._poll = poll
        self._looks_at_s = time.monotonic() + _PATIENCE_S
        self._watch: AddressWatch | None = None

    def answer(self, question: Callable[[], _T]) -> _T:
        """Return what `question` returns or raises; its thread is left to itself when the answer is known before it.

        Raises:
            AccessRefused: a broker is there and does not let us in, or only with TLS, or only without.
            KafkaClientError: what answers there speaks neither.
            NobodyAnswers: nobody is at any address.
        """
        answer: Future[_T] = Future()

        def run() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=run, name="jbm-first-contact", daemon=True).start()
        try:
            while True:
                try:
                    return answer.result(timeout=_LOOK_S)
                except FutureTimeoutError:
                    self._raise_if_hopeless()
        finally:
            if self._watch is not None:
                self._watch.end()

    @property
    def silent_listeners(self) -> str | None:
        """Return what to say where somebody took our connections, said nothing all the time, and no other reason is
        known.

        A broker that hangs looks the same: its system still takes connections.
        """
        self._poll(0)
        if self._watch is None or not self._watch.met or not self._faults.is_silence:
            return None
        return (
            f"something listens at {', '.join(sorted(self._watch.met))}, but it does not answer as Kafka does: check "
            "host and port, or whether the broker hangs"
        )

    def _raise_if_hopeless(self) -> None:
        self._poll(0)
        fault = self._faults.fault
        if fault is not None and fault.is_refusal:
            raise fault.as_error()
        if self._watch is None and time.monotonic() >= self._looks_at_s:
            self._watch = AddressWatch(self._bootstrap, uses_tls=self._uses_tls)
        if self._watch is not None:
            self._watch.check()


def check_brokers(hosts: Collection[str], bootstrap: str) -> None:
    """Raises NobodyAnswers when no broker of the cluster can be reached by the name that it has for itself.

    The first answer comes from the address that we were given, and all others from there.
    """
    unknown = unknown_hosts(hosts, within_s=_LOOK_UP_S)
    if unknown.keys() >= set(hosts) and unknown:
        names = ", ".join(sorted(unknown.values()))
        raise NobodyAnswers(f"{names} (from Kafka at {bootstrap}); {ADVERTISED_REMEDY}", bootstrap=bootstrap)


class AddressWatch:
    """Looks with bare connections for somebody at some addresses, until one is there or NOBODY_S have passed."""

    def __init__(self, bootstrap: str, *, uses_tls: bool) -> None:
        self._bootstrap = bootstrap
        self._addresses = [address.strip() for address in bootstrap.split(",")]
        self._uses_tls = uses_tls
        self._absent: dict[str, str] = {}
        """Why nobody was found there; another look may find somebody."""
        self._unknown: set[str] = set()
        """The brokers whose host has no address."""
        self._other: dict[str, str] = {}
        """The protocol that somebody there speaks in place of ours, by broker."""
        self.met: set[str] = set()
        """The addresses that took a connection and may be brokers."""
        self._is_over = threading.Event()
        now_s = time.monotonic()
        self._ends_at_s = now_s + NOBODY_S
        self._names_end_at_s = now_s + NO_NAME_S
        for address in self._addresses:
            # A daemon: to ask for a name may take long, and nobody waits for it.
            threading.Thread(target=self._look, args=(address,), name="jbm-address-watch", daemon=True).start()

    def check(self) -> None:
        """Nothing, while somebody may answer the question.

        Raises:
            AccessRefused: all that answer there speak another protocol.
            NobodyAnswers: nobody is at any address, or none has a name that is known.
        """
        if self._is_over.is_set():
            return
        absent, other = dict(self._absent), dict(self._other)
        reasons = {**absent, **other}
        has_no_name = self._unknown.issuperset(self._addresses)
        is_known = len(other) == len(self._addresses)
        if not is_known and time.monotonic() < (self._names_end_at_s if has_no_name else self._ends_at_s):
            return
        if len(reasons) < len(self._addresses):
            return
        found = ", ".join(f"{address}: {reasons[address]}" for address in self._addresses)
        if other:
            raise AccessRefused(f"{found}; {self._remedy()}")
        if has_no_name:
            names = dict.fromkeys(reasons[address] for address in self._addresses)
            raise NobodyAnswers(f"{', '.join(names)}: {BOOTSTRAP_REMEDY}", bootstrap=self._bootstrap)
        text = f"nobody answers at {found}; start the broker, or correct the address"
        raise NobodyAnswers(text, bootstrap=self._bootstrap)

    def _remedy(self) -> str:
        if self._uses_tls:
            return f"name the broker's TLS port, or set security.protocol to PLAINTEXT or SASL_PLAINTEXT {IN_KAFKA}"
        return f"set security.protocol to SSL or SASL_SSL {IN_KAFKA}, or name a port without TLS"

    def end(self) -> None:
        """Look no more."""
        self._is_over.set()

    def _look(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        while not self._is_over.is_set() and time.monotonic() < self._ends_at_s:
            found = looked_up(host, int(port))
            if isinstance(found, str):
                self._absent[address] = found
                self._unknown.add(address)
            else:
                self._unknown.discard(address)
                for family, place in found:
                    if self._meets(family, place, address, host):
                        return
            self._is_over.wait(_PAUSE_S)

    def _meets(self, family: int, place: object, address: str, host: str) -> bool:
        """Return True if somebody is there, of whom all is known then."""
        self._absent.setdefault(address, "no answer")
        try:
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.settimeout(max(_CONNECT_MIN_S, self._ends_at_s - time.monotonic()))
                connection.connect(place)  # type: ignore[arg-type]  # what getaddrinfo gave
                self._absent.pop(address, None)
                spoken = self._speaks_other(connection, host)
        except OSError as error:
            self._absent[address] = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            return False
        if spoken is None:
            self.met.add(address)
            self.end()
        else:
            self._other[address] = spoken
        return True

    def _speaks_other(self, connection: socket.socket, host: str) -> str | None:
        if self._uses_tls:
            return "the port does not speak TLS (SSL)" if speaks_plain_kafka(connection) else None
        return "the port speaks TLS (SSL)" if speaks_tls(connection, host) else None
