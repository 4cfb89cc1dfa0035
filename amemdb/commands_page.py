"""Writes `docs/commands.md` from the declarations of all commands: `python -m amemdb.commands_page`.

Syntax, bounds, reply and cost come from the declaration, the line behind it from the handler's docstring. The file is
checked in; a test compares it with what `page()` gives.
"""

from __future__ import annotations

from pathlib import Path

from amemdb.commands import families  # noqa: F401  (declares every command)
from amemdb.commands.declare import REGISTRY, Arg, Expiry, Integer, Name, Option, Rest, Spec, Vector
from amemdb.limits import INT64_MAX, INT64_MIN

PATH = Path(__file__).parent.parent / "docs" / "commands.md"

HEAD = """\
# Commands

<!-- Written by `make generate` from the declarations in amemdb/commands: change them there. -->

Every command with what it takes, what it answers and what it costs. `[…]` may be left out, `(a | b)` is one of several,
`…` means more of the same. Option words stand behind the other arguments, in any order and in any case; an unknown or
repeated one is refused.

- **Names** of sessions, agents, facts and notes are 1 to 1024 bytes, any bytes. Keys of plain strings are any bytes.
- **Integers** are ASCII digits with an optional `-`. **Numbers** are decimal, with an optional exponent.
- **Times** are Unix milliseconds, unless it says seconds. `TTL` is whole seconds, at least 1. `TTL` and `PXAT` exclude
  each other. A `PXAT` in the past is taken: what is written is over at once.
- **Labelled** replies are maps in RESP3, and flat lists of label and value in RESP2. In brackets stands a list of fixed
  length.
- **Access** says which kind a command is: *read* changes nothing, *write* changes data, *connection* concerns only the
  connection, *server* tells about the server, *admin* changes how it runs or what others see.
- A refused command has changed nothing.

The Python client has a method for every `AMEM` command, in lower case with underscores: `AMEM.CONV.APPEND` is
`amem_conv_append`. See [the Python client](client.md).
"""

SECTIONS = (
    ("amem-conv", "Conversations", "A bounded window of turns per session: [conversations](memory/conversations.md)."),
    ("amem-sem", "Facts", "Texts with a vector, per agent: [facts](memory/facts.md)."),
    ("amem-work", "Working notes", "Keys and values of a session: [working notes](memory/notes.md)."),
    ("amem-epis", "Events", "A log per agent: [events](memory/events.md)."),
    ("amem-summary", "Summary", "One versioned text per agent: [summary](memory/summary.md)."),
    ("amem-search", "Search over all", "What an agent remembers, in one question: [facts](memory/facts.md)."),
    ("keyspace", "Keys", "Plain keys, as in Redis, in 16 databases."),
    ("string", "Strings", "The values of plain keys."),
    ("transaction", "Transactions", "Several commands as one: all of it is there after a crash, or nothing."),
    ("connection", "Connection", "What a client does before it asks for anything."),
    ("server", "Server", "State, settings, and the list of commands itself."),
)
"""Families in the order of the page: key, heading, and a line on what they are."""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for family, title, line in SECTIONS:
        specs = [spec for spec in REGISTRY.values() if spec.family == family]
        assert specs, f"no command is of the family {family}"
        parts.append(f"\n## {title}\n\n{line}\n")
        parts += [_entry(spec) for spec in specs]
    left_out = {spec.family for spec in REGISTRY.values()} - {family for family, _, _ in SECTIONS}
    assert not left_out, f"give these families their place in the page: {left_out}"
    return "".join(parts)


def _entry(spec: Spec) -> str:
    name = spec.name.replace("|", " ")
    lines = [f"\n### {name}\n", spec.summary + "\n", f"`{' '.join([name, *_syntax(spec)])}`\n"]
    rows = _rows(spec)
    if rows:
        lines += ["| argument | takes |", "|---|---|", *(f"| `{label}` | {takes} |" for label, takes in rows), ""]
    lines += [f"- **Reply:** {spec.reply.describe()}", f"- **Cost:** {spec.cost}", f"- **Access:** {spec.access}\n"]
    notes = [" ".join(paragraph.split()) for paragraph in (spec.handler.__doc__ or "").split("\n\n")]
    return "\n".join(lines + [f"{note}\n" for note in notes if note])


# -- syntax ------------------------------------------------------------------------------------------


def _syntax(spec: Spec) -> list[str]:
    instead = {option.word: option for option in spec.options if isinstance(option, Option)}
    taken = {argument.instead for argument in spec.positionals if isinstance(argument, Vector)}
    words = [_positional(argument, instead) for argument in spec.positionals]
    groups: dict[str, list[str]] = {}
    for index, option in enumerate(spec.options):
        if isinstance(option, Expiry):
            forms = ["TTL seconds", "PXAT unix-time-milliseconds", *(["PERSIST"] if option.persist else [])]
            words.append(_choice(forms) if option.required else f"[{' | '.join(forms)}]")
            continue
        if option.word in taken:
            continue
        group = option.group or f"{index}"
        if group not in groups:
            groups[group] = []
            words.append(group)
        groups[group].append(_option(option))
    return [f"[{' | '.join(groups[word])}]" if word in groups else word for word in words]


def _positional(argument: Arg, options: dict[str, Option]) -> str:
    if isinstance(argument, Vector):
        forms = [_option(options[argument.instead])] if argument.instead else []
        return _choice(["number …", "FP32 bytes", *forms])
    if not isinstance(argument, Rest):
        return argument.label
    if argument.syntax:
        return argument.syntax if argument.count_min else f"[{argument.syntax}]"
    once = argument.item.label + (" value" if argument.step == 2 else "")
    more = f"{once} …" if argument.step == 1 else f"({once}) …"
    return more if argument.count_min else f"[{more}]"


def _option(option: Option) -> str:
    return option.word if option.value is None else f"{option.word} {option.value.label}"


def _choice(forms: list[str]) -> str:
    return f"({' | '.join(forms)})"


# -- what arguments take -----------------------------------------------------------------------------


def _rows(spec: Spec) -> list[tuple[str, str]]:
    rows = [_row(argument) for argument in spec.positionals if not (isinstance(argument, Rest) and argument.syntax)]
    for option in spec.options:
        if isinstance(option, Expiry):
            rows.append(("TTL seconds", "integer of at least 1: from now on"))
            rows.append(("PXAT unix-time-milliseconds", "Unix milliseconds, at most 100 years ahead"))
            if option.persist:
                rows.append(("PERSIST", "no end any more"))
        elif option.value is not None:
            rows.append((_option(option), _takes(option.value)))
    return rows


def _row(argument: Arg) -> tuple[str, str]:
    if isinstance(argument, Vector):
        return "vector", argument.meaning
    if not isinstance(argument, Rest):
        return argument.label, _takes(argument)
    if argument.step == 2:
        return (
            f"{argument.item.label} value",
            f"{argument.count_min} or more pairs: {_takes(argument.item)}, any bytes",
        )
    return argument.item.label, f"{argument.count_min} or more: {_takes(argument.item)}"


def _takes(argument: Arg) -> str:
    if isinstance(argument, Name):
        return f"name, {argument.meaning}"
    if isinstance(argument, Integer) and argument.maximum == INT64_MAX:
        return "integer" if argument.minimum == INT64_MIN else f"integer of at least {argument.minimum}"
    return argument.meaning


def main() -> None:
    """Write the page."""
    PATH.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
