"""What COMMAND DOCS tells of a command, derived from its declaration, in the form that Redis's tools read.

An argument is a map: `name`, `type`, and where they apply `display_text`, `key_spec_index`, `token` (the option word),
`flags` (`optional`, `multiple`) and `arguments` (of a `block` of several tokens, or of `oneof` several forms).

Documentation is a tree of plain values, written by `TREE`: a dict is a map, a list an array, a frozenset a set of
simple strings.
"""

from __future__ import annotations

from typing import Any

from amemdb.commands.declare import (
    Arg,
    Bytes,
    Choice,
    Cursor,
    Expiry,
    Float,
    Integer,
    KeyExpiry,
    Option,
    Rest,
    Role,
    Spec,
    TimeMs,
    Vector,
)
from amemdb.commands.parsing import ROLES
from amemdb.protocol.reply import INTEGER, SIMPLE, ArrayOf, MapOf, SetOf, Shape, bulk

SINCE = "0.1.0"
"""The version that all commands have been in since."""
GROUPS = {"keyspace": "generic", "transaction": "transactions"}
"""Families that Redis's tools know by another name."""
OPTIONAL = frozenset({"optional"})
MULTIPLE = frozenset({"multiple"})

Doc = dict[str, Any]


class _Text(Shape):
    def encode(self, value: str, resp3: bool) -> bytes:
        return bulk(value.encode("utf-8"))

    def describe(self) -> str:
        return "text"


class Tree(Shape):
    """A tree of dicts, lists, frozensets of words, strings and integers."""

    def encode(self, value: Any, resp3: bool) -> bytes:
        if isinstance(value, dict):
            return MapOf(_Text(), self).encode(value, resp3)
        if isinstance(value, frozenset):
            return SetOf(SIMPLE).encode(sorted(value), resp3)
        if isinstance(value, list):
            return ArrayOf(self).encode(value, resp3)
        return (INTEGER if isinstance(value, int) else _Text()).encode(value, resp3)

    def describe(self) -> str:
        return "map"


TREE = Tree()


def documentation(spec: Spec) -> Doc:
    """Summary, group, complexity and arguments of one command."""
    doc = {
        "summary": spec.summary,
        "since": SINCE,
        "group": GROUPS.get(spec.family, spec.family),
        "complexity": spec.cost,
    }
    arguments = arguments_of(spec)
    return doc | {"arguments": arguments} if arguments else doc


def arguments_of(spec: Spec) -> list[Doc]:
    """The arguments in the order in which they are sent, options after the positional ones."""
    found = [_positional(argument) for argument in spec.positionals]
    key_specs = 1 if spec.key_range[0] else 0
    groups: dict[str, Doc] = {}
    instead = {
        argument.instead: doc
        for argument, doc in zip(spec.positionals, found, strict=True)
        if isinstance(argument, Vector) and argument.instead
    }
    for option in spec.options:
        if isinstance(option, Expiry):
            found.append(_expiry(option))
            continue
        doc = _option(option)
        if option.word in instead:
            instead[option.word]["arguments"].append(doc)  # one of the forms of what it stands for
            continue
        if doc["type"] == "key":
            doc["key_spec_index"] = key_specs
            key_specs += 1
        if not option.group:
            found.append(doc | {"flags": OPTIONAL})
        elif option.group in groups:
            groups[option.group]["arguments"].append(doc)
        else:
            groups[option.group] = {"name": option.group, "type": "oneof", "flags": OPTIONAL, "arguments": [doc]}
            found.append(groups[option.group])
    return [_flat(doc) for doc in found]


def _flat(doc: Doc) -> Doc:
    """A choice of one form only is that form."""
    if doc["type"] == "oneof" and len(doc["arguments"]) == 1 and "token" not in doc:
        return {**doc["arguments"][0], **({"flags": doc["flags"]} if "flags" in doc else {})}
    return doc


def _positional(argument: Arg) -> Doc:
    if isinstance(argument, Vector):
        numbers = {"name": "component", "type": "double", "flags": MULTIPLE}
        raw = {"name": "float32-bytes", "type": "string", "token": "FP32"}
        return {"name": "vector", "type": "oneof", "arguments": [numbers, raw]}
    if not isinstance(argument, Rest):
        doc = _value(argument)
        return doc | {"key_spec_index": 0} if argument.names else doc
    if argument.syntax:
        # Its text is the whole of it, which tools would repeat after the flag `multiple`.
        doc = {"name": argument.label, "type": "string", "display_text": argument.syntax}
        return doc if argument.count_min else doc | {"flags": OPTIONAL}
    flags = MULTIPLE if argument.count_min else MULTIPLE | OPTIONAL
    item = _value(argument.item)
    if argument.names:
        item["key_spec_index"] = 0
    if argument.step == 1:
        return item | {"flags": flags}
    pair = [item, {"name": "value", "type": "string"}]
    return {"name": "data", "type": "block", "flags": flags, "arguments": pair}


def _option(option: Option) -> Doc:
    if option.value is None:
        return {"name": option.word.lower(), "type": "pure-token", "token": option.word}
    doc = _value(option.value)
    return {"name": doc.pop("name"), "type": doc.pop("type"), "token": option.word, **doc}


def _expiry(expiry: Expiry) -> Doc:
    forms: list[Doc] = [
        {"name": "seconds", "type": "integer", "token": "TTL"},
        {"name": "unix-time-milliseconds", "type": "unix-time", "token": "PXAT"},
    ]
    if expiry.persist:
        forms.append({"name": "persist", "type": "pure-token", "token": "PERSIST"})
    flags = {} if expiry.required else {"flags": OPTIONAL}
    return {"name": "expiry", "type": "oneof", **flags, "arguments": forms}


def _value(argument: Arg) -> Doc:
    """One token: its name and type; a word of a few is a choice of pure tokens."""
    name = argument.label
    if isinstance(argument, Role):
        return _words(name, [word.decode() for word in ROLES])
    if isinstance(argument, Choice):
        return _words(name, list(argument.words))
    return {"name": name, "type": _type(argument)}


def _words(name: str, words: list[str]) -> Doc:
    return {
        "name": name,
        "type": "oneof",
        "arguments": [{"name": word, "type": "pure-token", "token": word} for word in words],
    }


def _type(argument: Arg) -> str:
    if argument.names:
        return "key"
    if isinstance(argument, Bytes) and argument.name == "pattern":
        return "pattern"
    if isinstance(argument, TimeMs) or (isinstance(argument, KeyExpiry) and argument.absolute):
        return "unix-time"
    if isinstance(argument, (Integer, Cursor, KeyExpiry)):
        return "integer"
    return "double" if isinstance(argument, Float) else "string"
