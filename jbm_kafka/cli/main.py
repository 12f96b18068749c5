"""Entry point of `jbm-kafka`: finds the command, and turns every failure into one line and an exit code.

0: done. 1: it could not be done; one line on standard error says why and what to do. 2: wrong usage, again
with one line; nothing was done.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence

import click

from jbm_kafka.cli.ending import Interrupted
from jbm_kafka.cli.lazy import LazyCommand, LazyGroup
from jbm_kafka.cli.wrong_usage import usage_text
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.subscription import SUBSCRIPTION_ARGUMENT

DONE, FAILED, WRONG_USAGE = 0, 1, 2

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing; for a file of ours the error has the name."""

_QUEUES, _MESSAGES, _TROUBLE, _TRYING = "Queues and topics", "Messages", "When something does not move", "Trying it out"

# A new command is one line here.
COMMANDS = {
    "list": LazyCommand("jbm_kafka.cli.queues:list_queues", "List the queues with what they hold.", _QUEUES),
    "show": LazyCommand("jbm_kafka.cli.queues:show", "Show one queue, partition by partition.", _QUEUES),
    "create": LazyCommand("jbm_kafka.cli.queues:create", "Create a queue or topic.", _QUEUES),
    "provision": LazyCommand(
        "jbm_kafka.cli.provision_command:provision",
        "Make all topics of a namespace, and print or set the rights of its users.",
        _QUEUES,
    ),
    "delete": LazyCommand(
        "jbm_kafka.cli.delete:delete", "Delete a queue with its messages and all that is kept of it.", _QUEUES
    ),
    "subscriptions": LazyCommand(
        "jbm_kafka.cli.subscription_commands:subscriptions", "Subscriptions of topics: list, create, delete.", _QUEUES
    ),
    "readers": LazyCommand(
        "jbm_kafka.cli.reader_commands:readers", "Spark queries and archives that read topics: list, end.", _QUEUES
    ),
    "truncate": LazyCommand(
        "jbm_kafka.cli.truncate_command:truncate", "Delete what nobody needs any more, or show who needs what.", _QUEUES
    ),
    "bodies": LazyCommand(
        "jbm_kafka.cli.bodies_commands:bodies", "Large bodies beside Kafka: list, remove what nobody needs.", _QUEUES
    ),
    "prepared": LazyCommand(
        "jbm_kafka.cli.prepared_commands:prepared", "Prepared branches of transactions (XA): list, resolve.", _QUEUES
    ),
    "export": LazyCommand(
        "jbm_kafka.cli.moving_commands:export", "Write into a file what a queue or topic holds.", _QUEUES
    ),
    "import": LazyCommand(
        "jbm_kafka.cli.moving_commands:import_",
        "Put there what such a file has: each message with its past, once.",
        _QUEUES,
    ),
    "adopt": LazyCommand(
        "jbm_kafka.cli.moving_commands:adopt", "Take a topic that other tools copied, such as MirrorMaker.", _QUEUES
    ),
    "settings": LazyCommand(
        "jbm_kafka.cli.settings_commands:settings", "Settings of queues while programs run: list, set, unset.", _QUEUES
    ),
    "admit-partitions": LazyCommand(
        "jbm_kafka.cli.partition_commands:admit_partitions", "Give a queue or topic in use more partitions.", _QUEUES
    ),
    "end-paths": LazyCommand(
        "jbm_kafka.cli.partition_commands:end_paths",
        "After that: units that kept their partition go by their hash again.",
        _QUEUES,
    ),
    "send": LazyCommand("jbm_kafka.cli.send:send", "Send messages: a text, a file, or standard input.", _MESSAGES),
    "receive": LazyCommand("jbm_kafka.cli.receive:receive", "Receive messages and print them.", _MESSAGES),
    "browse": LazyCommand(
        "jbm_kafka.cli.browse_command:browse", "Show a queue's messages without receiving them.", _MESSAGES
    ),
    "explain": LazyCommand(
        "jbm_kafka.cli.explain:explain",
        "Why a queue, a unit or a message does not move: which process has it, since when, until when.",
        _TROUBLE,
    ),
    "doctor": LazyCommand(
        "jbm_kafka.cli.doctor_command:doctor", "What is not as it should be, and the remedy of each.", _TROUBLE
    ),
    "config": LazyCommand(
        "jbm_kafka.cli.config_command:config",
        "The configuration: check it, show where each value comes from, its schema.",
        _TRYING,
    ),
    "exporter": LazyCommand(
        "jbm_kafka.cli.exporter_command:exporter", "Serve metrics of all queues, whoever receives from them.", _TROUBLE
    ),
    "console": LazyCommand(
        "jbm_kafka.cli.console_command:console", "Show queues in the browser, and act on them.", _TROUBLE
    ),
    "dead-letters": LazyCommand(
        "jbm_kafka.cli.dead_letter_commands:dead_letters", "Messages that were given up: list, retry.", _TROUBLE
    ),
    "pause": LazyCommand(
        "jbm_kafka.cli.pause_commands:pause", "Stop sending to and receiving from a queue or topic.", _TROUBLE
    ),
    "resume": LazyCommand("jbm_kafka.cli.pause_commands:resume", "Let a paused queue or topic go on.", _TROUBLE),
    "cron": LazyCommand(
        "jbm_kafka.cli.cron_commands:cron", "Schedules of workers: list, pause, resume, run, remove.", _TROUBLE
    ),
    "drain": LazyCommand("jbm_kafka.cli.drain_command:drain", "Have a worker's process end in order.", _TROUBLE),
    "release": LazyCommand("jbm_kafka.cli.release:release", "Let units go on that are on hold.", _TROUBLE),
    "move": LazyCommand("jbm_kafka.cli.message_commands:move", "Move messages to another queue.", _TROUBLE),
    "send-now": LazyCommand(
        "jbm_kafka.cli.message_commands:send_now", "Let messages go that wait for a time.", _TROUBLE
    ),
    "give-up": LazyCommand(
        "jbm_kafka.cli.message_commands:give_up", "Send messages to the dead-letter address now.", _TROUBLE
    ),
    "expire": LazyCommand("jbm_kafka.cli.message_commands:expire", "Let messages expire now.", _TROUBLE),
    "remove": LazyCommand("jbm_kafka.cli.message_commands:remove", "Remove messages for good.", _TROUBLE),
    "run": LazyCommand("jbm_kafka.cli.run_command:run", "Run the handlers of a worker.", _MESSAGES),
    "bridge": LazyCommand(
        "jbm_kafka.cli.bridge_command:bridge",
        "Take messages to another queue, cluster or AMQP server, as the configuration says.",
        _MESSAGES,
    ),
    "outbox": LazyCommand(
        "jbm_kafka.cli.outbox_commands:outbox",
        "Messages that wait in a database: relay, list, retry, drop.",
        _MESSAGES,
    ),
    "store": LazyCommand(
        "jbm_kafka.cli.store_commands:store",
        "What a sender has stored beside itself: show, forward, drop.",
        _MESSAGES,
    ),
    "sidecar": LazyCommand(
        "jbm_kafka.cli.sidecar_command:sidecar", "A server for AMQP 1.0 clients such as Qpid JMS: run, user.", _MESSAGES
    ),
    "broker": LazyCommand(
        "jbm_kafka.cli.broker_command:broker", "A local Apache Kafka for development: start, stop, status.", _TRYING
    ),
    "docs": LazyCommand("jbm_kafka.cli.docs_command:docs", "Print a page of the documentation.", _TRYING),
    "demo": LazyCommand(
        "jbm_kafka.demo.demo_command:demo", "The bookstore, end to end, and the proof from its topics.", _TRYING
    ),
    "bench": LazyCommand(
        "jbm_kafka.bench.bench_command:bench", "Throughput and latency beside Kafka's own clients.", _TRYING
    ),
    "bench-instructions": LazyCommand(
        "jbm_kafka.bench.instructions_command:bench_instructions",
        "Instructions per message, beside earlier ones.",
        _TRYING,
        is_hidden=True,
    ),
}

cli = LazyGroup(table=COMMANDS, help="JMS queues and units of order on plain Kafka topics.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code. Raises nothing."""
    return run(cli, "jbm-kafka", arguments)


def run(command: click.Command, program: str, arguments: Sequence[str] | None) -> int:
    """Runs a command, or one of a group, as the program of that name; its exit code. Raises nothing."""
    if sys.stdout is None:  # what is opened next would get its number, and what is printed would go there
        _say(program, "standard output is closed; nothing was done")
        return FAILED
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a message may hold what the terminal's encoding does not
    try:
        code = command.main(args=arguments, prog_name=program, standalone_mode=False)
        sys.stdout.flush()  # a closed pipe must be noticed here, not while the interpreter shuts down
    except BrokenPipeError:
        return _reader_is_gone()
    except SystemExit as end:
        # click's own: a closed pipe, which it calls a failure, or shell completion.
        return _reader_is_gone() if isinstance(end.__context__, OSError) else DONE
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            click.echo(usage_text(error, program), err=True)
        return WRONG_USAGE
    except (KeyboardInterrupt, click.Abort, Interrupted) as interrupt:
        text = str(interrupt) if isinstance(interrupt, Interrupted) else ""
        _say(program, f"interrupted: {text}" if text else "interrupted")
        return FAILED
    except Exception as error:
        if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
            _say(program, "interrupted")  # it came while a Kafka client was let go of, which cannot raise it
            return FAILED
        if os.environ.get("JBM_TRACEBACK"):
            raise
        _say(program, describe(error))
        return FAILED
    return code if isinstance(code, int) else DONE


def describe(error: Exception) -> str:
    """Return what a user should read of the error: no type names for what is expected, and for a bug where to look."""
    from confluent_kafka import KafkaException  # late: help and usage errors need no Kafka client

    match error:
        case JMSError():
            return _as_typed(str(error))
        case OSError() if error.errno in _NO_ROOM and error.filename is None:
            return f"standard output cannot be written: {error.strerror}"
        case OSError() if error.strerror:
            return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        case OSError():
            return str(error)
        case click.ClickException():
            return error.format_message()
        case KafkaException() if error.args and hasattr(error.args[0], "str"):
            return f"Kafka says: {error.args[0].str()}"
        case _:
            return f"a bug: {failure_text(error)} (JBM_TRACEBACK=1 shows where)"


def _as_typed(text: str) -> str:
    """The text of an error, with the options of commands in place of the arguments of Python that mean the same."""
    from jbm_kafka.kafka.connection_faults import IN_KAFKA
    from jbm_kafka.registry.topics import NOT_MADE

    options = {
        IN_KAFKA: "with --kafka-property, JBM_KAFKA_<NAME> or in the config file",
        NOT_MADE: "",
        SUBSCRIPTION_ARGUMENT: "--subscription NAME",
        "Admin.unsubscribe": "jbm-kafka subscriptions delete",
        "force=True": "--force",
        "split_units=True (--split-units)": "--split-units",
    }
    for argument, option in options.items():
        text = text.replace(argument, option)
    return text


def _reader_is_gone() -> int:
    """The reader has enough (`jbm-kafka browse | head`): no failure, but what is still buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _say(program: str, text: str) -> None:
    click.echo(f"{program}: {text}", err=True)


if __name__ == "__main__":
    sys.exit(main())
