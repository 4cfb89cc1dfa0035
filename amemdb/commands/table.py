"""The command table: every declaration with its generated parser, and the look-up by what a client sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amemdb.commands import families  # noqa: F401  (declares every command)
from amemdb.commands._generated import RUN
from amemdb.commands.context import Context
from amemdb.commands.declare import REGISTRY, Spec
from amemdb.errors import CommandError, printable, wrong_arity


class Command:
    """A declaration made ready to run: what the engine's gates test, as plain attributes."""

    __slots__ = (
        "arity",
        "encode",
        "grows",
        "immediate",
        "name",
        "no_auth",
        "read",
        "refuse_multi",
        "run",
        "shape",
        "spec",
        "tells_of_data",
        "write",
    )

    def __init__(self, spec: Spec, run: Callable[[Context, list[bytes]], Any]) -> None:
        self.spec = spec
        self.run = run
        self.name = spec.name
        self.arity = spec.arity
        self.shape = spec.reply
        self.encode = spec.reply.encode
        self.write = spec.access == "write"
        self.grows = spec.grows
        self.read = spec.access == "read"
        self.tells_of_data = spec.access in ("read", "write") or "tells_of_data" in spec.flags
        self.no_auth = "no_auth" in spec.flags
        self.immediate = "no_multi" in spec.flags
        self.refuse_multi = "refuse_multi" in spec.flags


COMMANDS: dict[str, Command] = {name: Command(spec, RUN[name]) for name, spec in REGISTRY.items()}

_TOP: dict[bytes, Command] = {name.encode(): command for name, command in COMMANDS.items() if "|" not in name}
_NESTED: dict[bytes, dict[bytes, Command]] = {}
for _name, _command in COMMANDS.items():
    if "|" in _name:
        _head, _, _tail = _name.partition("|")
        _NESTED.setdefault(_head.encode(), {})[_tail.encode()] = _command
_BARE: dict[bytes, Command] = {name: _TOP.pop(name) for name in _NESTED if name in _TOP}
"""Commands with subcommands that can also be called without one, as COMMAND."""


def find(argv: list[bytes]) -> Command:
    """The command that `argv` calls, or the `CommandError` that says what is unknown about it."""
    command = _TOP.get(argv[0])
    if command is not None:
        return command
    word = argv[0].upper()
    command = _TOP.get(word)
    if command is not None:
        return command
    nested = _NESTED.get(word)
    if nested is None:
        arguments = " ".join(f"'{printable(argument)}'" for argument in argv[1:4])
        raise CommandError(f"unknown command '{printable(argv[0])}', with args beginning with: {arguments}")
    if len(argv) < 2:
        if word in _BARE:
            return _BARE[word]
        raise wrong_arity(word.decode())
    command = nested.get(argv[1].upper())
    if command is None:
        raise CommandError(f"unknown subcommand '{printable(argv[1])}'. Try {word.decode()} HELP.")
    return command
