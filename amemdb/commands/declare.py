"""Declarations: what a command is called, takes and answers, said once.

`@command(...)` on a handler records a `Spec`. Everything else about a command is derived from it: its parser
(`generate` writes one plain function a command), arity, the positions of its names, categories, flags, and the pages
and clients of other parts. Argument kinds live here; the functions that generated parsers call live in `parsing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from amemdb.limits import ID_BYTES_MAX, INT64_MAX, INT64_MIN
from amemdb.protocol.reply import Shape

Access = Literal["read", "write", "connection", "server", "admin"]
Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True)
class Arg:
    """One token. `names` says whether it names an object, which access control and routing must see."""

    name: str
    names: bool = field(default=False, init=False)

    def expression(self, token: str) -> str:
        """Python source that checks the argv element `token` and gives its value."""
        raise NotImplementedError

    @property
    def meaning(self) -> str:
        """What is accepted, in words."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """As it is read in a line of help: `at_ms` is `at-ms`."""
        return self.name.replace("_", "-")


@dataclass(frozen=True)
class Name(Arg):
    """The name of an AMEM object or of an entry in one: 1 to 1,024 bytes. `entry` names nothing by itself."""

    entry: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", not self.entry)

    def expression(self, token: str) -> str:
        return f"name({token}, {self.name!r})"

    @property
    def meaning(self) -> str:
        return "1 to 1024 bytes"


@dataclass(frozen=True)
class Key(Arg):
    """The name of a plain key: any bytes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", True)

    def expression(self, token: str) -> str:
        return token

    @property
    def meaning(self) -> str:
        return "any bytes"


@dataclass(frozen=True)
class Bytes(Arg):
    """Any bytes, at least `bytes_min` and at most `bytes_max` of them (0: as many as the protocol takes).

    `secret` keeps the value out of SLOWLOG, MONITOR and logs.
    """

    bytes_min: int = 0
    bytes_max: int = 0
    secret: bool = False

    def expression(self, token: str) -> str:
        if not self.bytes_min and not self.bytes_max:
            return token
        return f"sized({token}, {self.name!r}, {self.bytes_min}, {self.bytes_max})"

    @property
    def meaning(self) -> str:
        return f"{self.bytes_min} to {self.bytes_max} bytes" if self.bytes_max else "any bytes"

    @property
    def is_free_text(self) -> bool:
        """Whether people write sentences here."""
        return self.name in ("content", "text", "value")


def Id(name: str = "id") -> Bytes:
    """The identity of a turn or event, which makes a retry harmless."""
    return Bytes(name, 1, ID_BYTES_MAX)


@dataclass(frozen=True)
class Integer(Arg):
    """A strict integer from `minimum` to `maximum`, both included."""

    minimum: int = INT64_MIN
    maximum: int = INT64_MAX

    def expression(self, token: str) -> str:
        return f"integer({token}, {self.name!r}, {self.minimum}, {self.maximum})"

    @property
    def meaning(self) -> str:
        return f"integer from {self.minimum} to {self.maximum}"


@dataclass(frozen=True)
class Float(Arg):
    """A strict, finite float."""

    def expression(self, token: str) -> str:
        return f"real({token}, {self.name!r})"

    @property
    def meaning(self) -> str:
        return "finite number"


@dataclass(frozen=True)
class Cursor(Arg):
    """The cursor of a SCAN: an unsigned 64-bit integer."""

    def expression(self, token: str) -> str:
        return f"cursor({token})"

    @property
    def meaning(self) -> str:
        return "cursor of the page before, or 0"


@dataclass(frozen=True)
class TimeMs(Arg):
    """A moment in Unix milliseconds, from 0 to 100 years ahead."""

    def expression(self, token: str) -> str:
        return f"moment({token}, {self.name!r}, ctx.now_ms)"

    @property
    def meaning(self) -> str:
        return "Unix milliseconds"


@dataclass(frozen=True)
class KeyExpiry(Arg):
    """When a plain key ends: a number of `unit_ms` from now on or, where `absolute`, since 1970.

    The value is Unix milliseconds, at least 1. Without `past` the number must be positive, as SET demands; EXPIRE takes
    any. Refusals name the `command`.
    """

    command: str = ""
    unit_ms: int = 1000
    absolute: bool = False
    past: bool = False

    def expression(self, token: str) -> str:
        base = "0" if self.absolute else "ctx.now_ms"
        minimum = -(-INT64_MIN // self.unit_ms) if self.past else 1
        return f"key_expiry({token}, {base}, {self.unit_ms}, {minimum}, ctx.now_ms, {self.command!r})"

    @property
    def meaning(self) -> str:
        unit = "seconds" if self.unit_ms == 1000 else "milliseconds"
        return f"Unix {unit}" if self.absolute else unit

    @property
    def label(self) -> str:
        """What is sent, as Redis calls it, and not what the handler gets."""
        unit = "seconds" if self.unit_ms == 1000 else "milliseconds"
        return f"unix-time-{unit}" if self.absolute else unit


@dataclass(frozen=True)
class Role(Arg):
    """`system`, `user`, `assistant` or `tool`, in any case; the value is lower case."""

    def expression(self, token: str) -> str:
        return f"role({token})"

    @property
    def meaning(self) -> str:
        return "system, user, assistant or tool"


@dataclass(frozen=True)
class Json(Arg):
    """A JSON object in UTF-8; the value is the bytes as sent."""

    def expression(self, token: str) -> str:
        return f"json_object({token}, {self.name!r})"

    @property
    def meaning(self) -> str:
        return "JSON object"


@dataclass(frozen=True)
class Choice(Arg):
    """One of a few words, in any case; the value is the lower-case word as bytes."""

    words: tuple[str, ...] = ()

    def expression(self, token: str) -> str:
        return f"choice({token}, {self.name!r}, {tuple(word.encode() for word in self.words)!r})"

    @property
    def meaning(self) -> str:
        return " or ".join(self.words)


@dataclass(frozen=True)
class Vector(Arg):
    """A vector: numbers up to the first option word, or `FP32` and its bytes. The value is unparsed tokens.

    Only the namespace knows the dimension, so the handler makes the array (`amemdb.commands.vectors`). With the option
    `instead` there is no vector: the handler sees to it that there is one or the other.
    """

    instead: str = ""

    @property
    def meaning(self) -> str:
        text = "numbers, or FP32 and little-endian float32 bytes"
        return f"{text}; nothing with {self.instead}" if self.instead else text


@dataclass(frozen=True)
class Rest(Arg):
    """All remaining tokens, at least `count_min`. `item` is the kind of one; `step` 2 makes pairs of them.

    With `step` 2 the value is a flat list whose even elements are of kind `item`. `secret` keeps all tokens, or the
    second of each pair, out of SLOWLOG, MONITOR and logs. Where the handler takes the tokens apart, `syntax` is what
    may be written, for people; without it, the item again and again.
    """

    item: Arg = field(default_factory=lambda: Bytes("value"))
    count_min: int = 1
    step: int = 1
    secret: bool = False
    syntax: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.item.names)

    @property
    def meaning(self) -> str:
        return f"{self.count_min} or more: {self.item.meaning}"


@dataclass(frozen=True)
class Option:
    """A word after the positional arguments, with a value or without (a flag, whose value is True).

    Of the options with one `group` at most one may be given. `repeat` collects a list.
    """

    word: str
    value: Arg | None = None
    group: str = ""
    flag: str = ""

    @property
    def variable(self) -> str:
        """The handler's argument."""
        return self.value.name if self.value is not None else self.flag or self.word.lower()


@dataclass(frozen=True)
class Expiry:
    """`TTL seconds` or `PXAT milliseconds`, and PERSIST where `persist`; argument `expire_at_ms`, None if not given.

    Never is `NO_EXPIRY` (0). One of them must be given where `required`.
    """

    persist: bool = False
    required: bool = False


Argument = Arg | Option | Expiry


@dataclass(frozen=True)
class Spec:
    """One command as declared. `name` is upper case, with `|` before a subcommand."""

    name: str
    arguments: tuple[Argument, ...]
    handler: Handler
    access: Access
    reply: Shape
    family: str
    summary: str
    cost: str
    flags: frozenset[str]

    @property
    def positionals(self) -> list[Arg]:
        """Arguments told by their place."""
        return [argument for argument in self.arguments if isinstance(argument, Arg)]

    @property
    def options(self) -> list[Option | Expiry]:
        """Arguments told by a word."""
        return [argument for argument in self.arguments if not isinstance(argument, Arg)]

    @property
    def option_words(self) -> list[str]:
        """The words of all options, in the order of their declaration."""
        words: list[str] = []
        for option in self.options:
            if isinstance(option, Option):
                words.append(option.word)
            else:
                words += ["TTL", "PXAT", "PERSIST"] if option.persist else ["TTL", "PXAT"]
        return words

    @property
    def first(self) -> int:
        """Index in argv of the first argument: behind the name, and the subcommand if there is one."""
        return 2 if "|" in self.name else 1

    @property
    def arity(self) -> int:
        """As in Redis: exactly that many tokens, the name included, or at least its absolute value if negative."""
        count, open_ended = self.first, bool(self.options)
        for argument in self.positionals:
            if isinstance(argument, Rest):
                count += argument.count_min * argument.step
                open_ended = True
            else:
                count += 1
                open_ended = open_ended or isinstance(argument, Vector)
        return -count if open_ended else count

    def takes(self, count: int) -> bool:
        """Whether a request of `count` tokens has the right number of arguments."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    @property
    def key_range(self) -> tuple[int, int, int]:
        """First and last argv index of a name and the step between them, as `COMMAND` tells it; zeros for none."""
        indexes: list[int] = []
        for index, argument in enumerate(self.positionals, self.first):
            if isinstance(argument, Rest) and argument.names:
                return (indexes or [index])[0], -1, argument.step
            if argument.names:
                indexes.append(index)
        return (indexes[0], indexes[-1], 1) if indexes else (0, 0, 0)

    def names_in(self, argv: list[bytes]) -> Iterator[bytes]:
        """Every token of `argv` that names an object, those behind option words included."""
        index = self.first
        for argument in self.positionals:
            if isinstance(argument, Rest):
                if argument.names:
                    yield from argv[index :: argument.step]
                return
            if isinstance(argument, Vector):
                break
            if argument.names:
                yield argv[index]
            index += 1
        words = {o.word.encode() for o in self.options if isinstance(o, Option) and o.value and o.value.names}
        if words:
            for word, value in zip(argv[index:], argv[index + 1 :], strict=False):
                if word.upper() in words:
                    yield value

    def redacted(self, argv: list[bytes]) -> list[bytes]:
        """`argv` as SLOWLOG, MONITOR and logs may show it: what is declared secret is replaced."""
        shown = list(argv)
        words = {o.word.encode() for o in self.options if isinstance(o, Option) and is_secret(o.value)}
        for index, argument in enumerate(self.positionals, self.first):
            if not is_secret(argument):
                continue
            step = argument.step if isinstance(argument, Rest) else 1
            end = len(argv) if isinstance(argument, Rest) else index + 1
            for at in range(index + step - 1, min(end, len(argv)), step):
                shown[at] = REDACTED
        for at in range(self.first, len(argv) - 1 if words else 0):
            if argv[at].upper() in words:
                shown[at + 1] = REDACTED
        return shown

    @property
    def categories(self) -> list[str]:
        """The access categories, without the `@`."""
        names = {"server": [], "admin": ["admin", "dangerous"]}.get(self.access, [self.access])
        if "dangerous" in self.flags:
            names = [*names, "dangerous"]
        return list(dict.fromkeys([*names, self.family, "fast" if "fast" in self.flags else "slow"]))

    @property
    def grows(self) -> bool:
        """Whether it can make the data grow, so that it is refused beyond `maxmemory`."""
        return self.access == "write" and "frees" not in self.flags

    @property
    def command_flags(self) -> list[str]:
        """The flags that `COMMAND` tells; what is refused inside MULTI is `no_multi` to Redis."""
        flags = {"read": ["readonly"], "write": ["write"], "admin": ["admin"]}.get(self.access, [])
        flags += ["denyoom"] if self.grows else []
        flags += [flag for flag in ("fast", "noscript", "loading", "no_auth", "blocking") if flag in self.flags]
        return [*flags, "no_multi"] if "refuse_multi" in self.flags else flags


REDACTED = b"(redacted)"


def is_secret(argument: Arg | None) -> bool:
    """Whether what is sent for `argument` must not be shown to others."""
    return isinstance(argument, (Bytes, Rest)) and argument.secret


REGISTRY: dict[str, Spec] = {}
"""Every command declared so far, by name, in the order of declaration."""


def command(
    name: str,
    *arguments: Argument,
    access: Access,
    reply: Shape,
    family: str,
    summary: str,
    cost: str = "O(1)",
    flags: tuple[str, ...] = (),
) -> Callable[[H], H]:
    """Declare the handler below as the command `name` (`CONFIG|GET` for a subcommand).

    Flags: `no_auth` (allowed before login), `no_multi` (run at once, even inside MULTI), `loading` (allowed while
    the data is being loaded), `fast`, `noscript`, `refuse_multi` (an error inside MULTI), `dangerous` (its category),
    `frees` (a write that adds next to nothing to the data, and goes on when no more memory may be used),
    `native` (its plain shape is also served by `amemdb.engine._hot`, by a function named like the handler).
    O(1) and O(log n) are `fast`.
    """

    def declare(handler: H) -> H:
        assert name not in REGISTRY, f"{name} is declared twice"
        speed = {"fast"} if cost.startswith(("O(1)", "O(log")) else set()
        REGISTRY[name] = Spec(name, arguments, handler, access, reply, family, summary, cost, frozenset(flags) | speed)
        return handler

    return declare
