"""What the server's commands are, as COMMAND DOCS tells it: a line of help, and what may be typed next.

Read once from the server that is talked to, so that completion knows its commands and not ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Doc = dict[bytes, Any]


@dataclass(frozen=True)
class Command:
    """One command or subcommand. `name` is as it is typed, in upper case."""

    name: str
    summary: str
    group: str
    cost: str
    arguments: tuple[Doc, ...] = ()

    @property
    def syntax(self) -> str:
        """The whole line: `GET key`."""
        return " ".join([self.name, *map(_shown, self.arguments)])

    def next_words(self, given: list[str]) -> list[str]:
        """Words that may follow the arguments `given`: the choices of the next place, or the options left."""
        positional = [argument for argument in self.arguments if not _is_option(argument)]
        options = [argument for argument in self.arguments if _is_option(argument)]
        if given and (value := _value_of(options, given[-1])) is not None:
            return list(_tokens(value))  # the value of the option before
        place = len(given)
        open_ended = any(_is_multiple(argument) for argument in positional[:place])
        if place < len(positional) and not open_ended:
            return list(_tokens(positional[place]))
        used = {word.upper() for word in given}
        return [word for option in options if used.isdisjoint(words := list(_option_words(option))) for word in words]


@dataclass
class Catalogue:
    """All commands by the name that is typed."""

    commands: dict[str, Command] = field(default_factory=dict)

    @classmethod
    def of(cls, docs: Any) -> Catalogue:
        """From the reply of COMMAND DOCS over RESP3; empty for anything else."""
        found = cls()
        if isinstance(docs, dict):
            for name, doc in docs.items():
                subcommands = doc.get(b"subcommands", {})
                if not subcommands or b"arguments" in doc or doc[b"complexity"] != b"Depends on subcommand.":
                    found._add(name, doc)
                for full, subdoc in subcommands.items():
                    found._add(full, subdoc)
        return found

    def _add(self, name: bytes, doc: Doc) -> None:
        typed = name.decode("ascii", "replace").upper().replace("|", " ")
        summary, group, cost = (_text(doc, label) for label in (b"summary", b"group", b"complexity"))
        self.commands[typed] = Command(typed, summary, group, cost, tuple(doc.get(b"arguments", ())))

    def find(self, words: list[str]) -> tuple[Command, list[str]] | None:
        """The command that a line begins with, and the words behind its name."""
        for length in (2, 1):
            command = self.commands.get(" ".join(words[:length]).upper()) if len(words) >= length else None
            if command is not None:
                return command, words[length:]
        return None

    def beginning(self, text: str) -> list[Command]:
        """Commands whose name begins with `text`."""
        start = text.upper()
        return [self.commands[name] for name in sorted(self.commands) if name.startswith(start)]

    def groups(self) -> list[str]:
        """The groups, in order."""
        return sorted({command.group for command in self.commands.values()})


def _text(argument: Doc, label: bytes) -> str:
    value = argument.get(label, b"")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _flags(argument: Doc) -> set[str]:
    return {flag.decode() if isinstance(flag, bytes) else str(flag) for flag in argument.get(b"flags", ())}


def _is_multiple(argument: Doc) -> bool:
    return "multiple" in _flags(argument) or any(_is_multiple(form) for form in argument.get(b"arguments", ()))


def _is_option(argument: Doc) -> bool:
    """Whether it is told by a word and not by its place."""
    if argument.get(b"token"):
        return True
    forms = argument.get(b"arguments", ())
    return _is_expiry(argument) or ("optional" in _flags(argument) and any(form.get(b"token") for form in forms))


def _is_expiry(argument: Doc) -> bool:
    forms = argument.get(b"arguments", ())
    return _text(argument, b"type") == "oneof" and bool(forms) and all(
        form.get(b"token") and _text(form, b"type") in ("integer", "unix-time", "pure-token") for form in forms
    ) and any(_text(form, b"type") != "pure-token" for form in forms)  # fmt: skip


def _option_words(option: Doc) -> Iterator[str]:
    if option.get(b"token"):
        yield _text(option, b"token")
        return
    for form in option.get(b"arguments", ()):
        if form.get(b"token"):
            yield _text(form, b"token")


def _tokens(argument: Doc) -> Iterator[str]:
    """The words that an argument may be, where it is one of a few."""
    if _text(argument, b"type") == "pure-token":
        yield _text(argument, b"token")
    elif _text(argument, b"type") == "oneof":
        for form in argument.get(b"arguments", ()):
            if form.get(b"token"):
                yield _text(form, b"token")


def _value_of(options: list[Doc], word: str) -> Doc | None:
    """What has to follow the option `word`; None for a flag and for what is no option."""
    for option in options:
        forms = [option] if option.get(b"token") else option.get(b"arguments", ())
        for form in forms:
            if _text(form, b"token") == word.upper() and _text(form, b"type") != "pure-token":
                return {label: value for label, value in form.items() if label != b"token"}
    return None


def _shown(argument: Doc) -> str:
    """An argument as a line of syntax has it: `[TTL seconds | PXAT unix-time-milliseconds]`."""
    kind, forms = _text(argument, b"type"), argument.get(b"arguments", ())
    flags = _flags(argument)
    token = _text(argument, b"token")
    if kind == "pure-token":
        text = token
    elif kind == "oneof":
        words = "|" if all(_text(form, b"type") == "pure-token" for form in forms) else " | "
        choice = words.join(map(_shown, forms))
        text = f"{token} {choice}" if token else choice
        if not token and "optional" not in flags and words != "|":
            text = f"({text})"
    elif kind == "block":
        text = " ".join(map(_shown, forms))
    else:
        value = _text(argument, b"display_text") or _text(argument, b"name")
        text = f"{token} {value}" if token else value
    if "multiple" in flags:
        text = f"{text} [{text} …]"
    return f"[{text}]" if "optional" in flags else text
