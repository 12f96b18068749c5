"""Machines within this one, for brokers that are to lose each other: network namespaces on a bridge. Only root may."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

SUBNET = "10.77.0"
BRIDGE_HOST = 254


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class Namespace:
    """One machine."""

    name: str
    address: str

    @property
    def entered(self) -> Sequence[str]:
        """The beginning of a command that is to run there."""
        return "ip", "netns", "exec", self.name

    def cut_from(self, others: Sequence["Namespace"], *, is_cut: bool) -> None:
        """What they send each other is lost in silence; or is no more."""
        for other in others:
            for chain, end in (("INPUT", "-s"), ("OUTPUT", "-d")):
                _run(*self.entered, "iptables", "-A" if is_cut else "-D", chain, end, other.address, "-j", "DROP")


@contextmanager
def namespaces(numbers: Sequence[int]) -> Iterator[dict[int, Namespace]]:
    """They reach each other and this machine while the block runs."""
    own = f"jbm{os.getpid() % 100_000}"
    with ExitStack() as stack:

        def made(undo: Sequence[str], *words: str) -> None:
            _run(*words)
            stack.callback(_run, *undo)

        made(["ip", "link", "del", own], "ip", "link", "add", own, "type", "bridge")
        _run("ip", "addr", "add", f"{SUBNET}.{BRIDGE_HOST}/24", "dev", own)
        _run("ip", "link", "set", own, "up")
        found = {}
        for number in numbers:
            one = found[number] = Namespace(f"{own}-{number}", f"{SUBNET}.{number}")
            made(["ip", "netns", "del", one.name], "ip", "netns", "add", one.name)
            _run("ip", "link", "add", one.name, "type", "veth", "peer", "name", "eth0", "netns", one.name)
            _run("ip", "link", "set", one.name, "master", own, "up")
            _run(*one.entered, "ip", "addr", "add", f"{one.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run(*one.entered, "ip", "link", "set", device, "up")
        yield found
