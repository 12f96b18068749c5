"""One bridge as it was asked for, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jbm_kafka.bridge.ends import BridgeEnd, named_text
from jbm_kafka.codec.amqp.address_forms import is_foreign
from jbm_kafka.core.bridge_way import Guarantee, Way, decide_way
from jbm_kafka.core.destination import Destination, parse_destination
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError
from jbm_kafka.core.rate import Rate, checked_rate
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.wrong_values import checked_int, shown, wrong_type, wrong_value

IN_FLIGHT = 500
IN_FLIGHT_MAX = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class ReplyRule:
    """Where answers to bridged messages go."""

    keeps: bool
    """Reply-tos that no other rule names stay as they are."""
    mapped: Mapping[Destination, Destination | None]
    """The new reply-to, by the one in the message; None: it is left out."""
    addresses: Mapping[str, Destination | None]
    """The same by addresses of AMQP servers that no destination has."""

    def applied(self, reply_to: Destination | None, *, is_temporary_there: bool) -> Destination | None:
        """Return what the message says at the target. `is_temporary_there`: a temporary one of the source can be
        reached."""
        if reply_to is None or reply_to in self.mapped:
            return None if reply_to is None else self.mapped[reply_to]
        if reply_to.is_temporary and not is_temporary_there:
            return None
        return reply_to if self.keeps else None


@dataclass(frozen=True, slots=True)
class BridgeSpec:
    """One bridge."""

    name: str
    source: BridgeEnd
    target: BridgeEnd
    way: Way
    guarantee: Guarantee
    selector: str | None
    rate: Rate | None
    replies: ReplyRule
    in_flight: int
    """How many messages it has taken and not settled, at most."""
    lanes: int
    """How many sessions of one bridge work side by side, where the way allows several."""

    @property
    def shares_installation(self) -> bool:
        """Both ends are in one namespace of one cluster: what is temporary here is so there."""
        return self.source.shares_cluster(self.target) and self.source.namespace == self.target.namespace


def checked_bridge(
    name: object,
    source: object,
    target: object,
    *,
    guarantee: object = None,
    selector: object = None,
    rate: object = None,
    reply_to: object = "keep",
    in_flight: object = IN_FLIGHT,
    lanes: object = 1,
) -> BridgeSpec:
    """The bridge of these arguments, as of `Bridge`.

    Raises:
        InvalidSettingError, InvalidDestinationError, InvalidSelectorError: what cannot be.
    """
    if not isinstance(name, str):
        raise wrong_type("name", name, "it is a text")
    if not _NAME.fullmatch(name):
        raise wrong_value("name", name, "it is 1 to 100 letters, digits and . _ -, a letter or digit first")
    if name == "turn":
        raise wrong_value("name", name, "the records of writers that wait are called so; any other name will do")
    for side, end in (("source", source), ("target", target)):
        if not isinstance(end, BridgeEnd):
            raise wrong_type(side, end, "it is a BridgeEnd(url, destination)")
    assert isinstance(source, BridgeEnd)
    assert isinstance(target, BridgeEnd)
    if source.place == target.place:
        raise InvalidSettingError(f"bridge {name}: source and target are {source.place}: it would go round", name=name)
    if target.subscription is not None:
        raise wrong_value("subscription", target.subscription, "the target has none; give it to the source")
    if source.duplicate_property is not None:
        raise wrong_value("duplicate_property", source.duplicate_property, "give it to the target")
    is_one_cluster = source.shares_cluster(target)
    way, kept = decide_way(
        _guarantee(guarantee),
        is_one_cluster=is_one_cluster,
        into_kafka=target.is_kafka,
        drops_duplicates=target.duplicate_property is not None,
    )
    chosen = named_text("selector", selector)
    parse_selector(chosen)
    found_rate = checked_rate("rate", rate)
    count = checked_int("lanes", lanes, 1, 16, "sessions")
    if count > 1 and (way is not Way.ONE_TRANSACTION or found_rate is not None):
        raise wrong_value("lanes", lanes, "only within one cluster, and without a rate, there can be several")
    most = checked_int("in_flight", in_flight, 1, IN_FLIGHT_MAX, "messages")
    return BridgeSpec(name, source, target, way, kept, chosen, found_rate, _replies(reply_to), most, count)


def _guarantee(given: object) -> Guarantee | None:
    if given is None or isinstance(given, Guarantee):
        return given
    words = ", ".join(repr(each.value) for each in Guarantee)
    for each in Guarantee:
        if each.value == given:
            return each
    raise wrong_value("guarantee", given, f"it is {words}, or None for the strongest that there is")


def _replies(given: object) -> ReplyRule:
    rule = "it is 'keep', 'drop', or a dict from where answers go now to where they are to go, '' for nowhere"
    if given in ("keep", "drop"):
        return ReplyRule(given == "keep", {}, {})
    if not isinstance(given, Mapping):
        raise wrong_value("reply_to", given, rule)
    mapped: dict[Destination, Destination | None] = {}
    addresses: dict[str, Destination | None] = {}
    for before, after in given.items():
        to = None if after == "" else _reply(after, rule)
        if isinstance(before, str) and is_foreign(before):
            addresses[before] = to
        else:
            mapped[_reply(before, rule)] = to
    return ReplyRule(True, mapped, addresses)


def _reply(text: object, rule: str) -> Destination:
    if not isinstance(text, str):
        raise wrong_type("reply_to", text, rule)
    try:
        return parse_destination(text if ":" in text else f"queue:{text}")
    except InvalidDestinationError as error:
        raise InvalidSettingError(f"reply_to: {shown(text)}: {error}", setting="reply_to", value=text) from None
