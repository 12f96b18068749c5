"""Faults planted into the AMQP server, the client and the forwarding: each a way in which a naive version breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from proton import Delivery as Outcome

from jbm_kafka import AcknowledgeMode as Mode
from jbm_kafka.amqp import receiver_links
from jbm_kafka.amqp.client_outcome import ClientOutcome, client_outcome
from jbm_kafka.amqp.feeds import Forwarded
from jbm_kafka.amqp.receiver_links import Receiver
from jbm_kafka.amqp_client import session_receivers
from jbm_kafka.amqp_client.session_receivers import SessionReceivers
from jbm_kafka.core.channel.first_outcome import NOTHING_SAID, SaidBehind, outcomes
from jbm_kafka.core.channel.settlement import Modified, uncounted
from jbm_kafka.core.receiving.hand import Hand

Plant = Callable[[pytest.MonkeyPatch], None]


def what_a_lost_client_saw_comes_unmarked(patch: pytest.MonkeyPatch) -> None:
    real = Receiver.close

    async def close(self: Receiver, *, is_lost: bool, ends: bool) -> None:
        await real(self, is_lost=False, ends=ends)

    patch.setattr(Receiver, "close", close)


def what_a_lost_client_had_forwarded_comes_unmarked(patch: pytest.MonkeyPatch) -> None:
    def lost(self: Forwarded, sent: Iterable[Forwarded]) -> None:
        self._say(0, is_settled=not self._fence(Outcome.MODIFIED))

    patch.setattr(Forwarded, "lost", lost)


def the_server_hears_not_what_is_behind(patch: pytest.MonkeyPatch) -> None:
    def heard(sent: Any) -> ClientOutcome:
        return replace(client_outcome(sent), behind=NOTHING_SAID)

    patch.setattr(receiver_links, "client_outcome", heard)


def the_client_says_all_was_seen(patch: pytest.MonkeyPatch) -> None:
    def said(rows: Iterable[Modified], unit_of: Any) -> list[tuple[Modified, SaidBehind]]:
        return [(row, said and SaidBehind(said.alike, 9)) for row, said in outcomes(rows, unit_of)]

    patch.setattr(session_receivers, "outcomes", said)


def the_client_counts_what_goes_along(patch: pytest.MonkeyPatch) -> None:
    def counted(offsets: Iterable[int], unread: Any) -> list[Modified]:
        return [row._replace(counted=True) for row in uncounted(offsets, unread)]

    patch.setattr(session_receivers, "uncounted", counted)


def nothing_goes_along_at_the_server(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(receiver_links, "behind", lambda first, held: [])


def nothing_goes_along_at_the_client(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session_receivers, "behind", lambda first, held: [])


def the_client_takes_what_is_stale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionReceivers, "is_stale", lambda self, unit: False)


def a_foreign_client_has_several_of_a_unit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hand, "took", lambda self, unit: None)


def siblings_ask_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Receiver, "_introduce", lambda self: None)
    patch.setattr(SessionReceivers, "_serve_alone", _serve_at_once)


def _serve_at_once(self: SessionReceivers, link_id: str, count: int) -> None:
    mine = self.receivers.get(link_id)
    if mine is not None and mine.served is not None:
        mine.served.want_now(count)
        self.wake()


def a_client_that_closes_accepts_all(patch: pytest.MonkeyPatch) -> None:
    real = SessionReceivers._settle

    def settle(self: SessionReceivers, number: int, state: int) -> None:
        real(self, number, Outcome.ACCEPTED)

    patch.setattr(SessionReceivers, "_settle", settle)


def a_forwarder_accepts_all(patch: pytest.MonkeyPatch) -> None:
    def told(self: Forwarded, sent: Any, peer: Any) -> None:
        self.accept()
        sent.settle()

    patch.setattr(Forwarded, "told", told)


FORWARDED: Final = {"servers": 2, "clients": 3, "foreigners": 0, "partitions": 1, "units": 1, "modes": (Mode.CLIENT,)}
ALONE: Final = {"servers": 1, "clients": 2, "foreigners": 0, "units": 1, "modes": (Mode.CLIENT,)}
FOREIGN: Final = {"clients": 2, "foreigners": 2, "units": 1, "modes": (Mode.TRANSACTED,)}
CALM: Final = {"client_cuts": 0, "server_cuts": 0}
ROUGH: Final = {"client_cuts": 10, "server_cuts": 0}
"""Worlds in which a fault shows sooner; the seed draws the rest."""

PLANTS: Mapping[Plant, tuple[int, Mapping[str, Any], str]] = {
    what_a_lost_client_saw_comes_unmarked: (1, {}, "marked_if_seen"),
    what_a_lost_client_had_forwarded_comes_unmarked: (1, {**FORWARDED, **ROUGH}, "marked_if_seen"),
    the_server_hears_not_what_is_behind: (1, {}, "marked_if_seen"),
    the_client_says_all_was_seen: (2, {}, "marked_if_seen"),
    the_client_counts_what_goes_along: (2, {}, "marked_if_seen"),
    nothing_goes_along_at_the_server: (8, {}, "marked_if_seen"),
    nothing_goes_along_at_the_client: (2, {}, "unit_in_order"),
    the_client_takes_what_is_stale: (2, {**ALONE, **CALM}, "unit_in_order"),
    a_foreign_client_has_several_of_a_unit: (2, FOREIGN, "marked_if_seen"),
    siblings_ask_at_once: (5, {**ALONE, **CALM}, "unit_in_order"),
    a_client_that_closes_accepts_all: (1, {}, "nothing_is_lost"),
    a_forwarder_accepts_all: (1, {**FORWARDED, **CALM}, "unit_in_order"),
}
"""The seed that shows each first, in which world, and the promise that it breaks."""
