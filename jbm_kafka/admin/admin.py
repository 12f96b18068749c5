"""Administration of the queues and topics of one cluster."""

from jbm_kafka.admin.destination_admin import DestinationAdmin
from jbm_kafka.admin.explaining_admin import ExplainingAdmin
from jbm_kafka.admin.letter_admin import LetterAdmin
from jbm_kafka.admin.message_admin import MessageAdmin
from jbm_kafka.admin.partition_admin import PartitionAdmin
from jbm_kafka.admin.running_admin import RunningAdmin


class Admin(DestinationAdmin, PartitionAdmin, ExplainingAdmin, LetterAdmin, MessageAdmin, RunningAdmin):
    """Any thread. As a context manager it closes itself.

    Args:
        bootstrap: `host:port`, several with commas; or `memory://NAME`, whose world it keeps until it is closed.
        kafka: librdkafka properties such as security settings.
        namespace: prefix of everything of ours.
    """
