"""The numbers of a sidecar that nobody sets, each with its reason."""

ARRIVALS_HIGH = 20_000
"""Deliverable messages read ahead per channel before its partition pauses."""
ARRIVALS_LOW = 4_000
"""It resumes below this; far apart, since every pause throws away what the client had prefetched."""
RECORD_OVERHEAD_BYTES = 700
"""Measured cost of one waiting record besides its body: message object, headers, reference, gate entry."""
GATE_BYTES = 400
"""A unit that waits and whose messages are all in the held store: gate, timer, their places."""
LINE_BYTES = 700
"""The cost of a gate besides when something of it is in memory."""
REDELIVERY_BYTES = 300
"""The cost of a message that came back, until a checkpoint has written it."""
REDELIVERY_ROW_BYTES = 24
"""The same of one whose changelog has it: a row, its place, and a mark that it was written."""
REDELIVERY_BLOCK_BYTES = 600
"""The cost of a block of such rows besides: where few messages of many came back, there are many blocks."""
ENOUGH_AHEAD = 1_000
"""Deliverable messages that a worker reads ahead of all that is asked for. What is left in the client costs nothing; a
partition that never gets to ARRIVALS_HIGH is never paused; and a message of 100 bytes is about 1 KiB of objects, which
should still be in the processor's cache when the application gets it."""
FETCH_PAUSE_MS = 100
"""How long it goes without fetching then: not longer, for the group's rebalances arrive inside a fetch."""
FETCH_COUNT_MIN = 250
"""Records asked of the client at once at least. No more while it has enough, so that only a slow receiver's partitions
ever fill up and pause; but some, for only behind the records of a full partition the client gives those of others."""
FETCH_COUNT_MAX = 1_000
"""And at most, however many are wanted: a default prefetch."""
IDLE_POLL_S = 0.05
BUSY_POLL_S = 0.004
"""How long the owner thread sleeps in the client: the longest that an acknowledgement waits to be seen."""
FED_REST_S = 1.0
"""The longest sleep of one that shares its thread with others and has nothing in hand: whatever comes wakes it."""
QUIET_MS = 50
"""Nothing happened for so long: nothing is about to, and where nobody has anything in hand the longer sleep will do.
Looking every 4 ms took 10 % of a slow processor for each process that waited for messages."""
