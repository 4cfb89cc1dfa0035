"""COMMAND, and what holds for the declaration of every command."""

from __future__ import annotations

from typing import Any

import pytest

from amemdb.commands.declare import REGISTRY, Bytes, Expiry, Option, Rest, Spec, Vector, is_secret
from amemdb.commands.table import COMMANDS, find
from tests.commands.wire import Error, Peer, Status, Unordered, Wire

FIELDS = ("name", "arity", "flags", "first", "last", "step", "categories", "tips", "key_specs", "subcommands")


@pytest.fixture
def peer() -> Peer:
    return Wire().connect(resp3=True)


def entry(peer: Peer, name: str) -> dict[str, Any]:
    """What COMMAND INFO says of one command."""
    (found,) = peer("COMMAND", "INFO", name)
    return dict(zip(FIELDS, found, strict=True))


# -- against Redis -----------------------------------------------------------------------------------

REDIS = {
    "get": (2, (1, 1, 1), {"readonly"}, {"@read", "@string"}),
    "set": (-3, (1, 1, 1), {"write", "denyoom"}, {"@write", "@string"}),
    "mget": (-2, (1, -1, 1), {"readonly"}, {"@read", "@string"}),
    "mset": (-3, (1, -1, 2), {"write", "denyoom"}, {"@write", "@string"}),
    "del": (-2, (1, -1, 1), {"write"}, {"@write", "@keyspace"}),
    "exists": (-2, (1, -1, 1), {"readonly"}, {"@read", "@keyspace"}),
    "rename": (3, (1, 2, 1), {"write"}, {"@write", "@keyspace"}),
    "expire": (-3, (1, 1, 1), {"write"}, {"@write", "@keyspace"}),
    "scan": (-2, (0, 0, 0), {"readonly"}, {"@read", "@keyspace"}),
    "ping": (-1, (0, 0, 0), set(), {"@connection"}),
    "echo": (2, (0, 0, 0), {"loading"}, {"@connection"}),
    "hello": (-1, (0, 0, 0), {"noscript", "loading", "no_auth"}, {"@connection"}),
    "auth": (-2, (0, 0, 0), {"noscript", "loading", "no_auth"}, {"@connection"}),
    "select": (2, (0, 0, 0), {"loading"}, {"@connection"}),
    "quit": (-1, (0, 0, 0), {"noscript", "loading", "no_auth"}, {"@connection"}),
    "reset": (1, (0, 0, 0), {"noscript", "loading", "no_auth"}, {"@connection"}),
    "info": (-1, (0, 0, 0), {"loading"}, {"@dangerous"}),
    "time": (1, (0, 0, 0), {"loading"}, set()),
    "shutdown": (-1, (0, 0, 0), {"admin", "noscript", "loading", "no_multi"}, {"@admin", "@dangerous"}),
    "multi": (1, (0, 0, 0), {"noscript", "loading"}, {"@transaction"}),
    "exec": (1, (0, 0, 0), {"noscript", "loading"}, {"@transaction"}),
    "watch": (-2, (1, -1, 1), {"noscript", "loading"}, {"@transaction"}),
    "config|get": (-3, (0, 0, 0), {"admin", "noscript", "loading"}, {"@admin", "@dangerous"}),
    "config|set": (-4, (0, 0, 0), {"admin", "noscript", "loading"}, {"@admin", "@dangerous"}),
    "client|id": (2, (0, 0, 0), {"noscript", "loading"}, {"@connection"}),
    "client|list": (-2, (0, 0, 0), {"admin", "noscript", "loading"}, {"@admin", "@dangerous", "@connection"}),
    "client|kill": (-3, (0, 0, 0), {"admin", "noscript", "loading"}, {"@admin", "@dangerous", "@connection"}),
    "client|setinfo": (4, (0, 0, 0), {"noscript", "loading"}, {"@connection"}),
    "command": (-1, (0, 0, 0), {"loading"}, {"@connection"}),
    "command|getkeys": (-3, (0, 0, 0), {"loading"}, {"@connection"}),
    "slowlog|get": (-2, (0, 0, 0), {"admin", "loading"}, {"@admin", "@dangerous"}),
}
"""What Redis 8 says: arity, positions of names, flags and categories (those that exist here).

Fast and slow are left out: there they are old habit (SET is slow, HELLO fast), here they follow from the cost.
"""


@pytest.mark.parametrize("name", sorted(REDIS))
def test_shared_commands_are_described_as_redis_does(peer: Peer, name: str) -> None:
    arity, positions, flags, categories = REDIS[name]
    told = entry(peer, name)
    assert told["name"] == name.encode()
    assert told["arity"] == arity
    assert (told["first"], told["last"], told["step"]) == positions
    assert flags <= set(told["flags"])
    assert categories <= set(told["categories"])


def test_an_entry_has_the_shapes_of_redis(peer: Peer) -> None:
    told = entry(peer, "GET")
    assert isinstance(told["flags"], Unordered)
    assert isinstance(told["categories"], Unordered)
    assert all(isinstance(flag, Status) for flag in [*told["flags"], *told["categories"]])
    assert told["tips"] == Unordered()
    assert told["subcommands"] == Unordered()
    (spec,) = told["key_specs"]
    assert spec == {
        b"flags": ["RO", "access"],
        b"begin_search": {b"type": b"index", b"spec": {b"index": 1}},
        b"find_keys": {b"type": b"range", b"spec": {b"lastkey": 0, b"keystep": 1, b"limit": 0}},
    }
    assert entry(peer, "MSET")["key_specs"][0][b"find_keys"][b"spec"] == {b"lastkey": -1, b"keystep": 2, b"limit": 0}


def test_resp2_has_arrays_instead(peer: Peer) -> None:
    (told,) = Wire().connect()("COMMAND", "INFO", "config")
    assert told[0:2] == [b"config", -2]
    assert all(type(part) is list for part in told[6:])
    names = {sub[0] for sub in told[9]}
    assert {b"config|get", b"config|set", b"config|resetstat"} <= names
    assert all(len(sub) == 10 for sub in told[9])


# -- COMMAND -----------------------------------------------------------------------------------------


def test_the_whole_table(peer: Peer) -> None:
    told = peer("COMMAND")
    names = [one[0] for one in told]
    assert len(names) == len(set(names)) == peer("COMMAND", "COUNT")
    assert {b"get", b"config", b"client", b"command", b"amem.conv.append"} <= set(names)
    assert not [name for name in names if b"|" in name]
    assert peer("COMMAND", "INFO") == told
    subcommands = [sub[0] for one in told for sub in one[9]]
    assert sorted(names + subcommands) == sorted(peer("COMMAND", "LIST"))
    assert {name.lower().encode() for name in REGISTRY} <= set(names + subcommands)


def test_unknown_names_are_nil(peer: Peer) -> None:
    found = peer("COMMAND", "INFO", "nope", "GeT", b"\xff", "config|nope", "CONFIG|get", "get")
    assert [one and one[0] for one in found] == [None, b"get", None, None, b"config|get", b"get"]
    assert Wire().connect().raw("COMMAND", "INFO", "nope") == b"*1\r\n$-1\r\n"


def test_command_takes_only_subcommands(peer: Peer) -> None:
    assert peer("COMMAND", "GET") == "ERR unknown subcommand 'GET'. Try COMMAND HELP."
    assert isinstance(peer("COMMAND", "COUNT", "x"), Error)


def test_lists_can_be_filtered(peer: Peer) -> None:
    assert set(peer("COMMAND", "LIST", "FILTERBY", "PATTERN", "amem.work.*")) == {
        name.lower().encode() for name in REGISTRY if name.startswith("AMEM.WORK.")
    }
    assert peer("COMMAND", "LIST", "filterby", "pattern", "GE?") == [b"get"]
    assert b"config|get" in peer("COMMAND", "LIST", "FILTERBY", "PATTERN", "config*")
    admin = peer("COMMAND", "LIST", "FILTERBY", "ACLCAT", "ADMIN")
    assert b"shutdown" in admin
    assert b"get" not in admin
    assert peer("COMMAND", "LIST", "FILTERBY", "ACLCAT", "none-such") == []
    assert peer("COMMAND", "LIST", "FILTERBY", "MODULE", "search") == []
    for words in (("PATTERN", "x"), ("FILTERBY",), ("FILTERBY", "PATTERN"), ("FILTERBY", "NAME", "x")):
        assert peer("COMMAND", "LIST", *words).startswith("ERR syntax error"), words


# -- COMMAND GETKEYS ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("GET k", "k"),
        ("mset a 1 b 2", "a b"),
        ("DEL a b c", "a b c"),
        ("RENAME old new", "old new"),
        ("AMEM.CONV.APPEND s user hello ID s", "s"),
        ("AMEM.WORK.SET s key value", "s"),
        ("AMEM.SEM.STORE agent fact text 1 0 0 0", "agent"),
    ],
)
def test_getkeys_finds_names(peer: Peer, line: str, names: str) -> None:
    assert peer("COMMAND", "GETKEYS", *line.split()) == [name.encode() for name in names.split()]


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("NO-SUCH k", "ERR Invalid command specified"),
        ("CONFIG NO-SUCH", "ERR Invalid command specified"),
        ("CONFIG", "ERR Invalid command specified"),
        ("PING", "ERR The command has no key arguments"),
        ("CONFIG GET x", "ERR The command has no key arguments"),
        ("GET", "ERR Invalid number of arguments specified for command"),
        ("GET a b", "ERR Invalid number of arguments specified for command"),
    ],
)
def test_getkeys_refusals(peer: Peer, line: str, refusal: str) -> None:
    assert peer("COMMAND", "GETKEYS", *line.split()) == refusal


# -- every declaration -------------------------------------------------------------------------------

EVERY = sorted(REGISTRY)


def example(spec: Spec) -> tuple[list[bytes], list[bytes]]:
    """A request with every argument and option of `spec` (one of a group), and the names in it."""
    argv: list[bytes] = [word.encode() for word in spec.name.split("|")]
    names: list[bytes] = []
    groups: set[str] = set()

    def put(name_it: bool) -> None:
        token = b"token-%d" % len(argv)
        argv.append(token)
        if name_it:
            names.append(token)

    for argument in spec.positionals:
        for index in range(max(argument.count_min, 2) * argument.step if isinstance(argument, Rest) else 1):
            if isinstance(argument, Vector):
                argv.append(b"0.5")
            else:
                put(argument.names and index % (argument.step if isinstance(argument, Rest) else 1) == 0)
    for option in spec.options:
        if isinstance(option, Expiry):
            argv += [b"TTL", b"5"]
        elif not option.group or option.group not in groups:
            groups.add(option.group)
            argv.append(option.word.encode())
            if option.value is not None:
                put(option.value.names)
    return argv, names


@pytest.mark.parametrize("name", EVERY)
def test_every_command_is_declared_whole(peer: Peer, name: str) -> None:
    spec = REGISTRY[name]
    told = entry(peer, name)
    assert spec.summary.endswith(".")
    assert spec.family
    assert len(set(spec.categories)) == len(spec.categories)
    assert spec.family in spec.categories
    assert ("fast" in spec.categories) != ("slow" in spec.categories)
    assert isinstance(told["arity"], int)
    assert abs(told["arity"]) >= spec.first
    assert set(told["flags"]) <= {
        "readonly", "write", "denyoom", "admin", "fast", "noscript", "loading", "no_auth", "no_multi", "blocking",
        "movablekeys",
    }  # fmt: skip
    assert (told["first"] > 0) == bool(spec.key_range[0]) == (told["step"] > 0)
    if spec.access in ("read", "write"):
        assert {f"@{spec.access}", f"@{spec.family}"} <= set(told["categories"])


@pytest.mark.parametrize("name", EVERY)
def test_every_request_in_full_has_the_right_number_of_arguments(name: str) -> None:
    argv, _ = example(REGISTRY[name])
    assert REGISTRY[name].takes(len(argv))
    assert not REGISTRY[name].takes(REGISTRY[name].first - 1)
    assert find([argv[0].lower(), *argv[1:]]) is COMMANDS[name]


@pytest.mark.parametrize("name", [name for name in EVERY if example(REGISTRY[name])[1]])
def test_getkeys_finds_the_names_of_every_command_that_has_names(peer: Peer, name: str) -> None:
    argv, names = example(REGISTRY[name])
    assert peer("COMMAND", "GETKEYS", *argv) == names


@pytest.mark.parametrize("name", EVERY)
def test_what_is_declared_secret_is_all_that_is_redacted(name: str) -> None:
    spec = REGISTRY[name]
    argv, _ = example(spec)
    shown = spec.redacted(argv)
    assert len(shown) == len(argv)
    holds_secrets = any(map(is_secret, spec.positionals)) or any(
        isinstance(option, Option) and is_secret(option.value) for option in spec.options
    )
    assert (shown != argv) == holds_secrets
    assert shown[: spec.first] == argv[: spec.first]


def test_a_secret_behind_an_option_is_redacted() -> None:
    ping = REGISTRY["PING"]
    made_up = Spec(
        "MADE-UP", (Bytes("user"), Option("PASSWORD", Bytes("password", secret=True)), Option("NX")),
        ping.handler, "admin", ping.reply, "server", "Made up.", "O(1)", frozenset(),
    )  # fmt: skip
    argv = [b"MADE-UP", b"PASSWORD", b"NX", b"password", b"hunter2"]
    assert made_up.redacted(argv)[4] == b"(redacted)"
    assert b"hunter2" not in b" ".join(made_up.redacted([*argv, b"PASSWORD"]))
    assert made_up.redacted([b"MADE-UP", b"u", b"NX"]) == [b"MADE-UP", b"u", b"NX"]


# -- COMMAND DOCS ------------------------------------------------------------------------------------

ARGUMENT_TYPES = {"string", "integer", "double", "key", "pattern", "unix-time", "pure-token", "oneof", "block"}


def docs(peer: Peer, name: str) -> dict[bytes, Any]:
    (told,) = peer("COMMAND", "DOCS", name).items()
    assert told[0] == name.lower().encode()
    return dict(told[1])


def names_and_types(arguments: list[dict[bytes, Any]]) -> list[tuple[bytes, bytes]]:
    return [(argument[b"name"], argument[b"type"]) for argument in arguments]


def test_docs_of_one_command(peer: Peer) -> None:
    told = docs(peer, "AMEM.CONV.CREATE")
    assert told[b"summary"] == b"Open a session, or change the window and expiry of one that is open."
    assert told[b"group"] == b"amem-conv"
    assert told[b"complexity"].startswith(b"O(1)")
    session, window, expiry, nx = told[b"arguments"]
    assert session == {b"name": b"session", b"type": b"key", b"key_spec_index": 0}
    assert window == {b"name": b"window", b"type": b"integer", b"token": b"WINDOW", b"flags": Unordered(["optional"])}
    assert (expiry[b"type"], expiry[b"flags"]) == (b"oneof", Unordered(["optional"]))
    assert [(one[b"token"], one[b"type"]) for one in expiry[b"arguments"]] == [
        (b"TTL", b"integer"),
        (b"PXAT", b"unix-time"),
    ]
    assert (nx[b"type"], nx[b"token"]) == (b"pure-token", b"NX")
    assert isinstance(nx[b"flags"][0], Status)


def test_words_vectors_and_pairs(peer: Peer) -> None:
    role = docs(peer, "AMEM.CONV.APPEND")[b"arguments"][1]
    assert role[b"type"] == b"oneof"
    assert [word[b"token"] for word in role[b"arguments"]] == [b"system", b"user", b"assistant", b"tool"]
    vector = docs(peer, "AMEM.SEM.RECALL")[b"arguments"][2]
    forms = [(b"component", b"double"), (b"float32-bytes", b"string"), (b"text", b"string")]
    assert names_and_types(vector[b"arguments"]) == forms
    assert b"text" not in [option[b"name"] for option in docs(peer, "AMEM.SEM.RECALL")[b"arguments"][3:]]
    assert vector[b"arguments"][0][b"flags"] == Unordered(["multiple"])
    (pairs,) = docs(peer, "MSET")[b"arguments"]
    assert (pairs[b"type"], names_and_types(pairs[b"arguments"])) == (
        b"block",
        [(b"key", b"key"), (b"value", b"string")],
    )
    (login,) = docs(peer, "AUTH")[b"arguments"]
    assert (login[b"display_text"], login.get(b"flags")) == (b"[user] password", None)
    (modes,) = docs(peer, "SHUTDOWN")[b"arguments"]
    assert (modes[b"type"], modes[b"flags"]) == (b"string", Unordered(["optional"]))
    (sections,) = docs(peer, "INFO")[b"arguments"]
    assert sections[b"flags"] == Unordered(["multiple", "optional"])


def test_of_a_group_of_options_one_may_be_given(peer: Peer) -> None:
    choices = [one for one in docs(peer, "SET")[b"arguments"] if one[b"type"] == b"oneof"]
    tokens = [{form[b"token"] for form in one[b"arguments"]} for one in choices]
    assert {b"NX", b"XX"} in tokens
    assert {b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL"} in tokens
    named = {form[b"token"]: form[b"name"] for one in choices for form in one[b"arguments"]}
    assert named[b"EX"] == b"seconds"
    assert named[b"PX"] == b"milliseconds"
    assert named[b"EXAT"] == b"unix-time-seconds"
    assert named[b"PXAT"] == b"unix-time-milliseconds"


def test_subcommands_are_within_their_command_and_by_themselves(peer: Peer) -> None:
    told = docs(peer, "CONFIG")
    assert b"arguments" not in told
    assert told[b"subcommands"][b"config|get"] == docs(peer, "config|get")
    assert told[b"group"] == b"server"


def test_docs_of_all_and_of_unknown_commands(peer: Peer) -> None:
    everything = peer("COMMAND", "DOCS")
    assert {name.decode() for name in everything} == {
        name.decode() for name in peer("COMMAND", "LIST") if b"|" not in name
    }
    assert peer("COMMAND", "DOCS", "nope", b"\xff", "GET", "get").keys() == {b"get"}
    assert peer("COMMAND", "DOCS", "nope") == {}
    assert Wire().connect()("COMMAND", "DOCS", "get")[0:1] == [b"get"]


@pytest.mark.parametrize("name", EVERY)
def test_every_argument_of_every_command_is_told(peer: Peer, name: str) -> None:
    told = peer("COMMAND", "DOCS", name)[name.lower().encode()]
    assert {b"summary", b"since", b"group", b"complexity"} <= told.keys()
    arguments = told.get(b"arguments", [])
    words = [option.word.encode() for option in REGISTRY[name].options if isinstance(option, Option)]
    waiting = list(arguments)
    tokens = []
    while waiting:
        argument = waiting.pop()
        assert argument[b"type"].decode() in ARGUMENT_TYPES
        assert (argument[b"type"] in (b"oneof", b"block")) == (b"arguments" in argument)
        assert argument[b"type"] != b"pure-token" or argument[b"token"]
        tokens.append(argument.get(b"token"))
        waiting += argument.get(b"arguments", [])
    assert set(words) <= set(tokens)
    positional = len(arguments) - sum(_is_optional_word(argument) for argument in arguments)
    assert positional >= len(REGISTRY[name].positionals)


def _is_optional_word(argument: dict[bytes, Any]) -> bool:
    optional = "optional" in argument.get(b"flags", ())
    return optional and (b"token" in argument or all(b"token" in form for form in argument.get(b"arguments", [{}])))
