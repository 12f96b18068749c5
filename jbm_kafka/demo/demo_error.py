"""Why the demo could not be done, or did not show what it should."""

from jbm_kafka.core.jms_errors import JMSError


class DemoError(JMSError):
    """The demo could not go on; one line that says why and what to do."""


class WrongFiguresError(DemoError):
    """Raised where the topics do not show what was promised: a bug, in the demo or beneath it."""
