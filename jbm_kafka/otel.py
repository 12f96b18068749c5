"""OpenTelemetry: a trace of each message from its send to its settlement. Needs `jbm-kafka[otel]`.

The context goes in the raw headers of a message (`traceparent`), where clients of other languages find it, too. Spans
are named and described by OpenTelemetry's conventions for messaging. Units of order are not in them: they may be
customers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

try:
    import opentelemetry.trace as _needed  # noqa: F401
except ModuleNotFoundError:
    raise ImportError("opentelemetry-api is not installed: pip install 'jbm-kafka[otel]'") from None

from opentelemetry.context import Context
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.outcomes import Retry
from jbm_kafka.version import version


def instrument(factory: ConnectionFactory, tracer_provider: TracerProvider | None = None) -> None:
    """Trace what connections do that this factory makes from now on: sends, handlers and listeners, settlements.

    Args:
        factory: also the one that a Worker was given. It is changed; in another process call this there.
        tracer_provider: where spans go; None: OpenTelemetry's global one.
    """
    tracer = get_tracer("jbm_kafka", version(), tracer_provider)
    factory._defaults = replace(factory._defaults, tracing=OtelTracing(tracer))


class OtelTracing:
    """Implements `jms.tracing.Tracing`."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin_send(self, destination: Destination) -> SendSpan:
        """A span of kind PRODUCER, child of the one that is current."""
        attributes = _attributes("send", "send", destination)
        return SendSpan(
            self._tracer.start_span(_name("send", destination), kind=SpanKind.PRODUCER, attributes=attributes)
        )

    @contextmanager
    def processing(self, message: Message) -> Iterator[None]:
        """A span of kind CONSUMER, child of the one that sent the message, if that was traced."""
        with self._span("process", "process", message, SpanKind.CONSUMER, _context_of(message)):
            yield

    def failed(self, error: BaseException) -> None:
        """The processing has failed; with Retry it has only not ended."""
        if not isinstance(error, Retry):
            _fail(get_current_span(), error)

    @contextmanager
    def settling(self, message: Message, operation: str) -> Iterator[None]:
        """A span of kind CLIENT, child of the processing."""
        with self._span(operation, "settle", message, SpanKind.CLIENT, None):
            yield

    @contextmanager
    def _span(
        self, operation: str, kind: str, message: Message, span_kind: SpanKind, context: Context | None
    ) -> Iterator[None]:
        attributes = {**_attributes(operation, kind, message.destination), **_attributes_of(message)}
        with self._tracer.start_as_current_span(
            _name(operation, message.destination),
            context,
            kind=span_kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                _fail(span, error)
                raise


class SendSpan:
    """Implements `jms.tracing.SendTrace`."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.headers: Mapping[str, bytes] = _headers_of(span)

    def end(self, message: Message | None, error: BaseException | None) -> None:
        """End the span, with the id that the message got."""
        if message is not None:
            self._span.set_attributes(_attributes_of(message))
        if error is not None:
            _fail(self._span, error)
        self._span.end()


def _headers_of(span: Span) -> Mapping[str, bytes]:
    carrier: dict[str, str] = {}
    inject(carrier, set_span_in_context(span))
    return {name: value.encode() for name, value in carrier.items()}


def _context_of(message: Message) -> Context:
    view = message.kafka
    headers = () if view is None else view.headers
    return extract({name: value.decode(errors="replace") for name, value in headers if isinstance(value, bytes)})


def _name(operation: str, destination: Destination | None) -> str:
    """Names that are made up are left out, or there would be no end of names."""
    if destination is None:
        return operation
    return f"{operation} {'(temporary)' if destination.is_temporary else destination.name}"


def _attributes(operation: str, kind: str, destination: Destination | None) -> dict[str, str | bool]:
    found: dict[str, str | bool] = {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }
    if destination is not None:
        found["messaging.destination.name"] = destination.name
        if destination.is_temporary:
            found["messaging.destination.temporary"] = True
    return found


def _attributes_of(message: Message) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    if message.message_id is not None:
        found["messaging.message.id"] = message.message_id
    if message.correlation_id is not None:
        found["messaging.message.conversation_id"] = str(message.correlation_id)
    view = message.kafka
    if view is not None:
        found["messaging.destination.partition.id"] = str(view.partition)
        found["messaging.kafka.offset"] = view.offset
    return found


def _fail(span: Span, error: BaseException) -> None:
    try:
        span.record_exception(error)
    except Exception:  # which asks the error for its text: somebody else's class
        span.add_event("exception", {"exception.type": type(error).__qualname__})
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))
