"""Administration of the queues and topics of one cluster."""

from jbm_kafka.admin.destination_admin import DestinationAdmin
from jbm_kafka.admin.explaining_admin import ExplainingAdmin
from jbm_kafka.admin.letter_admin import LetterAdmin
from jbm_kafka.admin.message_admin import MessageAdmin
from jbm_kafka.admin.partition_admin import PartitionAdmin
from jbm_kafka.admin.running_admin import RunningAdmin
from jbm_kafka.jms.one_process import refuse_pickle


class Admin(DestinationAdmin, PartitionAdmin, ExplainingAdmin, LetterAdmin, MessageAdmin, RunningAdmin):
    """What operators do: makes, looks into, changes and clears the queues and topics of one cluster. Any thread.

    As a context manager it closes itself.

    Make and end: create_queue, create_topic, delete_destination, unsubscribe.
    What there is: destinations, exists, partitions, subscriptions, counts, browse.
    Why nothing moves: explain.
    Stop and go: pause, resume, paused, release.
    Settings while programs run: set_address_settings, unset_address_settings, address_settings.
    Dead letters: queues_with_dead_letters, dead_letters, retry_dead_letters.
    Messages that wait: move, remove, expire, send_to_dead_letter.
    More partitions: admit_partitions, unit_paths, end_paths.
    End: close, is_closed.

    Counts are messages, unless they are named otherwise; times that end in `_ms` are milliseconds, instants since 1970;
    `timeout_s`, `wait_s` and `older_than_s` are seconds.

    Beside what stands with each, every call may raise IllegalStateError: it is closed, or of another process;
    JMSSecurityError: the cluster refuses; JMSError: it does not answer in time; and of a wrong argument
    InvalidSettingError, of a wrong type InvalidTypeError. InvalidDestinationError: there is no such queue.

    Args:
        bootstrap: `host:port`, several with commas; or `memory://NAME`, whose world it keeps until it is closed.
        kafka: librdkafka properties such as security settings.
        namespace: prefix of everything of ours.
    """

    __reduce__ = refuse_pickle
