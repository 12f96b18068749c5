"""The arguments and the result of a task as JSON, checked by Pydantic on both sides."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jbm_kafka.core.jms_errors import InvalidTypeError, MessageFormatError
from jbm_kafka.core.wrong_values import shown, wrong_type
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.worker.argument_values import told_faults
from jbm_kafka.worker.markers import is_marked

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallCodec:
    """The codec of one function's calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Read its signature.

        Raises:
            InvalidTypeError: a parameter that cannot travel.
        """
        from typing import NotRequired

        from pydantic import (  # a tenth of a second to import
            ConfigDict,
            PydanticUserError,
            ValidationError,
        )
        from pydantic_core import PydanticSerializationError
        from typing_extensions import TypedDict

        self._name = getattr(function, "__name__", "task")
        self._signature = inspect.signature(function)
        self._invalid: tuple[type[ValueError], type[ValueError]] = (ValidationError, PydanticSerializationError)
        hints = _hints(function)
        fields: dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            if parameter.kind not in _BY_NAME:
                rule = f"its parameter {name}: arguments travel by name, so there is no *{name}, and nothing before a /"
                raise wrong_type("function", function, rule)
            kind = hints.get(name, Any)
            if is_marked(kind, parameter.default):
                why = "a call brings all arguments, so there is no Depends and no Header; make it in the function"
                rule = f"its parameter {name}: {why}"
                raise wrong_type("function", function, rule)
            fields[name] = kind if parameter.default is parameter.empty else NotRequired[kind]
        typed: Any = TypedDict  # a model would refuse some names of parameters
        arguments = typed(self._name, fields)
        arguments.__pydantic_config__ = ConfigDict(extra="forbid", val_json_bytes="base64")
        try:
            self._arguments = _carrier(arguments)
            self._result = _carrier(hints.get("return", Any))
        except (PydanticUserError, TypeError, NameError) as error:
            reason = " ".join(str(error).split("\n", 1)[0].split())
            raise wrong_type("function", function, f"Pydantic cannot read its arguments: {reason}") from None

    def arguments_text(self, args: Sequence[Any], named: Mapping[str, Any]) -> str:
        """The arguments of a call as JSON.

        Raises:
            TypeError: the function cannot be called so.
            InvalidTypeError: a TypeError, too: one is not of its type.
        """
        given = self._signature.bind(*args, **named).arguments
        try:
            text: str = self._arguments.model_validate(given).model_dump_json()
            return text
        except self._invalid as error:
            fault = _told(error)
        raise InvalidTypeError(f"{self._name}({', '.join(given)}): {fault}", value=given)

    def arguments(self, message: Message) -> dict[str, Any]:
        """Return what the function is called with.

        Raises:
            MessageFormatError: the message has no arguments of it.
        """
        body: Any = message.body
        try:
            if isinstance(body, str | bytes):
                return dict(self._arguments.model_validate_json(body).root)
            return dict(self._arguments.model_validate(body).root)
        except self._invalid as error:
            fault = _told(error)
        raise MessageFormatError(f"the body has no arguments of {self._name}: {fault}")

    def result_text(self, value: Any) -> str:
        """Return what the function returned, as JSON.

        Raises:
            MessageFormatError: it is not of the type that the function says.
        """
        try:
            text: str = self._result.model_validate(value).model_dump_json()
            return text
        except self._invalid as error:
            fault = _told(error)
        raise MessageFormatError(f"{self._name} returned {shown(value)}: {fault}")

    def result(self, body: Any) -> Any:
        """Return what the function returned, of the body of a reply.

        Raises:
            MessageFormatError: the reply is none of it.
        """
        try:
            return self._result.model_validate_json(body).root
        except self._invalid as error:
            fault = _told(error)
        raise MessageFormatError(f"the reply is no result of {self._name}: {fault}")


def _carrier(kind: Any) -> Any:
    """A class whose instances hold a value of the kind, and bytes in it as base64, for JSON has none."""
    from pydantic import ConfigDict, RootModel

    class Carrier(RootModel[kind]):
        model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    return Carrier


def _told(error: Any) -> str:
    """A fault in one line, without what was sent."""
    return told_faults(error) if hasattr(error, "errors") else str(error).split("\n", 1)[0]


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # whatever a look-up of a name may raise
        raise wrong_type("function", function, f"its types cannot be looked up: {error}") from None
