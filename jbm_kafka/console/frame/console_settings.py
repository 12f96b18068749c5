"""The settings of a console as somebody makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from jbm_kafka.amqp.access import User
from jbm_kafka.bridge.bridge_spec import BridgeSpec

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class ProgramToken:
    """A program that comes with `Authorization: Bearer …`; the file has the hash of its secret alone."""

    sha256: bytes
    look: Sequence[str] = ()
    """Patterns of names of destinations."""
    operate: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy that has asked who somebody is, and says so in a header."""

    header: str
    networks: Sequence[Network]
    """From elsewhere the header is nobody's."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Who may, and how it is reached."""

    read_only: bool = False
    """Nobody changes anything by it."""
    users: Mapping[str, User] = field(default_factory=dict)
    """The users of the AMQP sidecar's file, with `look` and `operate`; none: without login, for this machine alone."""
    proxy: TrustedProxy | None = None
    tokens: Mapping[str, ProgramToken] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    """Names by which browsers reach it; none: any where there is a login, else those of this machine."""
    secret: bytes = b""
    """Signs the cookies; the same for several consoles behind one address. Empty: one of this process."""
    schema_registry: str = ""
    """The address of the schema registry whose serializers write bodies here, as `https://registry:8081`; empty: such
    bodies are shown as bytes."""
    schema_registry_user: str = ""
    schema_registry_password: str = field(default="", repr=False)
    bridges: Mapping[str, BridgeSpec | str] = field(default_factory=dict)
    """The bridges that are shown, by name; a text instead of one says why it is not known."""
    store: Path | None = None
    """The folder of the store beside a sender that is shown."""
    sends_headers: bool = True
    """The policy of what a page may load, and its like; False: the application that it is mounted in sends its own."""

    @property
    def has_login(self) -> bool:
        """Nobody comes in without saying who he is."""
        return bool(self.users or self.proxy or self.tokens)
