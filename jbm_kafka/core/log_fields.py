"""The fields that a line of the log about a message has beside its sentence, for formatters that write JSON.

No unit of order is among them: it may be a customer, and logs are read by many.
"""

from __future__ import annotations


def log_fields(
    destination: str,
    partition: int | None = None,
    offset: int | None = None,
    message_id: str | None = None,
    *,
    attempt: int | None = None,
    reason: str | None = None,
) -> dict[str, object]:
    """For `extra=` of a logger's call: those that are known."""
    fields = {
        "destination": destination,
        "partition": partition,
        "offset": offset,
        "message_id": message_id,
        "attempt": attempt,
        "reason": reason,
    }
    return {name: value for name, value in fields.items() if value is not None}
