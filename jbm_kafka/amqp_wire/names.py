"""Names by which our client and our server talk beyond AMQP and Qpid JMS; others pass over them."""

from typing import Final

SHARED_SUBSCRIPTIONS: Final = "SHARED-SUBS"
"""Offered by a server that keeps subscriptions of a topic, by their names, for all their receivers together."""
UNITS: Final = "JBM-UNITS"
"""Offered by a server that lets a receiver have several messages of a unit; wanted by such a receiver's source.

When one goes back, by an outcome or a rollback, the later ones of its unit that the receiver was sent go back too: what
was sent before the outcome is settled, or before the transaction is discharged, counts as never sent.
"""
SESSION: Final = "jbm-session"
"""A property of such a receiver's link: its client's session, whose receivers of a queue have units in common."""
DELIVERABLE: Final = "JBM-DELIVERABLE"
"""In a browser's source: only what could be received now."""
DELAY: Final = "x-opt-jbm-delay"
"""In the annotations of `modified`: after so many milliseconds it is to come again."""
ERROR: Final = "x-opt-jbm-error"
"""In the annotations of `modified`: why the attempt failed."""
SEEN: Final = "x-opt-jbm-seen"
"""In the annotations of `modified` that is no failed attempt: the application had it all the same."""
BEHIND: Final = "x-opt-jbm-behind"
"""In the annotations of `modified`, or the info of the error of `rejected`, to a server that offers UNITS: `[alike,
seen]`. So many of those that go back with it, directly behind it in its unit, have its outcome; so many behind those
the application had, too, and it was no attempt. Their own outcomes follow, and say no more.
"""
ALL: Final = "JBM-ALL"
"""In a browser's source: also what is delayed, and each with its state as an annotation."""
