"""Writes the client's generated modules from the declarations of the AMEM commands.

`_requests` makes tokens of Python arguments, `_replies` is the table of reply shapes, `_sync_commands`,
`_async_commands` and `_pipeline_commands` are the typed methods. They are checked in; a test regenerates and compares.
Run it with `python -m amemdb.client.generate`.

A build step: the only module of the client that knows the server's declarations. What they do not tell (names that
HotKV's client had first, which integers mean yes and no) is in the tables below; a test proves that nothing in them is
stale and that every integer reply is in one of the two sets.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from amemdb.client import shapes
from amemdb.commands import families
from amemdb.commands.declare import (
    REGISTRY,
    Arg,
    Bytes,
    Choice,
    Cursor,
    Expiry,
    Float,
    Integer,
    Json,
    Name,
    Option,
    Role,
    Spec,
    TimeMs,
    Vector,
)
from amemdb.protocol.reply import BULK, COMPONENT, DOUBLE, INTEGER, OK, ArrayOf, Labelled, MapOf, Shape, TupleOf

NAMES = {
    "agent": "agent_id",
    "at_ms": "at",
    "budget_tokens": "tokens",
    "dim": "dimensions",
    "from_ms": "from_ts",
    "maxage_s": "maxage",
    "pattern": "match",
    "session": "session_id",
    "to_ms": "to_ts",
    "tokens": "vector",
    "version": "if_version",
}
"""The names of arguments, where they are not those of the declaration."""

NAMES_OF = {
    ("AMEM.EPIS.LOG", "type"): "event_type",
    ("AMEM.SUMMARY.SET", "text"): "summary",
    ("AMEM.SUMMARY.APPEND", "line"): "extra",
}
"""The same for one command."""

KINDS = {
    "from_ms": "moment",
    "to_ms": "moment",
    "maxage_s": "seconds",
    "metadata": "json",
}
"""How an argument is sent, where the declaration, which looks at bytes, does not tell."""

BOOLEANS = {
    "AMEM.CONV.CLEAR",
    "AMEM.CONV.DROP",
    "AMEM.CONV.EXPIRE",
    "AMEM.EPIS.CLEAR",
    "AMEM.SEM.DROP",
    "AMEM.SEM.FORGET",
    "AMEM.SUMMARY.DROP",
    "AMEM.WORK.CLEAR",
    "AMEM.WORK.DEL",
}
"""Integer replies that mean yes and no."""

INTEGERS = {"AMEM.EPIS.RETAIN", "AMEM.SUMMARY.APPEND", "AMEM.SUMMARY.SET", "AMEM.WORK.TTL"}
"""Integer replies that are numbers."""

WORDS = {
    *(("AMEM.SEM.INFO", label) for label in ("metric", "index", "quant", "model", "lang")),
    ("AMEM.SEM.RECALL", "left_out"),
}
"""Fields of the protocol's own vocabulary that are text whatever the client decodes."""


@dataclass(frozen=True)
class Returns:
    """What a method returns, for type checkers. `flagged` is the type with the flag `flag`."""

    type: str
    flag: str = ""
    flagged: str = ""


TURNS = Returns("list[TurnDict[Text]]", "with_meta", "list[TurnWithMetaDict[Text]]")
RETURNS = {
    "AMEM.CONV.GET": TURNS,
    "AMEM.CONV.WINDOW": TURNS,
    "AMEM.CONV.INFO": Returns("SessionInfoDict"),
    "AMEM.SEM.RECALL": Returns("list[RecalledDict[Text]]", "with_meta", "list[RecalledWithMetaDict[Text]]"),
    "AMEM.SEM.GET": Returns("FactDict[Text] | None", "with_vector", "FactWithVectorDict[Text] | None"),
    "AMEM.SEM.INFO": Returns("NamespaceInfoDict"),
    "AMEM.WORK.GETALL": Returns("dict[Text, Text]"),
    "AMEM.EPIS.QUERY": Returns("list[EventDict[Text]]"),
    "AMEM.EPIS.PAGE": Returns(
        "tuple[str, list[EventDict[Text]]]", "with_meta", "tuple[str, list[EventWithMetaDict[Text]]]"
    ),
    "AMEM.EPIS.STATS": Returns("LogStatsDict", "with_meta", "LogStatsWithMetaDict"),
    "AMEM.SUMMARY.GET": Returns("tuple[Text, int, int] | None"),
    "AMEM.SUMMARY.HISTORY": Returns("list[SummaryVersionDict[Text]]"),
    "AMEM.SEARCH": Returns("list[FoundDict[Text]]"),
}
"""Types of replies that have fields, where a plain shape does not say it all."""


@dataclass(frozen=True)
class Rich:
    """A method of the typed view: its type, the function of `results` that builds it, the flag that is always on."""

    type: str
    build: str
    flag: str = ""


RICH = {
    "AMEM.CONV.GET": Rich("list[results.Turn]", "turns", "with_meta"),
    "AMEM.CONV.WINDOW": Rich("list[results.Turn]", "turns", "with_meta"),
    "AMEM.SEM.RECALL": Rich("list[results.Fact]", "facts", "with_meta"),
    "AMEM.SEM.GET": Rich("results.Fact | None", "fact"),
    "AMEM.EPIS.QUERY": Rich("list[results.Event]", "events"),
    "AMEM.EPIS.PAGE": Rich("tuple[str, list[results.Event]]", "event_page", "with_meta"),
    "AMEM.SUMMARY.GET": Rich("results.Summary | None", "summary"),
    "AMEM.SUMMARY.HISTORY": Rich("list[results.Summary]", "summaries"),
    "AMEM.SEARCH": Rich("list[results.Found]", "found"),
}

KIND_OF = {
    Name: "text",
    Bytes: "text",
    Role: "text",
    Integer: "integer",
    Float: "number",
    Cursor: "integer",
    TimeMs: "moment",
    Json: "json",
    Vector: "vector",
    Choice: "choice",
}
TYPE_OF = {
    "text": "ValueT",
    "integer": "int",
    "number": "float",
    "moment": "MomentT",
    "seconds": "LifeSpanT",
    "json": "JsonT",
    "vector": "VectorT",
}
FUNCTION_OF = {"choice": "text", "json": "json_text"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method. `lines` are the source of its part of a request, an option's under a condition."""

    name: str
    type: str
    default: str = ""
    request: tuple[str, ...] = ()

    @property
    def declaration(self) -> str:
        """As it stands in a signature."""
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True)
class Method:
    """A command as the client has it."""

    spec: Spec
    positionals: tuple[Parameter, ...]
    options: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        return self.spec.name.lower().replace(".", "_")

    @property
    def request(self) -> str:
        """The function of `_requests`."""
        return self.name.removeprefix("amem_")

    @property
    def returns(self) -> Returns:
        return RETURNS.get(self.spec.name) or Returns(type_of(self.spec.reply, self.spec.name))

    @property
    def paged(self) -> Returns | None:
        """The types of one item, for a command that gives pages."""
        if self.spec.name.endswith(".SCAN"):
            return Returns("Text")
        if self.spec.name.endswith(".PAGE"):
            return Returns("EventDict[Text]", "with_meta", "EventWithMetaDict[Text]")
        return None

    def signature(
        self, *, owner: str = "self", without: tuple[str, ...] = (), changed: dict[str, str] | None = None
    ) -> str:
        """The parameters; `changed` gives other text for some."""
        changed = changed or {}
        parts = [owner] if owner else []
        parts += [p.declaration for p in self.positionals if p.name not in without]
        options = [changed.get(p.name, p.declaration) for p in self.options if p.name not in without]
        return ", ".join([*parts, *(["*"] if options else []), *options])

    def call(self, fixed: dict[str, str] | None = None) -> str:
        """The call of the request's function with the parameters passed on, or `fixed` expressions for some."""
        fixed = fixed or {}
        parts = [fixed.get(p.name, p.name) for p in self.positionals]
        parts += [f"{p.name}={fixed.get(p.name, p.name)}" for p in self.options]
        return f"_requests.{self.request}({', '.join(parts)})"


def methods() -> list[Method]:
    """Every AMEM command, in the order of their declaration."""
    assert families.FAMILIES
    specs = [spec for spec in REGISTRY.values() if spec.name.startswith("AMEM.")]
    return [Method(spec, tuple(_positionals(spec)), tuple(_options(spec))) for spec in specs]


def python_name(spec: Spec, name: str) -> str:
    """What the method calls the argument `name`."""
    return NAMES_OF.get((spec.name, name)) or NAMES.get(name, name)


def _typed(argument: Arg) -> tuple[str, str]:
    """The type of an argument and the function of `wire` that sends it."""
    kind = KINDS.get(argument.name) or KIND_OF[type(argument)]
    if isinstance(argument, Choice):
        kind_type = f"Literal[{', '.join(repr(word) for word in argument.words)}]"
    else:
        kind_type = TYPE_OF[kind]
    return kind_type, FUNCTION_OF.get(kind, kind)


def _positionals(spec: Spec) -> list[Parameter]:
    found = []
    for argument in spec.positionals:
        name = python_name(spec, argument.name)
        if spec.name == "AMEM.EPIS.PAGE" and name == "cursor":
            found.append(Parameter(name, "ValueT", '"0"', ('wire.text(cursor, "cursor")',)))
            continue
        kind_type, function = _typed(argument)
        default = "0" if isinstance(argument, Cursor) else ""
        token = f"*wire.vector({name})" if function == "vector" else f"wire.{function}({name}, {name!r})"
        if isinstance(argument, Vector) and argument.instead:
            kind_type, default, token = f"{kind_type} | None", "None", f"*wire.vector_if_given({name})"
        found.append(Parameter(name, kind_type, default, (token,)))
    return found


def _options(spec: Spec) -> list[Parameter]:
    found: list[Parameter] = []
    for option in spec.options:
        if isinstance(option, Expiry):
            found += _expiry(option)
        elif option.value is None:
            name = python_name(spec, option.variable)
            found.append(Parameter(name, "bool", "False", (f"if {name}:", f'    request.append("{option.word}")')))
        else:
            found.append(_option(spec, option, option.value))
    return found


def _option(spec: Spec, option: Option, value: Arg) -> Parameter:
    name = python_name(spec, option.variable)
    kind_type, function = _typed(value)
    token = f"wire.{function}({name}, {name!r})"
    lines = (f"if {name} is not None:", f'    request += ("{option.word}", {token})')
    return Parameter(name, f"{kind_type} | None", "None", lines)


def _expiry(option: Expiry) -> list[Parameter]:
    call = "wire.new_expiry(ttl, pxat, persist)" if option.persist else "wire.expiry(ttl, pxat)"
    found = [
        Parameter("ttl", "LifeSpanT | None", "None", (f"request += {call}",)),
        Parameter("pxat", "MomentT | None", "None"),
    ]
    return [*found, Parameter("persist", "bool", "False")] if option.persist else found


# -- reply shapes -----------------------------------------------------------------------------------


def type_of(shape: Shape, command: str) -> str:
    """The Python type of a plain shape."""
    if shape is OK:
        return "bool"
    if shape is INTEGER:
        return "bool" if command in BOOLEANS else "int"
    if shape is BULK:
        return "Text | None"
    if isinstance(shape, ArrayOf) and shape.item is BULK:
        return "list[Text]"
    assert command.endswith(".SCAN"), f"{command}: what its method returns is to be told in RETURNS"
    return "tuple[int, list[Text]]"


def shape_of(shape: Shape, command: str, label: str = "") -> str:
    """The expression that makes the function of `replies` for a declared shape."""
    if shape is OK:
        return "ok"
    if shape is INTEGER:
        return "boolean" if command in BOOLEANS else "unchanged"
    if shape is BULK:
        return "word" if (command, label) in WORDS else "unchanged"
    if shape in (DOUBLE, COMPONENT):
        return "double"
    if isinstance(shape, ArrayOf):
        return f"array({shape_of(shape.item, command)})"
    if isinstance(shape, Labelled):
        fields = ", ".join(f"{label}={shape_of(item, command, label)}" for label, item in shape.fields.items())
        return f"labelled({fields})"
    if isinstance(shape, MapOf):
        return "mapping"
    assert isinstance(shape, TupleOf), f"{command}: a reply of {shape.describe()} has no shape in the client"
    items = [shape_of(item, command) for item in shape.items]
    if command.endswith(".SCAN"):
        items[0] = "cursor"
    elif command.endswith(".PAGE"):
        items[0] = "word"
    return f"fixed({', '.join(items)})"


# -- the modules ------------------------------------------------------------------------------------

WARNING = "Generated by `amemdb.client.generate`: do not edit."


def requests_module() -> str:
    """`_requests`: one function a command, from Python values to tokens."""
    lines = [f'"""The requests of the AMEM commands, as tokens. {WARNING}"""', "from __future__ import annotations"]
    lines += ["from typing import TYPE_CHECKING, Literal", "from amemdb.client import wire"]
    lines += ["from amemdb.client.wire import JsonT, LifeSpanT, MomentT, Tokens, ValueT"]
    lines += ["if TYPE_CHECKING:", "    from amemdb.client.wire import VectorT"]
    for method in methods():
        tokens = ", ".join([f'"{method.spec.name}"', *(p.request[0] for p in method.positionals)])
        lines += [f"def {method.request}({method.signature(owner='')}) -> Tokens:", f'    """{method.spec.name}"""']
        if not method.options:
            lines += [f"    return [{tokens}]"]
            continue
        lines += [f"    request: Tokens = [{tokens}]"]
        lines += [f"    {line}" for option in method.options for line in option.request]
        lines += ["    return request"]
    return "\n".join(lines)


def replies_module() -> str:
    """`_replies`: the response callbacks by command."""
    lines = [f'"""The reply of each AMEM command, as redis-py calls for it. {WARNING}"""']
    lines += ["from __future__ import annotations", "from collections.abc import Callable", "from typing import Any"]
    lines += [
        "from amemdb.client.replies import array, boolean, callback, cursor, double, fixed, labelled, mapping, ok"
    ]
    lines += ["from amemdb.client.replies import unchanged, word"]
    lines += ["CALLBACKS: dict[str, Callable[..., Any]] = {"]
    lines += [f'    "{m.spec.name}": callback({shape_of(m.spec.reply, m.spec.name)}),' for m in methods()]
    return "\n".join([*lines, "}"])


def commands_module(kind: str) -> str:
    """The module of methods of one kind of client: `sync`, `async` or `pipeline`."""
    title, about = {
        "sync": ("SyncCommands", "The methods of `amemdb.Client`."),
        "async": ("AsyncCommands", "The methods of `amemdb.asyncio.Client`."),
        "pipeline": ("PipelineCommands", "The methods of both kinds of pipeline, which queue."),
    }[kind]
    generic = "Generic[Text]" if kind != "pipeline" else ""
    lines = [f'"""{about} {WARNING}"""', "from __future__ import annotations", _imports(kind)]
    lines += [f"class {title}({generic}):" if generic else f"class {title}:"]
    lines += [f'    """A method for every AMEM command. {_HOW[kind]}"""']
    lines += [
        "    if TYPE_CHECKING:",
        f"        {_ASYNC[kind]}def execute_command(self, *args: Any, **options: Any) -> Any: ...",
    ]
    for method in methods():
        lines += _method(method, kind)
        if method.paged and kind != "pipeline":
            lines += _pages(method, kind, method.paged)
    lines += [f"class {title.removesuffix('Commands')}Typed(results.View):"]
    lines += [f'    """The methods that read memory, with richer results.{_QUEUED[kind]}"""']
    for method in methods():
        if method.spec.name in RICH:
            lines += _rich(method, kind, RICH[method.spec.name])
    if kind != "pipeline":
        page = next(method for method in methods() if method.spec.name == "AMEM.EPIS.PAGE")
        lines += _pages(page, kind, Returns("results.Event"), ("with_meta",))
    return "\n".join(lines)


_ASYNC = {"sync": "", "async": "async ", "pipeline": ""}
_AWAIT = {"sync": "", "async": "await ", "pipeline": ""}
_QUEUED = {"sync": "", "async": "", "pipeline": " Each queues its command."}
_HOW = {
    "sync": "Text is `bytes`, or `str` with `decode_responses=True`.",
    "async": "Text is `bytes`, or `str` with `decode_responses=True`.",
    "pipeline": "Each queues its command; after WATCH and before MULTI it runs at once.",
}


def _imports(kind: str) -> str:
    iterators = {"sync": "from collections.abc import Iterator", "async": "from collections.abc import AsyncIterator"}
    dicts = (
        []
        if kind == "pipeline"
        else sorted(name for name in vars(shapes) if name.endswith("Dict") and name != "TypedDict")
    )
    lines = [iterators.get(kind, "")]
    lines += ["from typing import TYPE_CHECKING, Any, " + ("Generic, Literal, overload" if dicts else "Literal")]
    lines += ["from amemdb.client import _requests, results"]
    if dicts:
        lines += [f"from amemdb.client.shapes import {', '.join([*dicts, 'Text'])}"]
    lines += ["from amemdb.client.wire import JsonT, LifeSpanT, MomentT, ValueT"]
    return "\n".join([*lines, "if TYPE_CHECKING:", "    from amemdb.client.wire import VectorT"])


def _method(method: Method, kind: str) -> list[str]:
    returns, head = method.returns, f"    {_ASYNC[kind]}def {method.name}"
    if kind == "pipeline":
        return [
            f"{head}({method.signature()}) -> Any:",
            f'        """{method.spec.summary}"""',
            f"        return self.execute_command(*{method.call()})",
        ]
    lines: list[str] = []
    result = returns.type
    if returns.flag:
        result = f"{returns.type} | {returns.flagged}"
        for flag_type, its_type in _flag_types(returns):
            signature = method.signature(changed={returns.flag: f"{returns.flag}: {flag_type}"})
            lines += ["    @overload", f"{head}({signature}) -> {its_type}: ..."]
    return [
        *lines,
        f"{head}({method.signature()}) -> {result}:",
        f'        """{method.spec.summary}"""',
        f"        result: {result} = {_AWAIT[kind]}self.execute_command(*{method.call()})",
        "        return result",
    ]


def _rich(method: Method, kind: str, rich: Rich) -> list[str]:
    call = f"self._call({method.call({rich.flag: 'True'} if rich.flag else None)}, results.{rich.build})"
    head = f"    {_ASYNC[kind]}def {method.name}({method.signature(without=(rich.flag,) if rich.flag else ())})"
    if kind == "pipeline":
        return [f"{head} -> Any:", f'        """{method.spec.summary}"""', f"        return {call}"]
    return [
        f"{head} -> {rich.type}:",
        f'        """{method.spec.summary}"""',
        f"        result: {rich.type} = {_AWAIT[kind]}{call}",
        "        return result",
    ]


def _pages(method: Method, kind: str, items: Returns, without: tuple[str, ...] = ()) -> list[str]:
    """The method that goes through all pages, one item at a time; `items` are the types of one."""
    iterator, head = ("Iterator" if kind == "sync" else "AsyncIterator"), f"def {method.name}_iter"
    without = ("cursor", *without)
    end = '"0"' if method.spec.name.endswith(".PAGE") else "0"
    arguments = [p.name for p in method.positionals if p.name != "cursor"]
    arguments = [*arguments, "cursor", *(f"{p.name}={p.name}" for p in method.options if p.name not in without)]
    lines, item = [], items.type
    if items.flag:
        item = f"{items.type} | {items.flagged}"
        for flag_type, its_type in _flag_types(items):
            signature = method.signature(without=without, changed={items.flag: f"{items.flag}: {flag_type}"})
            lines += ["    @overload", f"    {head}({signature}) -> {iterator}[{its_type}]: ..."]
    each = ["yield from items"] if kind == "sync" else ["for item in items:", "    yield item"]
    return [
        *lines,
        f"    {_ASYNC[kind]}{head}({method.signature(without=without)}) -> {iterator}[{item}]:",
        f'        """Every item of `{method.name}`, which is asked for page after page."""',
        f"        cursor = {end}",
        "        while True:",
        f"            cursor, items = {_AWAIT[kind]}self.{method.name}({', '.join(arguments)})",
        *(f"            {line}" for line in each),
        f"            if cursor == {end}:",
        "                return",
    ]


def _flag_types(returns: Returns) -> list[tuple[str, str]]:
    """How a flag may be given, each with what is returned then."""
    either = f"{returns.type} | {returns.flagged}"
    return [("Literal[False] = False", returns.type), ("Literal[True]", returns.flagged), ("bool", either)]


def formatted(source: str) -> str:
    """`source` as ruff lays it out, so that the generated modules read like the others."""
    command = [sys.executable, "-m", "ruff"]
    for step in (["check", "--fix-only", "--quiet", "--select", "I,F401", "-"], ["format", "--quiet", "-"]):
        name = ["--stdin-filename", str(Path(__file__).with_name("_source.py"))]
        done = subprocess.run(
            [*command, *step[:-1], *name, "-"], input=source, capture_output=True, text=True, check=True
        )
        source = done.stdout
    return source


def modules() -> dict[str, str]:
    """The source of each generated module by the name of its file."""
    sources = {"_requests.py": requests_module(), "_replies.py": replies_module()}
    sources |= {f"_{kind}_commands.py": commands_module(kind) for kind in ("sync", "async", "pipeline")}
    return {name: formatted(source) for name, source in sources.items()}


def main() -> None:
    """Write the modules beside this one."""
    for name, source in modules().items():
        Path(__file__).with_name(name).write_text(source, encoding="utf-8")


if __name__ == "__main__":
    main()
