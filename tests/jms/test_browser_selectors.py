"""Browsers with selectors."""

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, DeliveryMode, Queue, TextMessage, errors
from jbm_kafka.admin import Admin
from jbm_kafka.jms.browser import Include
from jbm_kafka.jms.session import Session
from tests.jms.support import bodies


@pytest.fixture
def queue(session: Session, orders: Queue) -> Queue:
    """Four orders in one partition: two of Joe's, one of Ann's, one of nobody's."""
    queue = Queue(f"{orders.name}.one")
    producer = session.create_producer(queue)
    for body, unit, region, quantity in (
        ("joe 1", "joe", "US", 20),
        ("joe 2", "joe", "EU", 20),
        ("ann", "ann", "EU", 5),
        ("no unit", None, "EU", 11),
    ):
        message = TextMessage(body)
        message.type, message.correlation_id = "order", f"c-{body}"
        message.properties.update({"region": region, "qty": quantity, "paid": quantity > 10})
        producer.send(message, unit_of_order=unit)
    return queue


def chosen(session: Session, queue: Queue, selector: str | None, include: Include = "all") -> list[object]:
    with session.create_browser(queue, selector=selector, include=include) as browser:
        return bodies(browser)


def test_a_browser_shows_what_its_selector_chooses(session: Session, queue: Queue) -> None:
    """Of SEL-1, UNIT-6: by properties and header fields; a head that is left out holds its unit."""
    eu = "region = 'EU' AND qty > 10"
    assert chosen(session, queue, eu) == ["joe 2", "no unit"]
    assert chosen(session, queue, eu, include="deliverable") == ["no unit"]
    for selector, found in (
        ("paid", ["joe 1", "joe 2", "no unit"]),
        ("NOT paid OR missing = 1", ["ann"]),
        ("JMSXGroupID = 'joe'", ["joe 1", "joe 2"]),
        ("JMS_BEA_UnitOfOrder IS NULL", ["no unit"]),
        ("JMSType = 'order' AND JMSCorrelationID LIKE 'c-joe%' AND JMSPriority = 4", ["joe 1", "joe 2"]),
        ("JMSDeliveryMode = 'PERSISTENT' AND JMSTimestamp > 1600000000000 AND JMSMessageID LIKE 'ID:%'", None),
        ("JMSDeliveryMode = 'NON_PERSISTENT'", []),
        ("", None),
        (None, None),
    ):
        expected = ["joe 1", "joe 2", "ann", "no unit"] if found is None else found
        assert chosen(session, queue, selector) == expected, selector


def test_a_browser_tells_its_selector(session: Session, queue: Queue) -> None:
    assert session.create_browser(queue, "qty>1").selector == "qty>1"
    assert session.create_browser(queue).selector is None
    assert session.create_browser(queue, selector=" ").selector is None


WRONG = "region = 'EU' AND qty => 10"


def test_a_wrong_selector_is_refused_when_the_browser_is_created(
    session: Session, queue: Queue, warm: ConnectionFactory
) -> None:
    """Of SEL-1: at creation, with the position."""
    with warm.create_context() as jms:
        for create in (session.create_browser, jms.create_browser):
            with pytest.raises(errors.InvalidSelectorError, match="column 24: found '>', expected >= for") as refused:
                create(queue, selector=WRONG)
            assert (refused.value.position, refused.value.selector) == (24, WRONG)


def test_a_context_browses_with_a_selector(queue: Queue, warm: ConnectionFactory) -> None:
    with warm.create_context(AcknowledgeMode.CLIENT) as jms:
        assert bodies(jms.create_browser(queue, selector="qty < 10")) == ["ann"]


@pytest.mark.kafka_only
def test_an_admin_browses_with_a_selector(queue: Queue, bootstrap: str) -> None:
    """Of SEL-1: a wrong one is refused at once, not when the first message is asked for."""
    with Admin(bootstrap) as admin:
        assert bodies(admin.browse(queue, selector="qty < 10")) == ["ann"]
        assert bodies(admin.browse(queue, selector="region = 'EU'", include="all")) == ["joe 2", "ann", "no unit"]
        with pytest.raises(errors.InvalidSelectorError, match="column 24"):
            admin.browse(queue, selector=WRONG)
        with pytest.raises(errors.InvalidSelectorError, match="column 24"):
            admin.dead_letters(queue, selector=WRONG)


def test_a_selector_sees_a_message_as_its_receiver_does(session: Session, orders: Queue) -> None:
    queue = Queue(f"{orders.name}.one")
    producer = session.create_producer(queue)
    producer.send("light", delivery_mode=DeliveryMode.NON_PERSISTENT, priority=9)
    producer.flush()
    assert chosen(session, queue, "JMSDeliveryMode = 'NON_PERSISTENT' AND JMSPriority > 8") == ["light"]
