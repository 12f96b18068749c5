"""Makes one line of Spark's hundred: what happened, and what to do."""

import re

_OURS = re.compile(r"^(?:jbm_(?:spark|kafka)\.[\w.]+Error|Caused by: jbm\.spark\.WriteError): (?P<text>.+)$")
"""How a Python traceback ends within Spark's error of a failed batch, and how Java tells what a class of ours said."""
_OWN_REFUSAL = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<text>.*?)(?: SQLSTATE: \w+)?$")
_QUERY_PREFIX = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_STATE = re.compile(r"( SQLSTATE: \w+)+$")
_JAVA_PACKAGE = re.compile(r"^(?:[a-z]\w*\.)+(?=[A-Z])")
_PYTHON = re.compile(r"^.*Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?P<error>\S.*)$", re.MULTILINE)
"""The error that a function of the user's raised, in a task."""
_CALLED = re.compile(r"^An error occurred while calling \S+$")
"""py4j's own line, above what Java says."""
_STOPPED = re.compile(
    r"An error occurred while calling .+\n: java\.(lang|io|nio\.channels)\."
    r"(Interrupted|InterruptedIO|ClosedByInterrupt)Exception|part of cancelled job group"
)
"""As Spark itself knows it, in `StreamExecution`."""
_LOST = re.compile(
    r"in offset \[(?P<first>\d+), (?P<end>\d+)\) for topic partition (?P<topic>\S+)-(?P<partition>\d+)"
    r"|Partition (?P<cut>\S+)-(?P<of>\d+) offset was changed from (?P<before>\d+) to (?P<now>\d+)"
)
"""Which messages Spark could not read: some of them, in the first form; in the second the log ends before them."""
_GONE = r"data may have been (lost|missed)|OffsetOutOfRangeException"
"""What was to be read was deleted before."""
_LENGTH_MAX = 500
_StopOfSpark: type[Exception] = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
"""Shows in a traceback as py4j's own does, whose text is that of Java, with its trace."""

_KNOWN = (
    (
        _GONE,
        "messages that were not read yet are gone (retention, or the topic was made anew): start a job again; a "
        "streaming query goes on without them with a new checkpoint, and with `starting` where there are some",
    ),
    (
        r"UnknownTopicOrPartitionException|UnknownTopicIdException",
        "a topic is not there any more: create it (jbm-kafka create NAME), and read it with a new checkpoint",
    ),
    (
        r"[Ss]tart offset -?\d+ is greater than the (resolved )?end offset",
        "`ending` lies before `starting` in a partition: give a later end, or an earlier start",
    ),
    (
        r"STATE_STORE_\w*SCHEMA_(NOT_COMPATIBLE|MISMATCH)|NOT_MATCH_IN_STATE_METADATA|StateSchemaNotCompatible",
        "the checkpoint keeps the state of another grouping (other keys, sums or windows): give the changed query a "
        "new checkpoint",
    ),
    (
        r"you must specify all TopicPartitions",
        "`starting` names some of the topic's partitions: give an offset for each of them",
    ),
    (
        r"^An error occurred while calling o\d+\.\w+$|Answer from Java side is empty|^\[Errno 111\]",
        "Spark's JVM has ended, perhaps for want of memory: start again",
    ),
)
"""Errors that Spark words at great length, and what they mean."""
_REMEDIES = (
    (
        r"errors\.TimeoutException|Cannot fetch record|DisconnectException|No resolvable bootstrap urls",
        "the brokers did not answer: see that they run, and start again",
    ),
    (r"AuthorizationException", "jbm-kafka docs security names the rights that Spark needs"),
    (r"OutOfMemoryError", "give Spark more memory: build_session(..., driver_memory=)"),
)
"""Errors that Spark words well enough, and what to do."""


def is_stop(error: Exception) -> bool:
    """Return True if the error is that of a query stopped within its batch, which is no failure."""
    return _STOPPED.search(str(error)) is not None


def short_stop(error: Exception) -> Exception:
    """The error of a stop, to be raised: Spark knows it by its first lines, and searches all of it with a pattern that
    overflows the stack of the query's thread at some thousand characters, as those of a trace are."""
    first, *others = str(error).splitlines()
    telling = [line for line in others if re.search(r"Exception|cancelled", line) and not line.startswith("\tat ")]
    return _StopOfSpark("\n".join([first, *telling[:2]]))


def is_gone(error: Exception) -> bool:
    """Return True if what was to be read was deleted before."""
    return re.search(_GONE, str(error)) is not None


def cause_line(error: Exception) -> str:
    """The innermost cause: the outer ones name a stage and an executor. What we said ourselves stands as we said it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [found["text"] for line in lines if (found := _OURS.match(line) or _OWN_REFUSAL.search(line))]
    if ours:
        return ours[-1][:_LENGTH_MAX]
    for pattern, meaning in _KNOWN:
        if any(re.search(pattern, line) for line in lines):
            return _lost_range(str(error)) + meaning
    raised = [found["error"].strip() for found in _PYTHON.finditer(str(error))]
    if raised:
        return raised[-1][:_LENGTH_MAX]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if len(lines) > 1 and _CALLED.match(lines[0]):
        lines = [lines[1].removeprefix(": "), *lines[1:]]
    line = (causes[-1:] or lines[:1] or [type(error).__name__])[0]
    cause = _JAVA_PACKAGE.sub("", _STATE.sub("", _QUERY_PREFIX.sub("", line)))[:_LENGTH_MAX]
    remedy = next((remedy for pattern, remedy in _REMEDIES if any(re.search(pattern, line) for line in lines)), None)
    return cause if remedy is None else f"{cause.rstrip('.')}; {remedy}"


def _lost_range(text: str) -> str:
    found = _LOST.search(text)
    if found is None:
        return ""
    if found["first"] is not None:
        return (
            f"some of the offsets {found['first']} to {int(found['end']) - 1} of topic {found['topic']}, partition "
            f"{found['partition']}: "
        )
    cut = f"offset {found['before']} of topic {found['cut']}, partition {found['of']}"
    return f"{cut}, whose log ends at {found['now']}: "
