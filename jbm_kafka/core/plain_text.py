"""Every text that an application gives, as it is taken: a plain `str` of its characters.

A subclass of `str`, above all `class Status(str, Enum)`, may show another text than it holds, and libraries behind us
refuse it or take what it shows. So each text is made plain where it comes in, and nothing behind that asks again.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.core.jms_errors import InvalidSettingError, JMSError
from jbm_kafka.core.wrong_values import no_utf8, shown


def plain_text(text: str) -> str:
    """The characters of the text, whatever its class."""
    return text if type(text) is str else str.__str__(text)


def plain_texts(settings: Mapping[str, object] | None) -> dict[str, object]:
    """The settings, whose names and texts are plain."""
    values = {plain_text(name) if isinstance(name, str) else name: value for name, value in (settings or {}).items()}
    return {name: plain_text(value) if isinstance(value, str) else value for name, value in values.items()}


def utf8_fault(text: str) -> str | None:
    """Why the text cannot be recorded, with the remedy; None when it can."""
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        return no_utf8(fault)
    return None


def recorded_text(name: str, text: str, error: type[JMSError] = InvalidSettingError) -> str:
    """The plain text of a name that is going to be recorded; `name` is the argument's.

    Raises:
        JMSError: of this class; the text holds a lone surrogate, which has no UTF-8 form.
    """
    text = plain_text(text)
    if (fault := utf8_fault(text)) is not None:
        raise error(f"{name} is {shown(text)}: {fault}", setting=name, value=text)
    return text
