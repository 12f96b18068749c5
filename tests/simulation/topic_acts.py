"""What applications do with subscriptions: subscribe, also with another choice, close, and unsubscribe."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, JMSError
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.simulation.acts import SESSIONS_MAX, Acts
from tests.simulation.lives import SLOTS, Call, Choice, Kind, Life, Refusal, Slot
from tests.simulation.names import NEWS, SELECTORS, changelog_of_topic
from tests.simulation.node import Node
from tests.simulation.provider import SimulatedConnection, SimulatedProvider
from tests.simulation.receiver import Mode, Opening, Receiver, opening_of_queue
from tests.simulation.subscriptions import Subscriptions
from tests.simulation.world import World

TOPIC = Topic(NEWS)
ROUNDS_TO_LEAVE = 60
"""Until nobody is a member for nothing."""


class TopicActs(Acts):
    """The acts of a simulation with a topic."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.subscriptions = Subscriptions(world)
        world.crashes = self.subscriptions.note_doubt
        self._choices = {slot: self._some_choice(slot) for slot in SLOTS}

    def _some_choice(self, slot: Slot) -> Choice:
        chance = self._chance
        selector = chance.choice(list(SELECTORS)) if chance.random() < 0.5 else None
        return Choice(selector, slot.may_leave_out and chance.random() < 0.5)

    def _callers(self) -> list[Node]:
        return [node for node in self._nodes() if node.can_call]

    # -- subscribing -----------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        nodes = self._callers()
        if not nodes:
            return
        node, slot = self._chance.choice(nodes), self._chance.choice(SLOTS)
        if len(self._world.receivers_at(node)) >= 2 * SESSIONS_MAX:
            return
        if self._chance.random() < 0.15:
            self._choices[slot] = self._some_choice(slot)
        self.subscribe(node, slot)

    def subscribe(self, node: Node, slot: Slot, mode: Mode | None = None) -> None:
        """A session with a consumer of a subscription, or two of a shared one, or beside one of a queue."""
        model, chance, choice = self.subscriptions, self._chance, self._choices[slot]
        before = model.current(slot)
        if slot.kind is Kind.DURABLE and any(user.node is not node for user in model.users(before)):
            return  # the client id is there
        is_same = before is not None and before.choice == choice
        refusal = Refusal.MUST_NOT if is_same and slot.kind is not Kind.DURABLE else model.refusal(before, node)
        self._sessions += 1
        mode = mode or chance.choice(list(Mode))
        openings = [self._opening(node, slot, choice)]
        if chance.random() < 0.2:
            is_shared = slot.kind in (Kind.SHARED, Kind.SHARED_DURABLE)
            openings.append(openings[0] if is_shared else opening_of_queue(chance.choice(list(self._world.queues))))
        call = Call(slot, choice, f"s{self._sessions}", model.ends())
        with node.calling(), model.calling(call):
            receiver, told = None, ""
            try:
                receiver = self.open_receiver(node, mode, openings, slot.client_id or None)
            except IllegalStateError as error:
                told = str(error)
        if receiver is None:
            is_right = refusal is not Refusal.MUST_NOT or call.is_raced
            assert is_right, f"refused_when_used: {slot.name} {choice}: {told}"
            self._world.note(f"{slot.name} with {choice} is refused at {node.name}")
            return
        is_right = refusal is not Refusal.MUST or call.is_raced
        assert is_right, f"refused_when_used: {slot.name} has two consumers, or changes in use"
        life = call.made or model.current(slot)
        assert life is not None, f"joined: {slot.name}, there is none"
        assert not life.is_over, f"joined: {life.label}, which is over"
        assert life.choice == choice, f"joined: {life.label} with {life.choice}, not {choice}"
        receiver.lives.append(life)

    def _opening(self, node: Node, slot: Slot, choice: Choice) -> Opening:
        def make(session: Session) -> MessageConsumer:
            made: MessageConsumer
            match slot.kind:
                case Kind.DURABLE:
                    made = session.create_durable_consumer(TOPIC, slot.name, choice.selector, choice.no_local)
                case Kind.SHARED_DURABLE:
                    made = session.create_shared_durable_consumer(TOPIC, slot.name, choice.selector)
                case Kind.SHARED:
                    made = session.create_shared_consumer(TOPIC, slot.name, choice.selector)
                case Kind.PRIVATE:
                    raise AssertionError("nothing is recorded of it")
            source = made._inbox.source
            assert isinstance(source, Subscription)
            if source not in node.sources:
                node.sources.append(source)
            return made

        return Opening(slot.name, choice.selector, make, may_wait=True)

    # -- ending ----------------------------------------------------------------------------------------------------

    def _session(self) -> None:
        nodes = self._callers()
        if not nodes:
            return
        node = self._chance.choice(nodes)
        closable = [receiver for receiver in self._world.receivers_at(node) if receiver.can_act]
        if closable and (len(closable) >= SESSIONS_MAX or self._chance.random() < 0.5):
            self.close(self._chance.choice(closable))
        elif self._world.queues:
            self.open_session(node)

    def close(self, receiver: Receiver) -> None:
        """Its session ends, and with it what is not durable."""
        self._world.note(f"{receiver.name} closes")
        with receiver.node.calling(), self.subscriptions.closing(receiver.lives):
            receiver.close()
        self._world.receivers.remove(receiver)
        self._world.recorder.look()
        self.subscriptions.ended_with_its_last(receiver.lives)

    def _tidy(self) -> None:
        for receiver in list(self._world.receivers):
            if receiver.wants_close and receiver.commit_under_way is None and receiver.node.can_call:
                self.close(receiver)

    def _unsubscribe(self) -> None:
        nodes = self._callers()
        slots = [slot for slot in SLOTS if slot.is_durable]
        if nodes:
            self.unsubscribe(self._chance.choice(nodes), self._chance.choice(slots))

    def unsubscribe(self, node: Node, slot: Slot) -> None:
        """End a durable subscription, if that may be."""
        model = self.subscriptions
        life = model.current(slot)
        if slot.kind is Kind.DURABLE and any(user.node is not node for user in model.users(life)):
            return  # the client id is there
        refusal = Refusal.MAY if model.is_contended(slot) else model.refusal(life, node)
        model.race(slot)
        if life is not None:
            life.may_end = refusal is not Refusal.MUST
        provider = SimulatedProvider(node, records_attempts=False)
        connection = SimulatedConnection("u", provider, prefetch=1, blocks=False, heard=lambda error: None)
        connection.client_id = slot.client_id or None
        refused: JMSError | None = None
        with node.calling():
            try:
                Session(connection, Mode.AUTO).unsubscribe(slot.name)
            except (InvalidDestinationError, IllegalStateError) as error:
                refused = error
        if isinstance(refused, InvalidDestinationError):
            assert life is None, f"kept_until_unsubscribed: {slot.name} is not there"
            return
        if refused is not None:
            assert refusal is not Refusal.MUST_NOT, f"refused_when_used: {slot.name}: {refused}"
            if life is not None:
                life.may_end = False
            return
        self._world.note(f"{slot.name} is unsubscribed at {node.name}")
        self._world.recorder.look()
        assert refusal is not Refusal.MUST, f"refused_when_used: {slot.name} is ended in use"
        assert life is not None, f"unsubscribed_is_over: {slot.name} was not there"
        assert life.is_over, f"unsubscribed_is_over: {life.label}"

    # -- the rest --------------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        return super().groups() + [life.group for life in self.subscriptions.lives if not life.is_over]

    def _compact(self) -> None:
        super()._compact()
        for partition in range(self._world.topics[NEWS]):
            self._world.cluster.log(changelog_of_topic(NEWS), partition).compact(keeps_deletions=True)

    def before_end(self, rest: Callable[[], None]) -> None:
        """Who died is forgotten, and holds nothing that others may not have."""
        for _ in range(ROUNDS_TO_LEAVE):
            rest()

    def open_kind_receivers(self) -> None:
        super().open_kind_receivers()
        self._tidy()
        for life in [life for life in self.subscriptions.lives if not life.is_over]:
            if not self.subscriptions.users(life) and not life.is_over:
                self._join(life)

    def _join(self, life: Life) -> None:
        """So that what it has comes to its end."""
        self._choices[life.slot] = life.choice
        self.subscribe(self._chance.choice(self._callers()), life.slot, Mode.CLIENT)

    def check(self) -> None:
        self.subscriptions.check()

    def end(self, rest: Callable[[], None]) -> None:
        """All is closed and unsubscribed: nothing is left."""
        for receiver in list(self._world.receivers):
            self.close(receiver)
        for _ in range(ROUNDS_TO_LEAVE):
            rest()
        for slot in [life.slot for life in self.subscriptions.lives if life.slot.is_durable and not life.is_over]:
            self.unsubscribe(self._callers()[0], slot)
        left = [life.label for life in self.subscriptions.lives if not (life.is_over or life.is_doubtful)]
        assert not left, f"unsubscribed_is_over: {left}"
        self.check()

    def calm(self) -> None:
        self._tidy()
