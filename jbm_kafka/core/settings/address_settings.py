"""Settings of destinations, by address pattern (REDELIVER-6, REDELIVER-8).

All patterns that match a name are merged: for each setting the most specific pattern that says something wins, and an
explicit None unsets what a less specific one said. `AddressSettings` says something or not, setting by setting;
`ResolvedSettings` is what holds for one destination.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Self

from jbm_kafka.core.destination import Destination, Topic, with_namespace
from jbm_kafka.core.durations import Duration, in_ms
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.sentinels import UNSET, UnitMarker, Unset
from jbm_kafka.core.settings.address_pattern import checked_pattern, matches, specificity
from jbm_kafka.core.settings.addresses import as_address, destination_at
from jbm_kafka.core.settings.setting_rules import is_of_its_type, setting_fault
from jbm_kafka.core.wrong_values import did_you_mean, shown, wrong_type, wrong_value

OnDeadLetter = Literal["continue", "hold"]
Truncate = Literal["settled", "never"]
Routing = Literal["hash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressSettings:
    """Settings of the destinations that a pattern matches; a field left UNSET, which is "not given", inherits.

    The default of each is what holds where no pattern says anything. What ends in `_ms` is an int of milliseconds, or
    a timedelta, and is kept as the int.

    Raises:
        InvalidSettingError: a value of the wrong unit or size, or with InvalidTypeError of the wrong type; the message
            names field, value and remedy.
    """

    max_delivery_attempts: int | Unset = UNSET
    """Attempts before a message goes to its dead-letter address; -1: no limit. Default: 10."""
    redelivery_delay_ms: Duration | Unset = UNSET
    """How long a returned message waits before its second attempt, and its unit with it; 0: not. Default: 0."""
    redelivery_delay_multiplier: float | Unset = UNSET
    """Each further wait is this many times as long as the one before. Default: 1.0."""
    redelivery_collision_avoidance_factor: float | Unset = UNSET
    """0 to 1: how far a wait may be longer or shorter, as a part of it, by chance. Default: 0.0."""
    max_redelivery_delay_ms: Duration | Unset | None = UNSET
    """No wait is longer; None: ten times the first. Default: None."""
    dead_letter_address: str | Destination | Unset | None = UNSET
    """The address that takes messages given up: the name of a queue, or Topic(name), which is kept as the text
    "topic:name"; None: they are removed. Default: `DLQ`, or `<namespace>.DLQ`."""
    expiry_address: str | Destination | Unset | None = UNSET
    """The address that takes expired messages, in the same form; None: they are removed. Default: `ExpiryQueue`, or
    `<namespace>.ExpiryQueue`."""
    on_dead_letter: OnDeadLetter | Unset = UNSET
    """A unit whose head was given up goes on ("continue"), or waits for an operator ("hold",
    docs/operating.md#a-unit-on-hold). Default: "continue"."""
    default_unit_of_order: str | UnitMarker | Unset | None = UNSET
    """The unit of messages sent without one: a name, or SYSTEM_GENERATED. Default: None."""
    duplicate_window_ms: Duration | Unset = UNSET
    """Of messages with one `duplicate_id` that were sent within that time one is delivered; 0: no window
    (docs/recipes.md#sending-again). Default: 86400000, a day."""
    duplicate_window_count: int | Unset | None = UNSET
    """How many duplicate ids a partition remembers at most, in about 300 bytes of memory each; None: as many as the
    time allows. Default: 10000."""
    partitions: int | Unset = UNSET
    """Partitions of a destination we create. Default: 16."""
    truncate: Truncate | Unset = UNSET
    """Messages that every queue and subscription has settled are deleted from the log (LOG-4) while somebody
    receives: "settled" or "never". Default: "settled" of what jbm-kafka made, else "never"."""
    routing: Routing | Unset = UNSET
    """How a unit finds its partition (UNIT-11): "hash" alone yet. Default: "hash"."""
    record_deliveries: bool | Unset = UNSET
    """The events tell what applications were given, when, and in which session (LOG-10). Default: False."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            fault = setting_fault(name, value)
            if fault is not None:
                raise (wrong_value if is_of_its_type(name, value) else wrong_type)(name, value, fault)
            if name in ADDRESSES and value is not None:
                object.__setattr__(self, name, as_address(value))
            elif isinstance(value, str):
                object.__setattr__(self, name, plain_text(value))
            elif isinstance(value, timedelta):
                object.__setattr__(self, name, in_ms(value))
        self._check_cap()

    def _check_cap(self) -> None:
        """A longest wait below the first one is a slip, where both are given together; over patterns it is a cap."""
        delay_ms, cap_ms = self.redelivery_delay_ms, self.max_redelivery_delay_ms
        if isinstance(delay_ms, int) and isinstance(cap_ms, int) and cap_ms < delay_ms:
            rule = f"it is at least redelivery_delay_ms, which is {delay_ms}"
            raise wrong_value("max_redelivery_delay_ms", cap_ms, rule)

    def __repr__(self) -> str:
        """Return what was given, and nothing of what inherits."""
        return f"AddressSettings({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    def given(self) -> dict[str, Any]:
        """The settings that say something, by name."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if value is not UNSET}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """The settings of a mapping, as a configuration file or the registry holds them.

        Raises:
            InvalidSettingError: a key is no setting, or its value cannot be.
        """
        if not isinstance(values, Mapping):
            raise wrong_type("values", values, "it is a mapping from setting to value")
        for name in values:
            check_setting_name(name, values[name])
        return cls(**values)


def changed_settings(settings: AddressSettings, by: AddressSettings) -> AddressSettings:
    """The settings, and over them what the others say."""
    return replace(settings, **by.given())


def settings_without(settings: AddressSettings, names: Collection[str]) -> AddressSettings:
    """The settings without the named ones, which are inherited then."""
    return replace(settings, **dict.fromkeys(names, UNSET))


def check_setting_name(name: object, value: object = None) -> None:
    """Return if there is such a setting; else the error lists all settings.

    Raises:
        InvalidSettingError: no setting has this name.
    """
    if name not in SETTING_NAMES:
        text = f"{shown(name)} is not an address setting; known are {', '.join(SETTING_NAMES)}"
        raise InvalidSettingError(text + did_you_mean(str(name), SETTING_NAMES), setting=name, value=value)


ADDRESSES = ("dead_letter_address", "expiry_address")
"""Settings that name a queue or a topic."""
SETTING_NAMES = tuple(each.name for each in fields(AddressSettings))
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """A factory's setting of which the registry says otherwise, so that it does not hold."""

    setting: str
    pattern: str
    """The factory's, as that of the registry the most specific one that says something."""
    value: Any
    by_pattern: str
    by_value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """The settings in force for one destination. The values here are those of a destination that no pattern matches."""

    max_delivery_attempts: int = 10
    redelivery_delay_ms: int = 0
    redelivery_delay_multiplier: float = 1.0
    redelivery_collision_avoidance_factor: float = 0.0
    max_redelivery_delay_ms: int | None = None
    dead_letter_address: str | None = None
    expiry_address: str | None = None
    on_dead_letter: OnDeadLetter = "continue"
    default_unit_of_order: str | UnitMarker | None = None
    duplicate_window_ms: int = 24 * 60 * 60 * 1000
    duplicate_window_count: int | None = 10_000
    partitions: int = 16
    truncate: Truncate | None = None
    """None: as it was made by us or not."""
    routing: Routing = "hash"
    record_deliveries: bool = False
    keeps_given_up: bool = False
    """Letters end here, or would come back: nothing that failed leaves it (REDELIVER-3)."""


class DefaultAddresses(NamedTuple):
    """The queues that take messages where no setting names any."""

    dead_letters: str
    expired: str


def default_addresses(namespace: str = "") -> DefaultAddresses:
    """Return those of a namespace; without one those that all share that have none of their own."""
    return DefaultAddresses(with_namespace("DLQ", namespace), with_namespace("ExpiryQueue", namespace))


def shipped_settings(namespace: str = "") -> Mapping[str, AddressSettings]:
    """Return what holds without any configuration (REDELIVER-8); every setting given for the same name wins over it."""
    addresses = default_addresses(namespace)
    return {"#": AddressSettings(dead_letter_address=addresses.dead_letters, expiry_address=addresses.expired)}


SHIPPED_SETTINGS = shipped_settings()


class AddressSettingsRepository:
    """The settings of every destination, from patterns; it never changes, a change of settings makes a new one.

    `overrides` (the registry's) win over `patterns` (a factory's) setting by setting, and both over `defaults`.

    Raises:
        InvalidSettingError: a key of `patterns` is not a pattern.
    """

    __slots__ = ("_dead_letter_names", "_defaults", "_expiry_names", "_overrides", "_patterns", "_resolved")

    def __init__(
        self,
        patterns: Mapping[str, AddressSettings] | None = None,
        defaults: Mapping[str, AddressSettings] = SHIPPED_SETTINGS,
        *,
        overrides: Mapping[str, AddressSettings] | None = None,
    ) -> None:
        self._defaults = _least_specific_first(defaults)
        self._patterns = _least_specific_first(patterns or {})
        self._overrides = _least_specific_first(overrides or {})
        everything = (*self._defaults, *self._patterns, *self._overrides)
        self._dead_letter_names, self._expiry_names = (
            frozenset(_name_at(given[each]) for _, settings in everything if (given := settings.given()).get(each))
            for each in ADDRESSES
        )
        self._resolved: dict[str, ResolvedSettings] = {}

    def takes_copies(self, name: str) -> bool:
        """The name is some destination's dead-letter or expiry address."""
        return name in self._dead_letter_names or name in self._expiry_names

    def resolve(self, name: str) -> ResolvedSettings:
        """Return what holds for the destination of this name; the same object every time."""
        found = self._resolved.get(name)
        if found is None:
            found = self._resolved[name] = self._resolve(name)
        return found

    def overridden(self, name: str) -> list[Overridden]:
        """Settings of this destination on which `patterns` and `overrides` differ: the latter hold."""
        ours, theirs = _merged(self._patterns, name), _merged(self._overrides, name)
        return [
            Overridden(
                setting=each,
                pattern=ours[each].pattern,
                value=ours[each].value,
                by_pattern=theirs[each].pattern,
                by_value=theirs[each].value,
            )
            for each in ours
            if each in theirs and ours[each].value != theirs[each].value
        ]

    def _resolve(self, name: str) -> ResolvedSettings:
        values = self._values(name)
        address = values.get("dead_letter_address")
        # REDELIVER-3: on a dead-letter address a failure must not end in removal, nor in a copy to itself.
        is_last = address is None and name in self._dead_letter_names
        if is_last or self._comes_back(name, address):
            values |= {"max_delivery_attempts": -1, "keeps_given_up": True}
        return ResolvedSettings(**values)

    def _values(self, name: str) -> dict[str, Any]:
        said = _merged((*self._defaults, *self._patterns, *self._overrides), name)
        return {each: found.value for each, found in said.items()}

    def _comes_back(self, name: str, address: str | None) -> bool:
        """Its dead letters go to itself; or come back by way of others and there is a topic among them.

        Each subscription of the topic would send its own letter around, so that every round had more (decision 43).
        Around queues alone one message goes, whatever it meets.
        """
        passed: set[str] = set()
        has_topic = False
        while address is not None:
            step = destination_at(address)
            has_topic = has_topic or isinstance(step, Topic)
            if step.name == name:
                return has_topic or not passed
            if step.name in passed:
                return False
            passed.add(step.name)
            address = self._values(step.name).get("dead_letter_address")
        return False


def _name_at(address: str) -> str:
    return destination_at(address).name


_Ordered = tuple[tuple[str, AddressSettings], ...]


def _least_specific_first(patterns: Mapping[str, AddressSettings]) -> _Ordered:
    checked = [(checked_pattern(pattern), settings) for pattern, settings in patterns.items()]
    return tuple(sorted(checked, key=lambda item: specificity(item[0])))


class _Said(NamedTuple):
    """The value of a setting, and the pattern it was given for."""

    pattern: str
    value: Any


def _merged(ordered: _Ordered, name: str) -> dict[str, _Said]:
    said: dict[str, _Said] = {}
    for pattern, settings in ordered:
        if matches(pattern, name):
            said.update({each: _Said(pattern, value) for each, value in settings.given().items()})
    return said
