"""The properties of a message: a mapping of Python values, and the typed accessors of JMS with their conversions."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from types import MappingProxyType

from jbm_kafka.codec.identity import DELIVERY_COUNT, GROUP_ID, UNIT_OF_ORDER
from jbm_kafka.codec.property_header import (
    INTEGER_BITS,
    NULL,
    Property,
    PropertyType,
    PropertyValue,
    double_of,
    float_of,
    integer_fits,
    is_legal_name,
    parse_property,
    property_of,
    property_text,
)
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.wrong_values import shown, shown_name

READABLE_AS: Mapping[PropertyType, frozenset[PropertyType]] = MappingProxyType(
    {
        "boolean": frozenset({"boolean", "string"}),
        "byte": frozenset({"byte", "short", "int", "long", "string"}),
        "short": frozenset({"short", "int", "long", "string"}),
        "int": frozenset({"int", "long", "string"}),
        "long": frozenset({"long", "string"}),
        "float": frozenset({"float", "double", "string"}),
        "double": frozenset({"double", "string"}),
        "string": frozenset({"boolean", "byte", "short", "int", "long", "float", "double", "string"}),
    }
)
"""The conversion table of the specification: a property set as the first may be read as any of the others."""


def checked_property_name(name: object) -> str:
    """The plain name, if an application may set a property of it.

    Raises:
        MessageFormatError: it may not.
    """
    if not isinstance(name, str) or not name:
        raise MessageFormatError(f"property name {shown(name)}: it is a str that is not empty", property=name)
    name = plain_text(name)
    if name == DELIVERY_COUNT:
        raise MessageFormatError(f"property {name} is read-only: the provider counts; leave it out", property=name)
    if name == UNIT_OF_ORDER:
        raise MessageFormatError(
            f"property {name} is read-only: give the unit to the send, as unit_of_order=…", property=name
        )
    if not is_legal_name(name):
        raise MessageFormatError(
            f"property name {shown(name)}: use letters, digits, '_' and '$', no digit first, no word of the selector "
            "language, and no 'JMS' in front",
            property=name,
        )
    return name


def check_group(held: Property) -> None:
    """Raises MessageFormatError unless this can be the JMSXGroupID, which is a unit of order."""
    if held.type not in ("string", "null") or held.value == "":
        raise MessageFormatError(
            f"property {GROUP_ID} is {shown(held.value)}: it is a str that is not empty, the unit of order",
            property=GROUP_ID,
            value=held.value,
        )


def converted(name: str, held: Property | None, wanted: PropertyType) -> PropertyValue:
    """The property's value read as the wanted type; a missing one reads as null does.

    Raises:
        MessageFormatError: the conversion table has no such row, or the text is no such number.
    """
    if held is None or held.value is None:
        if wanted in ("string", "boolean"):
            return None if wanted == "string" else False
        is_not = "is not set, and" if held is None else "is null, which"
        first = "property_exists" if held is None else "get_object_property"
        raise MessageFormatError(
            f"property {shown_name(name)} {is_not} cannot be read as {wanted}; ask {first}({shown(name)}) first",
            property=name,
        )
    if wanted not in READABLE_AS[held.type]:
        raise MessageFormatError(
            f"property {shown_name(name)} is of type {held.type} and cannot be read as {wanted}; it can as "
            f"{', '.join(sorted(READABLE_AS[held.type]))}",
            property=name,
        )
    if wanted == "string":
        return property_text(held)
    if held.type != "string":
        return held.value
    text = property_text(held)
    if wanted == "boolean":
        return text.lower() == "true"
    try:
        return parse_property(wanted, text).value
    except ValueError as fault:
        raise MessageFormatError(
            f"property {shown_name(name)} cannot be read as {wanted}: {fault}", property=name
        ) from None


def checked(name: str, kind: PropertyType, value: object) -> Property:
    """The property, when the value is one of the type.

    Raises:
        MessageFormatError: it is not.
    """
    if kind == "string" and value is None:
        return NULL
    if kind == "string" and isinstance(value, str):
        return Property(kind, plain_text(value))
    if kind == "boolean" and isinstance(value, bool):
        return Property(kind, value)
    if kind in INTEGER_BITS and isinstance(value, int) and not isinstance(value, bool):
        if integer_fits(value, INTEGER_BITS[kind]):
            return Property(kind, int(value))
    elif kind in ("float", "double") and isinstance(value, int | float) and not isinstance(value, bool):
        what = f"property {shown_name(name)}"
        number = double_of(what, value, property=name)
        return Property(kind, float_of(what, number, property=name) if kind == "float" else number)
    raise MessageFormatError(
        f"property {shown_name(name)} is {shown(value)}: {WHAT_IT_IS.get(kind) or _integer_rule(kind)}",
        property=name,
        value=value,
    )


WHAT_IT_IS: Mapping[str, str] = MappingProxyType(
    {
        "string": "it is a str, or None",
        "boolean": "it is True or False",
        "float": "it is a number",
        "double": "it is a number",
    }
)


def _integer_rule(kind: str) -> str:
    most = (1 << INTEGER_BITS[kind] - 1) - 1
    return f"it is an int from {-most - 1} to {most}"


class TypedProperties:
    """The property accessors of a JMS message, by type."""

    __slots__ = ()

    @abstractmethod
    def _property(self, name: str) -> Property | None:
        """The property, also one that is only seen; None: not set."""

    @abstractmethod
    def _property_value(self, name: str) -> PropertyValue | Unset:
        """Its value alone; UNSET: not set."""

    @abstractmethod
    def _property_names(self) -> Iterator[str]:
        """The names of those that were set."""

    @abstractmethod
    def _set_property(self, name: str, held: Property | None) -> None:
        """Sets or, by None, removes it; raises MessageNotWriteableError on a received message."""

    @property
    def properties(self) -> "Properties":
        """The properties as a mapping."""
        return Properties(self)

    def property_exists(self, name: str) -> bool:
        """Return True if the property is set, if only to null."""
        return self._property(name) is not None

    def get_boolean_property(self, name: str) -> bool:
        """The property as a bool; False when it is not set."""
        return bool(converted(name, self._property(name), "boolean"))

    def get_byte_property(self, name: str) -> int:
        """The property as an int of 8 bits; MessageFormatError when it is not set, or cannot be one."""
        return self._integer(name, "byte")

    def get_short_property(self, name: str) -> int:
        """The property as an int of 16 bits; MessageFormatError when it is not set, or cannot be one."""
        return self._integer(name, "short")

    def get_int_property(self, name: str) -> int:
        """The property as an int of 32 bits; MessageFormatError when it is not set, or cannot be one."""
        return self._integer(name, "int")

    def get_long_property(self, name: str) -> int:
        """The property as an int of 64 bits; MessageFormatError when it is not set, or cannot be one."""
        return self._integer(name, "long")

    def get_float_property(self, name: str) -> float:
        """The property as a float of 32 bits; MessageFormatError when it is not set, or cannot be one."""
        return self._float(name, "float")

    def get_double_property(self, name: str) -> float:
        """The property as a float of 64 bits; MessageFormatError when it is not set, or cannot be one."""
        return self._float(name, "double")

    def get_string_property(self, name: str) -> str | None:
        """The property as a str; None when it is not set."""
        value = converted(name, self._property(name), "string")
        assert value is None or isinstance(value, str), value
        return value

    def get_object_property(self, name: str) -> PropertyValue:
        """The property as it was set; None when it is not."""
        held = self._property(name)
        return None if held is None else held.value

    def set_boolean_property(self, name: str, value: bool) -> None:
        """Sets the property to True or False; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "boolean", value))

    def set_byte_property(self, name: str, value: int) -> None:
        """Sets the property to an int of 8 bits; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "byte", value))

    def set_short_property(self, name: str, value: int) -> None:
        """Sets the property to an int of 16 bits; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "short", value))

    def set_int_property(self, name: str, value: int) -> None:
        """Sets the property to an int of 32 bits; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "int", value))

    def set_long_property(self, name: str, value: int) -> None:
        """Sets the property to an int of 64 bits; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "long", value))

    def set_float_property(self, name: str, value: float) -> None:
        """Sets the property to a float, rounded to 32 bits; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "float", value))

    def set_double_property(self, name: str, value: float) -> None:
        """Sets the property to a float; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "double", value))

    def set_string_property(self, name: str, value: str | None) -> None:
        """Sets the property to a str, or None; MessageFormatError for any other value."""
        self._set_property(name, checked(name, "string", value))

    def set_object_property(self, name: str, value: PropertyValue) -> None:
        """Sets the property to a str, bool, int, float or None, by its type."""
        self._set_property(name, property_of(name, value))

    def _integer(self, name: str, wanted: PropertyType) -> int:
        value = converted(name, self._property(name), wanted)
        assert isinstance(value, int), value
        return value

    def _float(self, name: str, wanted: PropertyType) -> float:
        value = converted(name, self._property(name), wanted)
        assert isinstance(value, float), value
        return value


class Properties(MutableMapping[str, PropertyValue]):
    """A message's properties by name: `int` is stored as int or long by its size, `float` as double.

    What the provider adds (`JMSXDeliveryCount`, `JMS_BEA_UnitOfOrder`, a `JMSXGroupID` nobody set) can be looked up,
    but is not among the names.
    """

    __slots__ = ("_message",)

    def __init__(self, message: TypedProperties) -> None:
        self._message = message

    def __getitem__(self, name: str) -> PropertyValue:
        value = self._message._property_value(name)
        if value is UNSET:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: PropertyValue) -> None:
        self._message._set_property(name, property_of(name, value))

    def __delitem__(self, name: str) -> None:
        self._message._set_property(name, None)

    def __iter__(self) -> Iterator[str]:
        return self._message._property_names()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))
