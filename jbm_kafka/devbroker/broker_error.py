"""Why the local broker could not do it. One line each, with what to do."""

from jbm_kafka.core.jms_errors import JMSError


class LocalBrokerError(JMSError):
    """The local broker could not be started or stopped; the message says what is missing or what it printed last."""
