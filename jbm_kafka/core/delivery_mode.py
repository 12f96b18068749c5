"""How careful a send is with a message."""

from enum import IntEnum


class DeliveryMode(IntEnum):
    """How long a send waits; the numbers of the first two are those of JMS.

    NON_PERSISTENT: it does not; a failure may lose the message.
    PERSISTENT: until every in-sync replica has the message.
    PERSISTENT_GROUPACK: only every n-th send does, for all before it. Received, the message is PERSISTENT.
    """

    NON_PERSISTENT = 1
    """The send does not wait; a failure may lose the message (SEND-2)."""
    PERSISTENT = 2
    """The send waits until every in-sync replica has the message (SEND-1)."""
    PERSISTENT_GROUPACK = 3
    """Only every n-th send waits, then for all before it (SEND-3). Received, the message is PERSISTENT."""
