"""COMMAND: what the server's commands are, told from their declarations, in the shapes of Redis.

An entry is ten fields: name, arity, flags, first and last position of a name and the step between them, access
categories, tips, where names are found, subcommands. It never changes, so its bytes are made once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from amemdb.commands.argument_docs import TREE, Doc, documentation
from amemdb.commands.context import Context
from amemdb.commands.declare import REGISTRY, Bytes, Option, Rest, Spec, command
from amemdb.commands.parsing import unknown_option
from amemdb.errors import CommandError
from amemdb.protocol.glob import matcher
from amemdb.protocol.reply import (
    BULK,
    INTEGER,
    NAMES,
    NULL_BULK,
    SIMPLE,
    ArrayOf,
    Labelled,
    SetOf,
    Shape,
    TupleOf,
    bulk,
)

FAMILY = "server"
FLAGS = ("loading",)

HELP = [
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    The entries of all commands.",
    "COUNT",
    "    How many commands there are.",
    "INFO [<command> ...]",
    "    The entries of some commands; of all without a name.",
    "DOCS [<command> ...]",
    "    What commands do and which arguments they take; of all without a name.",
    "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
    "    The names of all commands, or of those of a category or pattern.",
    "GETKEYS <command> [<arg> ...]",
    "    The names of objects in a full command.",
    "HELP",
    "    This text.",
]


# -- entries -----------------------------------------------------------------------------------------


SEARCH_STEPS = {
    b"index": Labelled(index=INTEGER),
    b"keyword": Labelled(keyword=BULK, startfrom=INTEGER),
    b"range": Labelled(lastkey=INTEGER, keystep=INTEGER, limit=INTEGER),
}


class _SearchStep(Shape):
    """How names are found, one half of it: the value is a key of `SEARCH_STEPS` and the parameters it has there."""

    def encode(self, value: Any, resp3: bool) -> bytes:
        return Labelled(type=BULK, spec=SEARCH_STEPS[value[0]]).encode(value, resp3)

    def describe(self) -> str:
        return "labelled type, spec"


class _Entry(Shape):
    """An entry of COMMAND INFO. The value is a full upper-case name, or None for an unknown command."""

    _FIELDS = (
        BULK,
        INTEGER,
        SetOf(SIMPLE),
        INTEGER,
        INTEGER,
        INTEGER,
        SetOf(SIMPLE),
        SetOf(BULK),
        SetOf(Labelled(flags=SetOf(SIMPLE), begin_search=_SearchStep(), find_keys=_SearchStep())),
    )

    def __init__(self) -> None:
        self._made: dict[tuple[str, bool], bytes] = {}

    def encode(self, value: str | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_BULK[resp3]
        made = self._made.get((value, resp3))
        if made is None:
            made = self._made[value, resp3] = self._make(value, resp3)
        return made

    def _make(self, name: str, resp3: bool) -> bytes:
        fields = _entry(REGISTRY[name]) if name in REGISTRY else _container_entry(name)
        subcommands = _subcommands(name)
        shape = ArrayOf(self) if subcommands else SetOf(self)  # Redis tells of none as an empty set
        return TupleOf(*self._FIELDS, shape).encode((*fields, subcommands), resp3)

    def describe(self) -> str:
        return "entry of ten fields, or nil"


ENTRY = _Entry()


def _entry(spec: Spec) -> tuple[Any, ...]:
    """The first nine fields of a command's entry."""
    flags = [*spec.command_flags, *(["movablekeys"] if _name_options(spec) else [])]
    categories = [f"@{category}" for category in spec.categories]
    arity = -spec.first if _subcommands(spec.name) else spec.arity
    return (spec.name.lower().encode(), arity, flags, *spec.key_range, categories, [], _key_specs(spec))


def _container_entry(name: str) -> tuple[Any, ...]:
    """The first nine fields of a command that does nothing without a subcommand."""
    return (name.lower().encode(), -2, [], 0, 0, 0, [f"@{category}" for category in _categories(name)], [], [])


def _key_specs(spec: Spec) -> list[tuple[Any, ...]]:
    """Where names are found: by position, and behind option words."""
    flags = ["RW", "access", "update"] if spec.access == "write" else ["RO", "access"]
    first, last, step = spec.key_range
    found: list[tuple[Any, ...]] = []
    if first:
        span = last if last < 0 else last - first
        found.append((flags, (b"index", (first,)), (b"range", (span, step, 0))))
    for option in _name_options(spec):
        found.append((flags, (b"keyword", (option.word.encode(), spec.first)), (b"range", (0, 1, 0))))
    return found


def _name_options(spec: Spec) -> list[Option]:
    """Options whose value names an object."""
    return [o for o in spec.options if isinstance(o, Option) and o.value is not None and o.value.names]


# -- documentation -----------------------------------------------------------------------------------


class _Docs(Shape):
    """The reply of COMMAND DOCS. The value is full upper-case names, and what is told of each is made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bool], bytes] = {}

    def encode(self, value: list[str], resp3: bool) -> bytes:
        made = self._made
        parts = [b"%%%d\r\n" % len(value) if resp3 else b"*%d\r\n" % (2 * len(value))]
        for name in value:
            if (name, resp3) not in made:
                made[name, resp3] = bulk(name.lower().encode()) + TREE.encode(_documentation(name), resp3)
            parts.append(made[name, resp3])
        return b"".join(parts)

    def describe(self) -> str:
        return "map of names to labelled summary, since, group, complexity, arguments, subcommands"


def _documentation(name: str) -> Doc:
    """What is told of a command or subcommand; one that only holds subcommands has no arguments of its own."""
    subcommands = _subcommands(name)
    if name in REGISTRY:
        doc = documentation(REGISTRY[name])
    else:
        first = documentation(REGISTRY[subcommands[0]])
        summary = "A container for the subcommands below."
        doc = {
            "summary": summary,
            "since": first["since"],
            "group": first["group"],
            "complexity": "Depends on subcommand.",
        }
    if subcommands:
        doc["subcommands"] = {full.lower(): documentation(REGISTRY[full]) for full in subcommands}
    return doc


# -- commands ----------------------------------------------------------------------------------------


@command(
    "COMMAND",
    access="connection",
    reply=ArrayOf(ENTRY),
    family=FAMILY,
    summary="The entries of all commands.",
    cost="O(n) in the commands",
    flags=FLAGS,
)
def command_all(ctx: Context) -> list[str]:
    """Subcommands are within the entries of their commands."""
    return _top_level()


@command(
    "COMMAND|COUNT",
    access="connection",
    reply=INTEGER,
    family=FAMILY,
    summary="How many commands there are.",
    flags=FLAGS,
)
def command_count(ctx: Context) -> int:
    """Subcommands do not count."""
    return len(_top_level())


@command(
    "COMMAND|INFO",
    Rest("names", Bytes("name"), count_min=0),
    access="connection",
    reply=ArrayOf(ENTRY),
    family=FAMILY,
    summary="The entries of some commands, or of all.",
    cost="O(n) in the commands asked for",
    flags=FLAGS,
)
def command_info(ctx: Context, names: list[bytes]) -> list[str | None]:
    """Nil for an unknown command; `config|get` is a subcommand's name."""
    if not names:
        return [*_top_level()]
    known = frozenset(_all_names())
    wanted = (name.upper().decode("ascii", "replace") for name in names)
    return [name if name in known else None for name in wanted]


@command(
    "COMMAND|DOCS",
    Rest("names", Bytes("command-name"), count_min=0),
    access="connection",
    reply=_Docs(),
    family=FAMILY,
    summary="What commands do and which arguments they take.",
    cost="O(n) in the commands asked for",
    flags=FLAGS,
)
def command_docs(ctx: Context, names: list[bytes]) -> list[str]:
    """Unknown commands are left out; `config|get` is a subcommand's name."""
    if not names:
        return _top_level()
    known = frozenset(_all_names())
    wanted = dict.fromkeys(name.upper().decode("ascii", "replace") for name in names)
    return [name for name in wanted if name in known]


@command(
    "COMMAND|LIST",
    Rest(
        "filters",
        Bytes("filter"),
        count_min=0,
        syntax="FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)",
    ),
    access="connection",
    reply=NAMES,
    family=FAMILY,
    summary="The names of commands and subcommands.",
    cost="O(n) in the commands",
    flags=FLAGS,
)
def command_list(ctx: Context, filters: list[bytes]) -> list[bytes]:
    """There are no modules."""
    names = _all_names()
    if filters:
        if filters[0].upper() != b"FILTERBY":
            unknown_option(filters[0])
        if len(filters) != 3:
            raise CommandError("syntax error: FILTERBY needs MODULE, ACLCAT or PATTERN, and a value")
        names = _filtered(names, filters[1], filters[2])
    return [name.lower().encode() for name in names]


@command(
    "COMMAND|GETKEYS",
    Rest("tokens", Bytes("token")),
    access="connection",
    reply=NAMES,
    family=FAMILY,
    summary="The names of objects in a full command.",
    cost="O(n) in its arguments",
    flags=FLAGS,
)
def command_getkeys(ctx: Context, tokens: list[bytes]) -> list[bytes]:
    """AMEM names are told as well as keys: both decide where a command belongs and who may run it."""
    spec = _called(tokens)
    if spec is None:
        raise CommandError("Invalid command specified")
    if not spec.key_range[0] and not _name_options(spec):
        raise CommandError("The command has no key arguments")
    if not spec.takes(len(tokens)):
        raise CommandError("Invalid number of arguments specified for command")
    names = list(spec.names_in(tokens))
    if not names:
        raise CommandError("Invalid arguments specified for command")
    return names


@command(
    "COMMAND|HELP",
    access="connection",
    reply=ArrayOf(SIMPLE),
    family=FAMILY,
    summary="The subcommands of COMMAND.",
    flags=FLAGS,
)
def command_help(ctx: Context) -> list[str]:
    """Lines of text."""
    return HELP


# -- the registry ------------------------------------------------------------------------------------


@cache
def _top_level() -> list[str]:
    """The names of all commands, without subcommands."""
    return list(dict.fromkeys(name.partition("|")[0] for name in REGISTRY))


@cache
def _all_names() -> list[str]:
    """The names of all commands and subcommands."""
    return list(dict.fromkeys([*_top_level(), *REGISTRY]))


def _subcommands(name: str) -> list[str]:
    """The full names of a command's subcommands."""
    return [full for full in REGISTRY if full.startswith(f"{name}|")]


def _called(tokens: list[bytes]) -> Spec | None:
    """The command that a request calls."""
    words = [token.upper().decode("ascii", "replace") for token in tokens[:2]]
    return REGISTRY.get("|".join(words)) or REGISTRY.get(words[0])


def _filtered(names: list[str], kind: bytes, value: bytes) -> list[str]:
    """Those of `names` that a FILTERBY lets through."""
    word = kind.upper()
    if word == b"PATTERN":
        matches = matcher(value.lower())
        return [name for name in names if matches(name.lower().encode())]
    if word == b"ACLCAT":
        wanted = value.lower().decode("ascii", "replace")
        return [name for name in names if wanted in _categories(name)]
    if word != b"MODULE":
        unknown_option(kind)
    return []


def _categories(name: str) -> list[str]:
    """Access categories, without the `@`; what only holds subcommands is slow to call."""
    return REGISTRY[name].categories if name in REGISTRY else ["slow"]
