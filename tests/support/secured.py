"""A broker of ours as companies run theirs: TLS, users with passwords or certificates, access rules for everything."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.ports.access_rules import AccessRule
from tests.support.broker import local_broker
from tests.support.waiting import wait_until

_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = 'pass "w\\rd" ; ä'
"""Of every user of SCRAM: hard to quote."""
ALICE = "alice"
"""A user of SCRAM who may do everything."""
HEARD_S = 120.0
"""What a controller has answered its broker hears a moment later; on a busy machine that was half a minute."""
PLAIN_USER, PLAIN_PASSWORD = "paula", "paula-secret"


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files of one authority."""

    authority: Path
    server: Path
    """Key and certificate in one file, for the names localhost and 127.0.0.1."""
    certificate: Path
    key: Path
    """A client's, whose name is the user `carol`."""


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """Where it listens, and what a client needs."""

    open: str
    """A listener without any security whose users may everything: for the tests' own preparations."""
    sasl: str
    """SASL_SSL: SCRAM-SHA-512, or PLAIN for PLAIN_USER."""
    tls: str
    """SSL: the client's certificate says who it is."""
    certificates: Certificates
    log: Path

    def as_user(self, name: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """librdkafka's properties of a user of the SASL listener."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "ssl.ca.location": str(self.certificates.authority),
        }

    def as_carol(self) -> dict[str, str]:
        """librdkafka's properties of the user of the TLS listener."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(self.certificates.certificate),
            "ssl.key.location": str(self.certificates.key),
        }

    def add_user(self, name: str) -> None:
        """A user of SCRAM-SHA-512 with PASSWORD, who may do nothing yet."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, info, PASSWORD.encode())
        admin = self._admin()
        admin.alter_user_scram_credentials([change])[name].result(20)
        # The broker hears of it a moment after the controller; until then the client is refused, and tries on.
        AdminClient({**self.as_user(name), "bootstrap.servers": self.sasl, "log_level": 0}).list_topics(timeout=HEARD_S)

    def allow(self, user: str, rules: Sequence["Rule"]) -> None:
        """The user may do that from now on."""
        admin, bindings = self._admin(), [each for rule in rules for each in rule.bindings(user)]
        for future in admin.create_acls(bindings).values():
            future.result(20)
        wait_until(
            lambda: all(admin.describe_acls(_filter_of(each)).result(20) for each in bindings),
            about=f"{rules}",
            timeout_s=HEARD_S,
        )

    @contextmanager
    def denied(self, user: str, rule: "Rule") -> Iterator[None]:
        """While the block runs the user may not do that, whatever else allows it."""
        admin = self._admin()
        bindings = rule.bindings(user, AclPermissionType.DENY)
        for made in admin.create_acls(bindings).values():
            made.result(20)
        try:
            yield
        finally:
            for gone in admin.delete_acls([_filter_of(each) for each in bindings]).values():
                assert gone.result(20), f"{rule} was not there"

    def forbid(self, user: str, rule: "Rule") -> None:
        """The user may not do that any more."""
        admin = self._admin()
        filters = [_filter_of(each) for each in rule.bindings(user)]
        for future in admin.delete_acls(filters).values():
            future.result(20)
        wait_until(
            lambda: not any(admin.describe_acls(each).result(20) for each in filters),
            about=f"{rule}",
            timeout_s=HEARD_S,
        )

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.open, "log_level": 0})


@dataclass(frozen=True, slots=True)
class Rule:
    """What one user may do with a resource, or with all whose names begin so."""

    kind: str
    """`topic`, `group`, `transactional_id`, `cluster`."""
    name: str
    operations: tuple[str, ...]
    is_prefix: bool = False

    def bindings(self, user: str, permission: AclPermissionType = AclPermissionType.ALLOW) -> list[AclBinding]:
        """In Kafka's form."""
        kind = {
            "topic": ResourceType.TOPIC,
            "group": ResourceType.GROUP,
            "transactional_id": ResourceType.TRANSACTIONAL_ID,
            "cluster": ResourceType.BROKER,
        }[self.kind]
        pattern = ResourcePatternType.PREFIXED if self.is_prefix else ResourcePatternType.LITERAL
        return [
            AclBinding(kind, self.name, pattern, f"User:{user}", "*", AclOperation[each], permission)
            for each in self.operations
        ]


def _filter_of(each: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        each.restype,
        each.name,
        each.resource_pattern_type,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )


def as_rule(rule: AccessRule) -> Rule:
    """One of ours."""
    operations = tuple(each.name for each in rule.operations)
    return Rule(rule.kind.value.replace("-", "_"), rule.name, operations, rule.is_prefix)


EVERYTHING = tuple(
    Rule(kind, "kafka-cluster" if kind == "cluster" else "*", ("ALL",))
    for kind in ("topic", "group", "transactional_id", "cluster")
)


def make_certificates(folder: Path) -> Certificates:
    """An authority, a server's and a client's certificate, by openssl."""

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    def issue(name: str, *extensions: str) -> None:
        added = [word for extension in extensions for word in ("-addext", extension)]
        run("req", "-x509", "-newkey", "rsa:2048", "-noenc", "-keyout", f"{name}.key", "-out", f"{name}.crt",
            "-days", "30", "-subj", f"/CN={name}", *added,
            *([] if name == "authority" else ["-CA", "authority.crt", "-CAkey", "authority.key"]))  # fmt: skip

    folder.mkdir(parents=True, exist_ok=True)
    issue("authority")
    issue("localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1", "basicConstraints=critical,CA:FALSE")
    issue("carol", "basicConstraints=critical,CA:FALSE")
    server = folder / "server.pem"
    server.write_text((folder / "localhost.key").read_text() + (folder / "localhost.crt").read_text())
    return Certificates(folder / "authority.crt", server, folder / "carol.crt", folder / "carol.key")


def secured_properties(certificates: Certificates, *, sasl: str, tls: str) -> dict[str, str]:
    """The settings of a broker that listens for users with passwords and for users with certificates.

    `sasl` and `tls` are `host:port`. Its plain listener, which brokers use among themselves, lets everybody do all.
    """
    return {
        "listeners": f"SASL://{sasl},TLS://{tls}",
        "advertised.listeners": f"SASL://{sasl},TLS://{tls}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,TLS:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config":
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "listener.name.sasl.plain.sasl.jaas.config":
            f'{_PLAIN_LOGIN} required user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.tls.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }  # fmt: skip


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """It runs while the block does."""
    certificates = make_certificates(folder / "certificates")
    sasl, tls = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with local_broker(folder / "broker", secured_properties(certificates, sasl=sasl, tls=tls)) as broker:
        yield with_users(SecuredBroker(broker.bootstrap, sasl, tls, certificates, broker.log_file))


def with_users(secured: SecuredBroker) -> SecuredBroker:
    """The same, with its first users, who may do everything."""
    secured.add_user(ALICE)
    for user in (ALICE, PLAIN_USER, "carol"):
        secured.allow(user, EVERYTHING)
    return secured
