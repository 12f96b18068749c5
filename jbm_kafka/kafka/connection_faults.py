"""Why a client does not reach its brokers: librdkafka's reasons, each with its remedy.

librdkafka goes on trying and tells nobody: its reasons go to a log and to an error callback, both of which run inside
`poll` only, and whoever waits for an answer hears that there was none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from jbm_kafka.kafka.host_names import ADVERTISED_REMEDY, BOOTSTRAP_REMEDY, name_fault
from jbm_kafka.kafka.settings import LOG, ClientLog
from jbm_kafka.ports import AccessRefused, KafkaClientError

CLOSED_TIMES = 2
"""A broker that ends may close a connection that was open once; one that wants credentials does it each time."""

IN_KAFKA = "in kafka={…}"
"""Where a factory or an Admin takes librdkafka's properties; commands name their own option."""

_ALERT = re.compile(r"SSL alert number (?:40|4[2-6]|48|70|116)\b")
"""The broker's TLS says what it does not like of ours: the certificate, its authority, our version of TLS."""

_FAIL = re.compile(
    r"FAIL \[[^\]]*\] \[thrd:[^\]]*\]: (?:\w+://)?(?P<broker>\S+?)(?:/(?P<node>\w+))?: (?P<reason>.*?)"
    r"(?: \(after \d+ms in state (?P<state>\w+).*\))?"
)
"""librdkafka before 2.16 adds ", 1 identical error(s) suppressed" behind the state, so a bracket does not end it."""
_UNRESOLVED = re.compile(r"Failed to resolve '[^']*': (?P<why>.*)")
_SILENT = "ApiVersionRequest failed: Local: Timed out"
"""librdkafka adds that the broker is probably one of before 2015; mostly it stands still, or speaks TLS."""
_NO_ANSWER = "no answer"
_SIZE = re.compile(r"Invalid response size (?P<size>\d+) ")
_START = "start the broker, or correct the address"
SHOWN_MAX = 5
"""So many addresses have their reason each in one line."""


@dataclass(frozen=True, slots=True)
class ConnectionFault:
    """One reason, for one line."""

    broker: str
    """`host:port`."""
    reason: str
    remedy: str
    is_refusal: bool
    """Somebody is there and does not let us in: another try with the same settings helps nobody."""
    is_kafka: bool = True
    """It may be a broker; else no credentials would do."""

    def as_error(self, about: str = "") -> KafkaClientError:
        """Return the error to raise for a refusal; `about` says what was being done."""
        text = f"{about}: {self.text}" if about else self.text
        return AccessRefused(text) if self.is_kafka else KafkaClientError(text)

    @property
    def text(self) -> str:
        """Broker, reason and remedy."""
        return f"{self.broker}: {self.reason}; {self.remedy}"


class ConnectionFaults:
    """The reports of one client to its `logger` and `error_cb`. The caller polls the client, on a thread of its own."""

    def __init__(self) -> None:
        self._log = ClientLog()
        self._last: dict[str, ConnectionFault] = {}
        """The last fault of each broker, the one heard of last at the end."""
        self._refusal: ConnectionFault | None = None
        self._closed_times = 0
        self._was_answered = False

    @property
    def settings(self) -> dict[str, Any]:
        """librdkafka's settings that bring the reasons here."""
        # A broker that wants credentials closes the connection, which librdkafka reports only where it reports closing.
        return {"logger": self, "error_cb": self.note_error, "log.connection.close": True}

    def log(self, level: int, message: str, *values: object) -> None:
        """A line of the client's log; what it says of a connection is kept."""
        self._log.log(level, message, *values)
        found = _FAIL.fullmatch(message % values if values else message)
        if found is None:
            return
        broker, state = found["broker"], found["state"] or ""
        reason = _one_line(found["reason"])
        self._closed_times += state == "UP" and "closed by peer" in reason
        wants_credentials = self._closed_times >= CLOSED_TIMES and not self._was_answered
        is_refusal = wants_credentials or _ALERT.search(reason) is not None
        remedy = _START if state == "UP" and self._was_answered else _remedy(reason, state)
        answered = _other_protocol(reason)
        if answered is not None:
            is_refusal = True
            reason = f"whoever is there does not speak Kafka: the answer begins with {answered!r}"
            remedy = "name the address of a Kafka broker, which is mostly port 9092"
        if (unresolved := _UNRESOLVED.fullmatch(reason)) is not None:
            reason = name_fault(broker.rpartition(":")[0], unresolved["why"])
            remedy = BOOTSTRAP_REMEDY if found["node"] == "bootstrap" else ADVERTISED_REMEDY
        if reason.startswith(_SILENT):
            reason = _NO_ANSWER
        fault = ConnectionFault(broker, reason, remedy, is_refusal, is_kafka=answered is None)
        self._last.pop(broker, None)
        self._last[broker] = fault
        if is_refusal:
            self._refusal = self._refusal or fault

    def note_error(self, error: KafkaError) -> None:
        """An error of the client's; its code tells a refusal from a bad connection."""
        LOG.debug("Kafka client: %s; it keeps trying", error)
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            broker, _, reason = error.str().partition(": ")
            reason = _one_line(reason.partition(" (after ")[0])
            self._refusal = ConnectionFault(_bare(broker), reason, _remedy(reason, "AUTH"), is_refusal=True)

    @property
    def fault(self) -> ConnectionFault | None:
        """The reason: a refusal rather than anything else, else the last; None when none is known."""
        return self._refusal or next(reversed(self._last.values()), None)

    @property
    def is_silence(self) -> bool:
        """Nothing is known but that nobody answered."""
        return self._refusal is None and all(fault.reason == _NO_ANSWER for fault in self._last.values())

    def cause_at(self, addresses: Sequence[str]) -> str | None:
        """Why nobody answers, in one line: each address, or else each broker, with its reason; None: not known."""
        if not self._last or self._refusal is not None:
            return None if self._refusal is None else self._refusal.text
        if len(self._last) == 1 and list(self._last) == list(addresses):
            (fault,) = self._last.values()
            return f"{fault.reason}; {fault.remedy}"  # the caller names the address
        # A bootstrap address that led to other brokers may have answered all that it was asked.
        brokers = list(addresses) if self._last.keys() <= set(addresses) else list(self._last)
        reasons = {broker: self._last[broker].reason if broker in self._last else _NO_ANSWER for broker in brokers}
        lines = [f"{broker}: {reason}" for broker, reason in reasons.items()]
        more = f", and {len(lines) - SHOWN_MAX} more" if len(lines) > SHOWN_MAX else ""
        remedies = dict.fromkeys(fault.remedy for fault in self._last.values())
        return f"{', '.join(lines[:SHOWN_MAX])}{more}; {'; '.join(remedies)}"

    def note_answer(self) -> None:
        """A question was answered: what closes a connection from now on is not that we have no credentials."""
        self._was_answered = True

    def forget(self) -> None:
        """Forget what was heard: from now on it is about another question."""
        self._last.clear()
        self._refusal = None
        self._closed_times = 0


def _other_protocol(reason: str) -> str | None:
    """How the answer of another kind of server begins: text, which librdkafka took for the length of an answer."""
    found = _SIZE.search(reason)
    if found is None or int(found["size"]) >= 2**32:
        return None
    begin = int(found["size"]).to_bytes(4, "big")
    return begin.decode() if all(32 < byte < 127 for byte in begin) else None


def _bare(broker: str) -> str:
    return broker.partition("://")[2].partition("/")[0] or broker.partition("/")[0]


def _one_line(reason: str) -> str:
    return " ".join(reason.split()).removesuffix(":")


def _remedy(reason: str, state: str) -> str:
    if "mechanism handshake failed" in reason:
        if "supported mechanisms: " in reason:
            return f"name a sasl.mechanism that the broker supports {IN_KAFKA}"
        return (
            "the broker asks for no credentials at this port: name its SASL port, or set security.protocol to "
            f"PLAINTEXT or SSL {IN_KAFKA}"
        )
    if _ALERT.search(reason):
        return (
            "the broker does not take our certificate, or we gave none: name one that it trusts with "
            f"ssl.certificate.location and ssl.key.location {IN_KAFKA}"
        )
    if "SASL" in reason or state == "AUTH_REQ":
        return f"check sasl.username, sasl.password and sasl.mechanism {IN_KAFKA}"
    if "certificate" in reason:
        return f"check ssl.ca.location {IN_KAFKA}, and the name in the broker's certificate"
    if "SSL handshake" in reason or state == "SSL_HANDSHAKE":
        return (
            "the port does not speak TLS, or not ours: name the broker's TLS port, or set security.protocol to "
            f"PLAINTEXT or SASL_PLAINTEXT {IN_KAFKA}"
        )
    if state == "UP":
        return (
            "the broker takes no request without credentials: set security.protocol (SASL_SSL or SASL_PLAINTEXT), "
            f"sasl.mechanism, sasl.username and sasl.password {IN_KAFKA}"
        )
    if "ApiVersion" in reason or state == "APIVERSION_QUERY":
        return f"if the port speaks TLS set security.protocol to SSL or SASL_SSL {IN_KAFKA}"
    return _START
