"""Arguments of Admin that cannot be: each is refused in one line that names the value and what to do."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AddressSettings, Queue, Topic, errors
from jbm_kafka.admin import Admin

MISSING = "there is no Kafka topic"
FOR_QUEUES = "is topic:news: this is for queues only, use Queue(…); of a topic each subscription has its own copy"
WHICH = "'news' is a topic: name one of its subscriptions with "
BOTH = "everything=True means all messages, and unit, message_id or selector only some: give one or the other"

MISTAKES: list[tuple[str, Callable[[Admin], object], type[errors.JMSError], str]] = [
    ("a queue that is not there", lambda admin: admin.counts("nosuch"), errors.InvalidDestinationError,
     "queue:nosuch: there is no Kafka topic 'nosuch'; Admin.destinations() tells which there are"),
    ("a topic to count", lambda admin: admin.counts(Topic("news")), errors.InvalidDestinationError,
     WHICH),
    ("a queue's subscription", lambda admin: admin.remove(Queue("orders"), subscription="s", everything=True),
     errors.InvalidDestinationError, "queue:orders is a queue, which has no subscription 's': leave that out"),
    ("a number to count", lambda admin: admin.counts(5), errors.InvalidDestinationError,  # type: ignore[arg-type]
     "destination is 5: it is a Queue, as in Queue('orders'), or its name"),
    ("explain an empty unit", lambda admin: admin.explain("orders", unit=""), errors.InvalidSettingError,
     "unit is '': it is not empty; leave it out, or set None, for any"),
    ("explain unit 5", lambda admin: admin.explain("orders", unit=5),  # type: ignore[arg-type]
     errors.InvalidTypeError, "unit is 5: it is a str, or None for any"),
    ("explain in the future", lambda admin: admin.explain("orders", older_than_s=-1), errors.InvalidSettingError,
     "older_than_s is -1: it is a number of seconds, 0 or more"),
    ("remove by an empty selector", lambda admin: admin.remove("orders", selector=""), errors.InvalidSettingError,
     "selector is '': it is not empty; leave it out, or set None, for any"),
    ("retry by an empty selector", lambda admin: admin.retry_dead_letters(selector=""), errors.InvalidSettingError,
     "selector is '': it is not empty; leave it out, or set None, for any"),
    ("retry of a place that is none", lambda admin: admin.retry_dead_letters(places=[5]),  # type: ignore[list-item]
     errors.InvalidTypeError, "places is 5: each is a pair of ints, partition and offset, as DeadLetter.place is"),
    ("retry at no rate", lambda admin: admin.retry_dead_letters(rate=0), errors.InvalidSettingError,
     "rate is 0: it is a number of letters a second, above 0"),
    ("remove unit 5", lambda admin: admin.remove("orders", unit=5), errors.InvalidTypeError,  # type: ignore[arg-type]
     "unit is 5: it is "),
    ("remove message 5", lambda admin: admin.remove("orders", message_id=[5]),  # type: ignore[list-item]
     errors.InvalidTypeError, "message_id is "),
    ("send now without saying which", lambda admin: admin.send_now("orders"), errors.InvalidSettingError,
     "say which messages are meant"),
    ("send now what there is not", lambda admin: admin.send_now("nosuch", everything=True),
     errors.InvalidDestinationError, MISSING),
    ("send none now", lambda admin: admin.send_now("orders", everything=True, count=0), errors.InvalidSettingError,
     "count"),
    ("give up an empty id", lambda admin: admin.send_to_dead_letter("orders", message_id=["ID:1", ""]),
     errors.InvalidSettingError, "message_id is '': it is not empty; leave it out, or set None, for any"),
    ("release an empty unit", lambda admin: admin.release("orders", ""), errors.InvalidSettingError,
     "unit is '': it is not empty; leave it out, or set None, for any"),
    ("pause a part there is not", lambda admin: admin.pause("orders", "sends"),  # type: ignore[arg-type]
     errors.InvalidSettingError,
     "what is 'sends': it is 'production' or 'sending', 'consumption' or 'receiving', or 'both'"),
    ("pause by a line that steers terminals", lambda admin: admin.pause("orders", by="night\n\x1b[31m"),
     errors.InvalidSettingError, "it is 1 to 100 characters that can be printed, on one line"),
    ("pause by nobody", lambda admin: admin.pause("orders", by=" "), errors.InvalidSettingError,
     "by is ' ': it is 1 to 100 characters that can be printed, on one line"),
    ("pause by a number", lambda admin: admin.pause("orders", by=7),  # type: ignore[arg-type]
     errors.InvalidTypeError, "by is 7: it is a str with the operator's name, or None"),
    ("pause a schedule that is not there", lambda admin: admin.pause_schedule("orders", "nightly"),
     errors.InvalidDestinationError, "queue:orders has no schedule 'nightly'; there are: none"),
    ("pause a schedule by nobody", lambda admin: admin.pause_schedule("orders", "nightly", by=" "),
     errors.InvalidSettingError, "by is ' ': it is 1 to 100 characters that can be printed, on one line"),
    ("resume a schedule that is not there", lambda admin: admin.resume_schedule("orders", "nightly"),
     errors.InvalidDestinationError, "queue:orders has no schedule 'nightly'; there are: none"),
    ("run a schedule that is not there", lambda admin: admin.run_schedule(Queue("orders"), "nightly"),
     errors.InvalidDestinationError, "queue:orders has no schedule 'nightly'; there are: none"),
    ("remove a schedule of a topic", lambda admin: admin.remove_schedule(Topic("news"), "nightly"),  # type: ignore[arg-type]
     errors.InvalidDestinationError, FOR_QUEUES),
    ("pause what is not there", lambda admin: admin.pause("nosuch"), errors.InvalidDestinationError, MISSING),
    ("move onto itself", lambda admin: admin.move("orders", "orders", everything=True),
     errors.InvalidDestinationError, "queue:orders: its messages are there already; name another queue"),
    ("move to nowhere", lambda admin: admin.move("orders", "nosuch", everything=True),
     errors.InvalidDestinationError, "create it with: Admin.create_queue('nosuch')"),
    ("move to a topic", lambda admin: admin.move("orders", Topic("news"), everything=True),  # type: ignore[arg-type]
     errors.InvalidDestinationError, f"to {FOR_QUEUES}"),
    ("move nothing", lambda admin: admin.move("orders", "DLQ"), errors.InvalidSettingError,
     "say which messages are meant: by unit, message_id or selector, or else everything=True"),
    ("move all and some", lambda admin: admin.move("orders", "DLQ", everything=True, unit="joe"),
     errors.InvalidSettingError, BOTH),
    ("move in no order", lambda admin: admin.move("orders", "DLQ", everything=True, order="size"),  # type: ignore[arg-type]
     errors.InvalidSettingError, "order is 'size': it is 'log' or 'sent' or 'priority'"),
    ("remove by a wrong selector", lambda admin: admin.remove("orders", selector="a =="),
     errors.InvalidSelectorError, "selector 'a ==', column 4: found '=', expected one = only"),
    ("remove none", lambda admin: admin.remove("orders", everything=True, count=0), errors.InvalidSettingError,
     "count is 0: it is an int of messages of at least 1"),
    ("release what?", lambda admin: admin.release("orders"), errors.InvalidSettingError, "say which units are meant"),
    (
        "release one and all",
        lambda admin: admin.release("orders", "joe", everything=True),
        errors.InvalidSettingError,
        "give one or the other",
    ),
    ("release a topic", lambda admin: admin.release(Topic("news"), "joe"), errors.InvalidDestinationError, WHICH),
    ("other partitions", lambda admin: admin.create_queue("orders", partitions=3), errors.InvalidDestinationError,
     "queue:orders exists with 16 partitions, not 3, and Kafka takes none away"),
    ("more partitions", lambda admin: admin.create_queue("orders", partitions=32), errors.InvalidDestinationError,
     "queue:orders exists with 16 partitions, not 32; to have more in use, each unit in its order: "
     "Admin.admit_partitions('orders', partitions=32)"),
    ("a topic where a queue is", lambda admin: admin.create_topic("orders"), errors.InvalidDestinationError,
     "'orders' is a queue, and a name is either; use create_queue('orders') or another name for the topic"),
    ("a queue for a topic", lambda admin: admin.create_topic(Queue("ac")),  # type: ignore[arg-type]
     errors.InvalidDestinationError, "topic Queue(name='ac'): a name is a str, not Queue; give its name: 'ac'"),
    ("a name with an umlaut", lambda admin: admin.create_queue("größe"), errors.InvalidDestinationError,
     "queue 'größe': 'ö' at position 3 is not allowed; legal are A-Z a-z 0-9 . _ -"),
    ("delete what is not there", lambda admin: admin.delete_destination("nosuch"), errors.InvalidDestinationError,
     "there is no such queue, and nothing is left of one; Admin.destinations() has those there are, "
     "and jbm-kafka list shows them"),
    ("partitions of no destination", lambda admin: admin.partitions(5),  # type: ignore[arg-type]
     errors.InvalidTypeError, "destination is 5: it is a Queue, a Topic or its name"),
    ("delete ours", lambda admin: admin.delete_destination("jbm.registry"), errors.InvalidDestinationError,
     "start with 'jbm.'"),
    ("delete Kafka's own", lambda admin: admin.delete_destination("__consumer_offsets"),
     errors.InvalidDestinationError, "names that start with '__' are Kafka's own; choose another"),
    ("letters of nowhere", lambda admin: list(admin.dead_letters("nosuch")), errors.InvalidDestinationError, MISSING),
    ("retry with a text for a time", lambda admin: admin.retry_dead_letters(timeout_s="1"),  # type: ignore[arg-type]
     errors.InvalidTypeError, "timeout_s is '1': it is a number of seconds, 0 or more"),
    ("settings as a dict",
     lambda admin: admin.set_address_settings("orders", {"partitions": 3}),  # type: ignore[arg-type]
     errors.InvalidTypeError,
      "settings is {'partitions': 3}: it is an AddressSettings(…); AddressSettings.from_mapping("
     "a_dict) makes one"),
    ("no settings", lambda admin: admin.set_address_settings("orders", AddressSettings()), errors.InvalidSettingError,
     "settings is AddressSettings(), which says nothing: give one, as in AddressSettings(max_delivery_attempts=3); "
     "unset_address_settings('orders') takes back what is recorded"),
    ("settings for half a word", lambda admin: admin.set_address_settings("a*", AddressSettings()),
     errors.InvalidSettingError, "'*' and '#' stand for whole words between dots, but one is in 'a*'"),
    ("end what is not there", lambda admin: admin.unsubscribe("report"), errors.InvalidDestinationError,
     "there is no durable subscription 'report': Admin.subscriptions() has all, and "
     "jbm-kafka subscriptions list shows them"),
    ("subscriptions of a queue", lambda admin: admin.subscriptions("orders"), errors.InvalidDestinationError,
     "topic:orders: 'orders' is a queue, and only topics have subscriptions: name a topic, or 'orders' alone where a "
     "queue will do"),
    ("browse a topic", lambda admin: list(admin.browse("news")), errors.InvalidDestinationError,
     "'news' is a topic: name one of its subscriptions with subscription=NAME"),
    ("explain a unit and a message", lambda admin: admin.explain("orders", unit="joe", message_id="ID:x"),
     errors.InvalidSettingError, "message_id is 'ID:x': give one of unit and message_id: unit is 'joe' here"),
    ("a page after nothing", lambda admin: admin.page("orders", after="there"), errors.InvalidSettingError,
     "after is 'there': it is what a page before gave as its `after`, or None for the first page"),
    ("a page of a topic", lambda admin: admin.page("news"), errors.InvalidDestinationError,
     "'news' is a topic: name one of its subscriptions with subscription=NAME"),
    ("a message before the log", lambda admin: admin.message_at("orders", 0, -1), errors.InvalidSettingError,
     "offset is -1"),
    ("the life of nothing", lambda admin: admin.message_life("orders"), errors.InvalidSettingError,
     "give either message_id or place, a pair of partition and offset"),
    ("an edit of nothing", lambda admin: admin.send_edited_letter((0, 0)), errors.InvalidSettingError,
     "change the body or a property; to send the letter as it is, retry it"),
    ("an edit of half a place", lambda admin: admin.send_edited_letter((0,), body="x"),  # type: ignore[arg-type]
     errors.InvalidTypeError, "places is (0,): each is a pair of ints, partition and offset"),
    ("browse half", lambda admin: admin.browse("orders", include="half"),  # type: ignore[arg-type]
     errors.InvalidSettingError,
     "include is 'half': it is 'deliverable' or 'all'"),
    ("browse a subscription of no text",
     lambda admin: admin.browse("news", subscription=5),  # type: ignore[arg-type]
     errors.InvalidTypeError, "subscription is 5: it is a str, or None"),
    ("explain a subscription of no text",
     lambda admin: admin.explain("news", subscription=5),  # type: ignore[arg-type]
     errors.InvalidTypeError, "subscription is 5: it is a str, or None"),
    ("end a subscription of no text", lambda admin: admin.unsubscribe(5),  # type: ignore[arg-type]
     errors.InvalidTypeError, "name is 5: a subscription's name is a str of 1 to 200 characters"),
    ("large bodies without a store", lambda admin: admin.large_bodies(), errors.InvalidSettingError,
     "there is no store of large bodies: give large_bodies to Admin"),
    ("remove bodies of no age", lambda admin: admin.remove_large_bodies(), errors.InvalidSettingError,
     "older_than_s is None: say which bodies: older_than_s for all of that age, unnamed=True for those that"),
    ("remove bodies that may be on their way", lambda admin: admin.remove_large_bodies(unnamed=True, older_than_s=9),
     errors.InvalidSettingError, "older_than_s is 9: with unnamed it is at least 3600"),
    ("browse a subscription that is not there", lambda admin: list(admin.browse("news", subscription="x")),
     errors.InvalidDestinationError, "there is no subscription 'x'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with Admin("memory://operators-mistakes") as made:
        made.create_queue("orders")
        made.create_topic("news")
        yield made


@pytest.mark.parametrize(
    ("call", "error", "says"), [each[1:] for each in MISTAKES], ids=[each[0].replace(" ", "-") for each in MISTAKES]
)
def test_an_argument_that_cannot_be_is_refused_with_its_value_and_the_remedy(
    admin: Admin, call: Callable[[Admin], object], error: type[errors.JMSError], says: str
) -> None:
    with pytest.raises(errors.JMSError) as caught:
        call(admin)
    assert type(caught.value) is error
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


FLAGS = sorted(
    (name, flag.name)
    for name, member in inspect.getmembers(Admin, inspect.isfunction)
    for flag in inspect.signature(member).parameters.values()
    if isinstance(flag.default, bool) and not name.startswith("_")
)


@pytest.mark.parametrize(("name", "flag"), FLAGS, ids=[".".join(each) for each in FLAGS])
def test_a_flag_that_is_a_text_was_taken_for_true(admin: Admin, name: str, flag: str) -> None:
    """As with remove("orders", everything="no"), which removed all."""
    needed = {
        "move": ("orders", "DLQ"),
        "create_subscription": ("orders", "mail"),
        "retry_dead_letters": (),
        "large_bodies": (),
        "remove_large_bodies": (),
    }.get(name, ("orders",))
    options = (
        {"unit": "joe"} if name in ("move", "remove", "expire", "send_to_dead_letter", "send_now", "release") else {}
    )
    if flag == "everything":
        options = {}
    if name == "admit_partitions":
        options = {"partitions": 32}  # type: ignore[dict-item]
    with pytest.raises(errors.InvalidTypeError) as caught:
        getattr(admin, name)(*needed, **options, **{flag: "no"})
    assert str(caught.value) == f"{flag} is 'no': it is True or False"


def test_an_admin_shows_where_it_is_and_whether_it_is_open() -> None:
    admin = Admin("memory://shown-admin")
    assert repr(admin) == "<Admin memory://shown-admin open>"
    admin.close()
    assert repr(admin) == "<Admin memory://shown-admin closed>"
    with pytest.raises(errors.IllegalStateError, match="the admin is closed; make a new one"):
        admin.counts("orders")
