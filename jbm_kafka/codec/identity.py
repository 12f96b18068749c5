"""How a record's key and place show in JMS."""


def unit_name(key: bytes | None) -> str | None:
    """The unit of order that a record's key stands for: its text, or `0x<hex>` when it is no UTF-8; empty is none."""
    if not key:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def foreign_message_id(topic: str, partition: int, offset: int) -> str:
    """The id of a message whose record has no JMSMessageID."""
    return f"ID:kafka:{topic}:{partition}:{offset}"
