"""The text that `json=` of a send writes and `message.json()` reads."""

import dataclasses
import json
from typing import Any, Final

from jbm_kafka.codec.object_codecs import json_fault, read_json
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.wrong_values import no_utf8, shown

CONTENT_TYPE: Final = "content-type"
JSON_TYPE: Final = b"application/json"


def json_text(value: object) -> str:
    """The value as JSON: what `json.dumps` takes, Pydantic models, dataclasses, and what has `__json__()`, nested too.

    Raises:
        MessageFormatError: JSON cannot carry it.
    """
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError as fault:
        reason = no_utf8(fault)
    except RecursionError:
        reason = "it is nested too deeply"
    except (TypeError, ValueError) as fault:
        reason = json_fault(fault)
    else:
        return text
    raise MessageFormatError(
        f"json is {shown(value)}: {reason}. JSON has dict, list, str, bool, int, finite float and None; beside them "
        f"json= takes Pydantic models, dataclasses and objects with __json__()",
        value=value,
    )


def json_value(data: bytes) -> Any:
    """The value that the JSON tells.

    Raises:
        MessageFormatError: it is not JSON in UTF-8.
    """
    try:
        return read_json(data)
    except ValueError as fault:
        raise MessageFormatError(f"the body is no JSON: {fault}; `body` has it as it is") from None


def _plain(value: Any) -> Any:
    """Return what stands in JSON for an object that it does not know."""
    kind = type(value)
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__json__"):
        return value.__json__()
    if dataclasses.is_dataclass(kind):
        # Not asdict(), which would copy what stands in the fields, and knows nothing of models in them.
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(kind)}
    raise TypeError(f"{shown(value)} is no value of JSON")
