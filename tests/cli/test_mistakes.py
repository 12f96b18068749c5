"""Mistakes at the command line: exit code 2, and one line: which command, the option, its value, what it should be."""

import re
import subprocess
import sys

import pytest

from jbm_kafka.cli.main import COMMANDS, OTHER_WORDS
from jbm_kafka.core.setting_rules import TYPES
from tests.cli.conftest import Run

MILLISECONDS = "milliseconds, as in 5000"

# fmt: off
MISTAKES: list[tuple[list[str], str]] = [
    (["--json", "list"],
     "there is no option '--json' here; options stand behind their command: jbm-kafka COMMAND --json"),
    (["nosuch"],
     "there is no command 'nosuch'; see jbm-kafka --help"),
    (["purge", "q"],
     "there is no command 'purge'; that is: jbm-kafka remove NAME --all"),
    (["retry"],
     "there is no command 'retry'; that is: jbm-kafka dead-letters retry"),
    (["help"],
     "there is no command 'help'; that is: jbm-kafka --help"),
    (["sned", "q"],
     "there is no command 'sned'; 'send' is meant, probably"),
    (["send", "q"],
     "give the body: either --text TEXT, or a file, or - for standard input"),
    (["send", "q", "--text", "a", "-"],
     "both --text and a file are given, and a message has one body: leave one of them out"),
    (["send", "q", "--kind", "map", "--text", "{"],
     "--kind map: the body is not JSON: Expecting property name enclosed in double quotes: column 2 (char 1); write it "
     """as in {"item": "chair", "qty": 3}, not '{'"""),
    (["send", "q", "--kind", "map", "--text", "nojson"],
     "--kind map: the body is not JSON: Expecting value: column 1 (char 0); write it as in "
     """{"item": "chair", "qty": 3}, not 'nojson'"""),
    (["send", "q", "--kind", "map", "--text", "[1]"],
     """--kind map wants a JSON object, as in {"item": "chair", "qty": 3}, not '[1]'"""),
    (["send", "q", "--kind", "stream", "--text", "{}"],
     """--kind stream wants a JSON array, as in ["chair", 3], not '{}'"""),
    (["list", "orders"],
     "'orders' is no argument here; that is: jbm-kafka show orders"),
    (["dead-letters", "retry", "nope"],
     "'nope' is no argument here; that is: jbm-kafka dead-letters retry --from nope"),
    (["dead-letters", "list", "nope"],
     "'nope' is no argument here; that is: jbm-kafka dead-letters list --from nope"),
    (["send", "q", "nofile.txt"],
     "Invalid value for '[FILE|-]': 'nofile.txt': No such file or directory; for a text: --text nofile.txt"),
    (["send", "q", "--lines", "--text", "a"],
     "--lines needs a file, or - for standard input"),
    (["send", "a b", "--text", "x"],
     "Invalid value for 'DEST': queue 'a b': ' ' at position 2 is not allowed; legal are A-Z a-z 0-9 . _ -"),
    (["move", "q", "--all", "--to", "topic:news"],
     "Invalid value for '--to': 'topic:news': this is for queues only"),
    (["create", "topic:a b"],
     "Invalid value for 'NAME': topic 'a b': ' ' at position 2 is not allowed; legal are A-Z a-z 0-9 . _ -"),
    (["settings", "show"],
     "there is no command 'show'; that is: jbm-kafka settings list"),
    (["create", "--", "-x"],
     "Invalid value for 'NAME': '-x': every command would take that for an option; choose a name that begins "
     "otherwise"),
    (["show", "jbm.events"],
     "Invalid value for 'DEST': 'jbm.events' is a topic of jbm-kafka's own, not a queue: docs/topics.md tells what is "
     "in it"),
    (["show", "q", "--client-id", "billing"],
     "Invalid value for '--client-id': 'billing': it tells whose --subscription is meant; give that too"),
    (["receive", "q", "--client-id", "billing"],
     "Invalid value for '--client-id': 'billing': it tells whose --subscription is meant; give that too"),
    (["send", "", "--text", "x"],
     "Invalid value for 'DEST': queue '': the name is empty"),
    (["send", "q", "--text", "x", "--property", "a"],
     "Invalid value for '--property': 'a': write name=text, or name:type=value"),
    (["send", "q", "--text", "x", "--property", "a:int=x"],
     "Invalid value for '--property': 'a:int=x': 'x' is not a decimal integer"),
    (["send", "q", "--text", "x", "--property", "a:integer=5"],
     "Invalid value for '--property': 'a:integer=5': 'integer' is not a type; use boolean, byte, "
     "double, float, int, long, null, short, string"),
    (["send", "q", "--text", "x", "--property", "a b=1"],
     "Invalid value for '--property': 'a b=1': property name 'a b': use letters, digits, '_' and '$', "
     "no digit first, no word of the selector language, and no 'JMS' in front"),
    (["send", "q", "--text", "x", "--property", "=1"],
     "Invalid value for '--property': '=1': property name '': it is a str that is not empty"),
    (["send", "q", "--text", "x", "--property", "a:byte=200"],
     "Invalid value for '--property': 'a:byte=200': '200' does not fit 8 bits"),
    (["send", "q", "--text", "x", "--property", "a:boolean=yes"],
     "Invalid value for '--property': 'a:boolean=yes': 'yes' is not true or false"),
    (["send", "q", "--text", "x", "--unit", ""],
     "Invalid value for '--unit': a unit of order has a name; leave it out for none"),
    (["send", "q", "--text", "x", "--priority", "10"],
     "Invalid value for '--priority': '10' is not a whole number from 0 to 9"),
    (["send", "q", "--text", "x", "--priority", "high"],
     "Invalid value for '--priority': 'high' is not a whole number from 0 to 9"),
    (["send", "q", "--text", "x", "--delay-ms", "-1"],
     "Invalid value for '--delay-ms': '-1' is not a whole number from 0 to 3162240000000: " + MILLISECONDS),
    (["send", "q", "--text", "x", "--delay-ms", "1.5"],
     "Invalid value for '--delay-ms': '1.5' is not a whole number from 0 to 3162240000000: " + MILLISECONDS),
    (["send", "q", "--text", "x", "--delay-ms", "1s"],
     "Invalid value for '--delay-ms': '1s' is not a whole number from 0 to 3162240000000: " + MILLISECONDS),
    (["send", "q", "--text", "x", "--time-to-live-ms", "-5"],
     "Invalid value for '--time-to-live-ms': '-5' is not a whole number from 0 to 3162240000000: "
     + MILLISECONDS),
    (["send", "q", "--text", "x", "--count", "0"],
     "Invalid value for '--count': '0' is not a whole number from 1 to 1000000000"),
    (["send", "q", "--text", "x", "--count", "x"],
     "Invalid value for '--count': 'x' is not a whole number from 1 to 1000000000"),
    (["send", "q", "--text", "x", "--bootstrap", "localhost"],
     "jbm-kafka: --bootstrap is 'localhost': the port is missing; write 'host:port', as in 'localhost:9092'"),
    (["send", "q", "--text", "x", "--bootstrap", "http://x:1"],
     "jbm-kafka: --bootstrap is 'http://x:1': its scheme is not known; use 'kafka://host:port', or 'host:port'"),
    (["send", "q", "--text", "x", "--bootstrap", "localhost:99999"],
     "jbm-kafka: --bootstrap is 'localhost:99999': 99999 is not a port, those are 1 to 65535; write 'host:port'"),
    (["send", "q", "--text", "x", "--bootstrap", ""],
     "jbm-kafka: --bootstrap is '': write 'host:port', several separated by commas"),
    (["send", "q", "--text", "x", "--namespace", "a b"],
     "jbm-kafka: --namespace is 'a b': use at most 30 letters, digits, '.', '_' and '-', and no '.' in front"),
    (["send", "q", "--text", "x", "--kafka-property", "a"],
     "jbm-kafka: --kafka-property: write KEY=VALUE, for example security.protocol=SASL_SSL"),
    (["send", "q", "--text", "x", "--kafka-property", "group.id=x"],
     "jbm-kafka: --kafka-property group.id cannot be set: it decides who owns a partition and how a loser is "
     "fenced; leave it out"),
    (["send", "q", "--text", "x", "--kafka-property", "sesion.timeout=1"],
     'jbm-kafka: --kafka-property sesion.timeout: No such configuration property: "sesion.timeout"; '
     "'session.timeout.ms' is meant, probably, and cannot be set: it is the `session_timeout_ms` argument "
     "(librdkafka's CONFIGURATION.md lists every property and its values)"),
    (["send", "q", "--text", "x", "--config", "nofile.toml"],
     "jbm-kafka: nofile.toml: No such file or directory; name a config file that can be read"),
    (["send", "q", "r", "--text", "x"],
     "Invalid value for '[FILE|-]': 'r': No such file or directory; for a text: --text r"),
    (["send", "q", "hello joe"],
     "Invalid value for '[FILE|-]': 'hello joe': No such file or directory; for a text: --text 'hello joe'"),
    (["send", "q", "--text", "x", "--ttl", "5"],
     "there is no option '--ttl'; '--time-to-live-ms' is meant, probably"),
    (["send", "q", "--key", "joe"],
     "there is no option '--key'; '--unit' is meant, probably"),
    (["send", "q", "--file", "letter.txt"],
     "there is no option '--file'; the file stands behind the name: jbm-kafka send DEST FILE"),
    (["move", "orders", "mails", "--unit", "zed"],
     "'mails' is no argument here; where they go is: --to mails"),
    (["explain", "q", "--unit", "joe", "--id", "ID:x"],
     "--unit and --id: give one of them"),
    (["release", "q", "--unit", "joe", "--all"],
     "give one of --unit, --id, --all"),
    (["pause", "q", "--only", "writing"],
     "Invalid value for '--only': 'writing': it is sending or receiving"),
    (["list", "--bootstrap", "memory://x"],
     "jbm-kafka: --bootstrap is 'memory://x': a memory:// world is inside one process; no command reaches it"),
    (["dead-letters", "lst"],
     "there is no command 'lst'; 'list' is meant, probably"),
    (["broker", "stat"],
     "there is no command 'stat'; 'status' is meant, probably"),
    (["settings", "nosuch"],
     "there is no command 'nosuch'; see jbm-kafka settings --help"),
    (["move", "q", "--to", "r"],
     "say which: --unit U, --id ID or --selector S, or else --all"),
    (["remove", "q", "--all", "--unit", "joe"],
     "--all means all messages, and --unit, --id or --selector only some: give one or the other"),
    (["settings", "set", "orders", "retries=3"],
     "Invalid value for 'NAME=VALUE...': 'retries' is not an address setting; 'max_delivery_attempts' is meant, "
     f"probably; known are {', '.join(TYPES)}"),
    (["explain", "q", "--unit", ""],
     "Invalid value for '--unit': a unit of order has a name; leave it out for none"),
    (["receive", "q", "--count", "-1"],
     "Invalid value for '--count': '-1' is not a whole number of at least 0"),
    (["receive", "q", "--count", "many"],
     "Invalid value for '--count': 'many' is not a whole number of at least 0"),
    (["receive", "q", "--timeout", "-1"],
     "Invalid value for '--timeout': '-1' is not a number of seconds from 0 to 1,000,000,000"),
    (["receive", "q", "--timeout", "nan"],
     "Invalid value for '--timeout': 'nan' is not a number of seconds from 0 to 1,000,000,000"),
    (["receive", "q", "--timeout", "5s"],
     "Invalid value for '--timeout': '5s' is not a number of seconds from 0 to 1,000,000,000"),
    (["receive", "q", "--selector", "a ="],
     "Invalid value for '--selector': selector 'a =', column 4: found the end, expected a name, a "
     "number, a 'text', TRUE or FALSE"),
    (["browse", "q", "--selector", "a ="],
     "Invalid value for '--selector': selector 'a =', column 4: found the end, expected a name, a "
     "number, a 'text', TRUE or FALSE"),
    (["create", "a/b"],
     "Invalid value for 'NAME': queue 'a/b': '/' at position 2 is not allowed; legal are A-Z a-z 0-9 . _ -"),
    (["create", "q", "--partitions", "0"],
     "Invalid value for '--partitions': '0' is not a whole number from 1 to 10000"),
    (["create", "q", "--partitions", "x"],
     "Invalid value for '--partitions': 'x' is not a whole number from 1 to 10000"),
    (["create", "q", "--partitions", "100000"],
     "Invalid value for '--partitions': '100000' is not a whole number from 1 to 10000"),
    (["create", "jbm.x"],
     "Invalid value for 'NAME': queue 'jbm.x': names that start with 'jbm.' are reserved; choose another"),
    (["dead-letters", "list", "--from", "a b"],
     "Invalid value for '--from': queue 'a b': ' ' at position 2 is not allowed; legal are A-Z a-z 0-9 . _ -"),
    (["dead-letters", "retry", "--timeout", "x"],
     "Invalid value for '--timeout': 'x' is not a number of seconds from 0 to 1,000,000"),
    (["broker", "start", "--bootstrap", "other:9092"],
     "--bootstrap names a cluster that is there already; jbm-kafka broker runs one of its own, at 127.0.0.1 "
     "without users: --port and --data-dir say where"),
    (["broker", "status", "--kafka-property", "a=b"],
     "--kafka-property names a cluster that is there already; jbm-kafka broker runs one of its own, at "
     "127.0.0.1 without users: --port and --data-dir say where"),
    (["bench", "--bootstrap", "localhost"],
     "jbm-kafka: --bootstrap is 'localhost': the port is missing; write 'host:port', as in 'localhost:9092'"),
    (["bench", "--namespace", "a-rather-long-namespace"],
     "jbm-kafka: namespace 'a-rather-long-namespace' is too long here: the benchmark makes others in it; use at most "
     "15 characters, or --namespace ''"),
    (["demo", "--kafka-property", "nosuch=1"],
     'jbm-kafka: --kafka-property nosuch: No such configuration property: "nosuch" '
     "(librdkafka's CONFIGURATION.md lists every property and its values)"),
    (["demo", "--customers", "5"],
     "Invalid value for '--customers': '5' is not a whole number from 8 to 300"),
    (["bench", "--repeats", "0"],
     "Invalid value for '--repeats': '0' is not a whole number of at least 1"),
    (["bench", "--rate", "fast"],
     "Invalid value for '--rate': 'fast' is not a whole number of at least 1"),
    (["bench", "--patience", "nan"],
     "Invalid value for '--patience': 'nan' is not a number of seconds of at least 0"),
    (["bench", "--patience", "inf"],
     "Invalid value for '--patience': 'inf' is not a number of seconds of at least 0"),
    (["dead-letters", "list", "--id", ""],
     "Invalid value for '--id': an id is not empty; leave it out for any"),
    (["pause", "q", "--by", "night\n\x1b[31m"],
     r"Invalid value for '--by': 'night\n\x1b[31m': it is 1 to 100 characters that can be printed, on one line"),
    (["pause", "q", "--by", ""],
     "Invalid value for '--by': '': it is 1 to 100 characters that can be printed, on one line"),
    (["send", "q", "--text", "x", "--property", "k=1", "--property", "k=2"],
     "Invalid value for '--property': 'k=2': k is given twice"),
    (["send", "q", "--text", "x", "--count", "99999999999999999999"],
     "Invalid value for '--count': '99999999999999999999' is not a whole number from 1 to 1000000000"),
    (["create", "q", "--partitions", "\u0663"],
     "Invalid value for '--partitions': '\u0663' is not a whole number from 1 to 10000"),
    (["broker", "start", "--port", "80"],
     "Invalid value for '--port': '80' is not a whole number from 1024 to 65535"),
    (["broker", "start", "--port", "x"],
     "Invalid value for '--port': 'x' is not a whole number from 1024 to 65535"),
]
OF_CLICK: list[list[str]] = [
    ["--nosuch"],
    ["--versoin"],
    ["send"],
    ["send", "q", "--text"],
    ["send", "q", "--txt", "x"],
    ["send", "q", "--text", "x", "--prority", "5"],
    ["receive", "q", "extra"],
    ["browse", "q", "--al"],
    ["create"],
    ["admit-partitions", "q", "--forse"],
    ["move", "orders", "--unit", "zed"],
    ["move", "--unit", "zed"],
    ["move", "orders", "a", "b", "--unit", "zed"],
    ["list", "--ttl", "5"],
    ["bench", "--messages", "x"],
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
    assert re.search(r"\b(\w{2,}) \1\b", said) is None, "it says so twice"


@pytest.mark.parametrize("arguments", OF_CLICK, ids=" ".join)
def test_what_click_refuses_is_wrong_usage_too(run: Run, arguments: list[str]) -> None:
    told = run(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"{_command(arguments)}: ")
    assert told.err.endswith(
        (f"; see {_command(arguments)} --help\n", " is meant, probably\n", f"COMMAND {arguments[0]}\n")
    )


def _command(arguments: list[str]) -> str:
    """As far as there is one of that name."""
    groups = ("dead-letters", "broker", "settings", "subscriptions")
    known = [each for each in arguments[:1] if each in COMMANDS]
    if known and known[0] in groups and arguments[1] in ("list", "retry", "start", "status", "set", "unset", "delete"):
        known.append(arguments[1])
    return " ".join(["jbm-kafka", *known])


COMMANDS_WITH_HELP = [
    "create", "delete", "list", "show", "admit-partitions", "send", "receive", "browse", "demo", "bench",
    "bench-instructions", "dead-letters list", "dead-letters retry", "broker start",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_WITH_HELP)
def test_the_help_is_for_people(run: Run, command: str) -> None:
    """It said `[default: 5.0; 0<=x<=1000000000.0]`, and INTEGER RANGE."""
    said = run(*command.split(), "--help")
    assert said.code == 0
    assert "<=x" not in said.out.replace(" ", "")
    assert "x>=" not in said.out
    assert "RANGE" not in said.out


def test_a_list_of_commands_has_whole_sentences(run: Run) -> None:
    for group in ((), ("dead-letters",), ("broker",)):
        _, *lines = run(*group, "--help").out.splitlines()
        assert not [line for line in lines if line.endswith("...")]


def test_the_commands_stand_under_what_they_are_for(run: Run) -> None:
    said = run("--help").out
    headings = ["Queues and topics:", "Messages:", "When something does not move:", "Trying it out:"]
    assert [line for line in said.splitlines() if line in headings] == headings
    assert "\nCommands:" not in said


def test_the_help_leaves_out_what_only_we_need(run: Run) -> None:
    assert "bench-instructions" not in run("--help").out
    assert run("bench-instructions", "--help").code == 0


def test_python_runs_the_package_as_the_command() -> None:
    """It said that 'jbm_kafka' is a package and cannot be directly executed."""
    done = subprocess.run([sys.executable, "-m", "jbm_kafka", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("jbm-kafka ")


def test_the_words_of_other_brokers_lead_to_commands_that_there_are() -> None:
    """It said of `purge` that `pause` was meant, probably."""
    assert {meant.split()[0] for meant in OTHER_WORDS.values()} <= {*COMMANDS, "--help"}
    assert not OTHER_WORDS.keys() & COMMANDS.keys()


@pytest.mark.parametrize("command", ["", "list", "settings set"])
def test_help_may_be_asked_for_in_short(run: Run, command: str) -> None:
    assert run(*command.split(), "-h") == run(*command.split(), "--help")


def test_what_can_be_set_is_told_by_the_help(run: Run) -> None:
    said = " ".join(run("settings", "set", "--help").out.split())
    assert all(name in said for name in TYPES)
    assert "Example: jbm-kafka settings set 'orders.#' max_delivery_attempts=3" in said


@pytest.mark.parametrize("selector", ["", "   "])
@pytest.mark.parametrize(
    "command",
    [
        ("remove", "q", "--yes"), ("move", "q", "--to", "r"), ("expire", "q"), ("give-up", "q"), ("receive", "q"),
        ("browse", "q"), ("dead-letters", "list"), ("dead-letters", "retry"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_empty_selector_does_not_mean_all(run: Run, command: tuple[str, ...], selector: str) -> None:
    """`remove dlq --selector "$UNSET" --yes` emptied a queue."""
    said = run(*command, "--selector", selector, "--bootstrap", "127.0.0.1:1")
    assert (said.code, said.out) == (2, "")
    assert "'--selector': a selector is not empty; leave it out" in said.err
    assert said.err.endswith(", or --all\n") is (command[0] in ("remove", "move", "expire", "give-up"))


def test_a_misspelt_option_of_the_program_is_not_taken_for_one_of_a_command(run: Run) -> None:
    """`--verson` was to stand behind a command."""
    assert run("--verson").err == "jbm-kafka: there is no option '--verson'; '--version' is meant, probably\n"


def test_an_option_is_not_guessed_by_the_dashes_in_front(run: Run) -> None:
    """For --count '--config' or '--json' was meant, probably."""
    said = run("list", "--count", "3").err
    assert said == "jbm-kafka list: there is no option '--count'; see jbm-kafka list --help\n"
    said = run("list", "--namspace", "a").err
    assert said.endswith("there is no option '--namspace'; '--namespace' is meant, probably\n")
