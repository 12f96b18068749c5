"""Consumer groups of the in-memory Kafka: members, generations, cooperative rebalance, fencing.

As measured on brokers: every change of membership makes a new generation, and again when a member has given up what it
had to; members learn the new one in the background, so metadata read now always carries it and metadata frozen before
is refused. The group checks member and generation of an offset commit, never the partition's owner.
"""

from dataclasses import dataclass, field

from jbm_kafka.ports import CommittedOffset


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The values that fence a loser."""

    group: str
    member: str
    generation: int


@dataclass(slots=True)
class Member:
    """One member as the group sees it."""

    member_id: str
    topic: str
    session_timeout_ms: int
    assigned: set[int] = field(default_factory=set)
    """The group's word: nobody else gets them."""
    owned: set[int] = field(default_factory=set)
    """Assigned, and the listener was called."""
    revoking: set[int] = field(default_factory=set)
    """Owned, but to be given up."""
    silent_since_ms: int | None = None
    """Monotonic time of its last heartbeat; None while it sends them."""


class Group:
    """One consumer group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.generation = 0
        self.members: dict[str, Member] = {}
        """In the order they joined."""
        self.committed: dict[tuple[str, int], CommittedOffset] = {}
        self._joins = 0

    def join(self, topic: str, partitions: int, session_timeout_ms: int) -> Member:
        self._joins += 1
        member = Member(f"{self.name}/member-{self._joins}", topic, session_timeout_ms)
        self.members[member.member_id] = member
        self.rebalance(topic, partitions)
        return member

    def leave(self, member_id: str, partitions: int) -> None:
        """Also for a member that was thrown out."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.rebalance(member.topic, partitions)

    def revoked(self, member: Member, given_up: set[int], partitions: int) -> None:
        """The member's listener has given these up; others can have them."""
        member.assigned -= given_up
        member.owned -= given_up
        member.revoking -= given_up
        if member.member_id in self.members:
            self.rebalance(member.topic, partitions)

    def metadata(self, member_id: str) -> GroupMetadata | None:
        return GroupMetadata(self.name, member_id, self.generation) if member_id in self.members else None

    def refusal(self, metadata: GroupMetadata) -> str | None:
        """Why an offset commit with this metadata is refused; None when it is taken."""
        if metadata.member not in self.members:
            return "Unknown member"
        if metadata.generation != self.generation:
            return "Specified group generation id is not valid"
        return None

    def rebalance(self, topic: str, partitions: int) -> None:
        """A new generation: members keep what they may, give up the rest, and get what is free."""
        self.generation += 1
        members = [member for member in self.members.values() if member.topic == topic]
        if not members:
            return
        targets = _targets(members, partitions)
        for member in members:
            surplus = member.assigned - targets[member.member_id]
            # What the listener never heard of is given up in silence.
            member.assigned -= surplus - member.owned
            member.revoking = surplus & member.owned
        taken = set().union(*(member.assigned for member in members))
        for member in members:
            member.assigned |= targets[member.member_id] - taken


def _targets(members: list[Member], partitions: int) -> dict[str, set[int]]:
    """An even share for each, moving as little as possible; those with more already get the odd ones."""
    least, odd = divmod(partitions, len(members))
    ranked = sorted(members, key=lambda member: -len(member.assigned))
    quota = {member.member_id: least + (index < odd) for index, member in enumerate(ranked)}
    targets = {m.member_id: set(sorted(m.assigned & set(range(partitions)))[: quota[m.member_id]]) for m in members}
    free = iter(sorted(set(range(partitions)) - set().union(*targets.values())))
    for member in members:
        target = targets[member.member_id]
        while len(target) < quota[member.member_id]:
            target.add(next(free))
    return targets
