"""Mistakes at the command line: exit code 2, and one line: which command, the option, its value, what it should be."""

import subprocess
import sys

import pytest

from jbm_kafka.cli.main import COMMANDS
from tests.cli.conftest import Run

NOT_UTF8 = "is not UTF-8; write it in that encoding"

# fmt: off
MISTAKES: list[tuple[list[str], str]] = [
    (["send", "q"],
     "give the body: either --text TEXT, or a file, or - for standard input"),
    (["send", "q", "--text", "a", "-"],
     "both --text and a file are given, and a message has one body: leave one of them out"),
    (["send", "q", "--lines", "--text", "a"],
     "--lines needs a file, or - for standard input"),
    (["send", "q", "nofile.txt"],
     "Invalid value for '[FILE|-]': 'nofile.txt': No such file or directory"),
    (["send", "a b", "--text", "x"],
     "Invalid value for 'DEST': queue 'a b': ' ' at position 2 is not allowed; legal are A-Z a-z 0-9 . _ -"),
    (["send", "", "--text", "x"],
     "Invalid value for 'DEST': queue '': the name is empty"),
    (["move", "q", "--all", "--to", "topic:news"],
     "Invalid value for '--to': 'topic:news': this is for queues only"),
    (["create", "--", "-x"],
     "Invalid value for 'NAME': '-x': every command would take that for an option; choose a name that begins "
     "otherwise"),
    (["create", "jbm.x"],
     "Invalid value for 'NAME': queue 'jbm.x': names that start with 'jbm.' are reserved; choose another"),
    (["show", "jbm.events"],
     "Invalid value for 'DEST': 'jbm.events' is a topic of jbm-kafka's own, not a queue: jbm-kafka docs topics "
      "tells what is in it"),
    (["show", "q", "--client-id", "billing"],
     "Invalid value for '--client-id': 'billing': it tells whose --subscription it is; give that too"),
    (["send", "q", "--text", "x", "--property", "a"],
     "Invalid value for '--property': 'a': write name=text, or name:type=value"),
    (["send", "q", "--text", "x", "--property", "a:integer=5"],
     "Invalid value for '--property': 'a:integer=5': 'integer' is not a type; use boolean, byte, "
     "double, float, int, long, null, short, string"),
    (["send", "q", "--text", "x", "--property", "a:byte=200"],
     "Invalid value for '--property': 'a:byte=200': '200' does not fit 8 bits"),
    (["send", "q", "--text", "x", "--property", "k=1", "--property", "k=2"],
     "Invalid value for '--property': 'k=2': k is given twice"),
    (["send", "q", "--text", "x", "--unit", ""],
     "Invalid value for '--unit': a unit of order has a name; leave it out for none"),
    (["send", "q", "--text", "x", "--delay-ms", "1s"],
     "Invalid value for '--delay-ms': '1s' is not a whole number from 0 to 3162240000000"),
    (["send", "q", "--text", "x", "--count", "99999999999999999999"],
     "Invalid value for '--count': '99999999999999999999' is not a whole number from 1 to 1000000000"),
    (["create", "q", "--partitions", "\u0663"],
     "Invalid value for '--partitions': '\u0663' is not a whole number from 1 to 10000"),
    (["receive", "q", "--count", "-1"],
     "Invalid value for '--count': '-1' is not a whole number of at least 0"),
    (["receive", "q", "--timeout", "nan"],
     "Invalid value for '--timeout': 'nan' is not a number of seconds from 0 to 1,000,000,000"),
    (["receive", "q", "--selector", "a ="],
     "Invalid value for '--selector': selector 'a =', column 4: found the end, expected a name, a "
     "number, a 'text', TRUE or FALSE"),
    (["receive", "q", "--selector", "a = 1", "--unit", "joe"],
     "--unit and --selector are two ways to choose: give one of them"),
    (["explain", "q", "--unit", "joe", "--id", "ID:x"],
     "--unit and --id: give one of them"),
    (["release", "q"],
     "say which: --unit U, --id ID, or --all"),
    (["release", "q", "--unit", "joe", "--all"],
     "give one of --unit, --id, --all"),
    (["move", "q", "--to", "r"],
     "say which: --unit U, --id ID or --selector S, or else --all"),
    (["remove", "q", "--all", "--unit", "joe"],
     "--all means all messages, and --unit, --id or --selector only some: give one or the other"),
    (["remove", "q", "--all"],
     "nobody can be asked here whether it is meant: give --yes, or --dry-run to see what would go"),
    (["pause", "q", "--only", "writing"],
     "Invalid value for '--only': 'writing': it is sending or receiving"),
    (["pause", "q", "--by", "night\n\x1b[31m"],
     r"Invalid value for '--by': 'night\n\x1b[31m': it is 1 to 100 characters that can be printed, on one line"),
    (["dead-letters", "list", "--id", ""],
     "Invalid value for '--id': an id is not empty; leave it out for any"),
    (["dead-letters", "retry", "--reason", "expire"],
     "Invalid value for '--reason': 'expire': messages leave for 'max-delivery-attempts' or 'rejected' or "
     "'undecodable' or 'expired' or 'operator'"),
    (["settings", "set", "a", "redelivery_delay_multiplier=0.5"],
     "Invalid value for 'NAME=VALUE...': redelivery_delay_multiplier is 0.5: it is at least 1"),
    (["settings", "set", "a", "expiry_address"],
     "Invalid value for 'NAME=VALUE...': 'expiry_address': write expiry_address=VALUE, or expiry_address= for none"),
    (["settings", "set", "a", "partitions=2", "partitions=3"],
     "Invalid value for 'NAME=VALUE...': partitions is given twice"),
    (["settings", "unset", "a", "partitions=2"],
     "Invalid value for '[NAME...]': 'partitions=2': the name alone, without a value"),
    (["list", "--bootstrap", "localhost"],
     "jbm-kafka: --bootstrap is 'localhost': the port is missing; write 'host:port', as in 'localhost:9092'"),
    (["list", "--bootstrap", "memory://x"],
     "jbm-kafka: --bootstrap is 'memory://x': there is no such world in this process, and no other can be reached; "
     "name a cluster, as in 'localhost:9092'"),
    (["list", "--namespace", "a b"],
     "jbm-kafka: --namespace is 'a b': use at most 30 letters, digits, '.', '_' and '-', and no '.' in front"),
    (["bench", "--namespace", "a-rather-long-namespace"],
     "jbm-kafka: namespace 'a-rather-long-namespace' is too long here: the benchmark makes others in it; use at most "
     "15 characters, or --namespace ''"),
    (["bench", "--patience", "inf"],
     "Invalid value for '--patience': 'inf' is not a number of seconds of at least 0"),
    (["demo", "--customers", "5"],
     "Invalid value for '--customers': '5' is not a whole number from 8 to 300"),
    (["broker", "start", "--port", "80"],
     "Invalid value for '--port': '80' is not a whole number from 1024 to 65535"),
    (["broker", "start", "--data-dir", ""],
     "Invalid value for '--data-dir': name a folder, or leave it out for the usual one"),
]
OF_CLICK: list[list[str]] = [
    ["nosuch"],
    ["--nosuch"],
    ["send"],
    ["receive", "q", "extra"],
    ["move", "orders", "mails", "--unit", "zed"],
    ["dead-letters", "nosuch"],
    ["broker", "start", "--bootstrap", "other:9092"],
]
"""What click itself tells, in words that differ from version to version."""
# fmt: on


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_is_wrong_usage_and_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setenv("JBM_BOOTSTRAP", "127.0.0.1:1")  # none of them asks anybody
    told = run(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err == (said if said.startswith("jbm-kafka: ") else f"{_command(arguments)}: {said}") + "\n"


@pytest.mark.parametrize("arguments", OF_CLICK, ids=" ".join)
def test_what_click_refuses_is_wrong_usage_too(run: Run, arguments: list[str]) -> None:
    told = run(*arguments)
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert told.err.startswith(f"{_command(arguments)}: ")
    assert told.err.endswith(f"; see {_command(arguments)} --help\n")


def test_a_command_or_option_that_is_misspelt_is_told_with_the_likely_one(run: Run) -> None:
    for written, meant in (
        ("sned", "send"),
        ("--versoin", "--version"),
        ("dead-letters lst", "list"),
        ("list --namspace", "--namespace"),
    ):
        assert run(*written.split()).err.endswith(f" Did you mean '{meant}'?\n")


def _command(arguments: list[str]) -> str:
    """As far as there is one of that name."""
    groups = ("dead-letters", "broker", "settings", "subscriptions")
    known = [each for each in arguments[:1] if each in COMMANDS]
    if known and known[0] in groups and arguments[1] in ("list", "retry", "start", "set", "unset"):
        known.append(arguments[1])
    return " ".join(["jbm-kafka", *known])


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "caf\udce9"],
        ["receive", "q", "--unit", "caf\udce9"],
        ["browse", "q", "--id", "caf\udce9"],
        ["browse", "q", "--selector", "a = 'caf\udce9'"],
        ["show", "q", "--subscription", "caf\udce9"],
        ["receive", "q", "--subscription", "s", "--client-id", "caf\udce9"],
        ["subscriptions", "delete", "caf\udce9"],
        ["subscriptions", "delete", "s", "--client-id", "caf\udce9"],
        ["send", "q", "--text", "x", "--property", "a=caf\udce9"],
        ["pause", "q", "--by", "caf\udce9"],
        ["settings", "set", "caf\udce9", "partitions=2"],
        ["settings", "set", "a", "dead_letter_address=caf\udce9"],
        ["list", "--namespace", "caf\udce9"],
        ["list", "--kafka-property", "client.id=caf\udce9"],
        ["caf\udce9"],
    ],
    ids=lambda arguments: ascii(" ".join(arguments)),
)
def test_a_name_in_another_encoding_was_told_as_a_bug(run: Run, cli: Run, arguments: list[str]) -> None:
    """As from a shell `$'caf\\xe9'`, whose byte is a lone surrogate in Python."""
    told = (run if len(arguments) == 1 else cli)(*arguments)
    assert (told.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert "caf" in told.err or "client.id" in told.err


def test_a_password_in_another_encoding_is_told_without_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JBM_KAFKA_SASL_PASSWORD", "caf\udce9")
    told = run("list", "--bootstrap", "127.0.0.1:1")
    assert (told.code, told.err) == (2, f"jbm-kafka: JBM_KAFKA_SASL_PASSWORD (sasl.password) {NOT_UTF8}\n")


@pytest.mark.parametrize("command", ["remove q --yes", "browse q", "dead-letters retry"])
def test_an_empty_selector_does_not_mean_all(run: Run, command: str) -> None:
    """`remove dlq --selector "$UNSET" --yes` emptied a queue."""
    for selector in ("", "  "):
        said = run(*command.split(), "--selector", selector, "--bootstrap", "127.0.0.1:1")
        assert (said.code, said.out) == (2, "")
        assert "'--selector': a selector is not empty; leave it out" in said.err


def test_a_list_of_commands_has_whole_sentences(run: Run) -> None:
    for group in ((), ("dead-letters",), ("broker",)):
        _, *lines = run(*group, "--help").out.splitlines()
        assert not [line for line in lines if line.endswith("...")]


def test_the_help_leaves_out_what_only_we_need(run: Run) -> None:
    assert "bench-instructions" not in run("--help").out
    assert run("bench-instructions", "-h") == run("bench-instructions", "--help")


def test_python_runs_the_package_as_the_command() -> None:
    """It said that 'jbm_kafka' is a package and cannot be directly executed."""
    done = subprocess.run([sys.executable, "-m", "jbm_kafka", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("jbm-kafka ")
