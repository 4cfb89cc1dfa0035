"""Errors: redis-py's classes, and beneath them ours for what a program may want to tell apart.

The server says what is wrong in one line of text. `TABLE` is the one place that reads those lines; `specific` turns
redis-py's exception into ours, for a single command as for each reply of a pipeline or transaction. `explain` notes
on a single command's what the call knows and the server did not say; redis-py names the command in those of a pipeline.
"""

from __future__ import annotations

import re
from typing import Any

from redis.exceptions import AuthenticationError, DataError, RedisError, ResponseError


class ArgumentError(DataError, ValueError):
    """A value that cannot be sent: nothing left this process."""


class UndecodableReply(ResponseError):
    """A reply arrived whole and is not what was asked to be made of it, as bytes that are no text for `client.typed`.

    A `ResponseError`, as redis-py's pipelines go on reading after no other: the replies behind it would be taken for
    those of the next command.
    """


class AmemError(ResponseError):
    """A refusal by the server that a program may handle; nothing was changed."""

    def __init__(self, *args: Any, status_code: str | None = None) -> None:
        super().__init__(*args, status_code=status_code)


class SessionNotFound(AmemError):
    """The session does not exist, or has expired."""


class SessionExists(AmemError):
    """A session of that name exists, and `nx` asked for a new one."""


class NamespaceNotFound(AmemError):
    """The agent has no semantic memory: `amem_sem_create` comes first."""


class NamespaceExists(AmemError):
    """The agent's semantic memory has another dimension, metric or model."""


class DimensionMismatch(AmemError):
    """The vector does not have the dimension of the agent's semantic memory, which is `expected`."""

    expected: int

    def __init__(self, *args: Any, status_code: str | None = None) -> None:
        super().__init__(*args, status_code=status_code)
        self.expected = _number_in(args)


class VersionMismatch(AmemError):
    """The summary has been changed meanwhile: its version is `have`, not the one that was given."""

    have: int

    def __init__(self, *args: Any, status_code: str | None = None) -> None:
        super().__init__(*args, status_code=status_code)
        self.have = _number_in(args)


class WrongTypeError(AmemError):
    """The key holds a value of another type."""


class MisconfError(AmemError):
    """The server cannot write its log, and takes no writes until it can."""


TABLE: tuple[tuple[str, type[AmemError]], ...] = (
    ("session not found", SessionNotFound),
    ("session already exists", SessionExists),
    ("semantic memory not found", NamespaceNotFound),
    ("semantic memory already exists", NamespaceExists),
    ("vector must have ", DimensionMismatch),
    ("version mismatch: have ", VersionMismatch),
    ("WRONGTYPE ", WrongTypeError),
    ("MISCONF ", MisconfError),
)
"""How the text of an error begins, as redis-py gives it: a code that redis-py knows, such as ERR, is cut off."""

NO_NAMESPACE_TO_FIT = "vector must have 1 to "
"""A vector of no possible dimension, sent to an agent without a memory: nothing that it could differ from."""


def specific(error: ResponseError) -> ResponseError:
    """The error as ours where the table has it, else as it is. Only redis-py's plain `ResponseError` is looked at."""
    if type(error) is not ResponseError or not error.args:
        return error
    message = str(error.args[0])
    for beginning, kind in TABLE:
        if message.startswith(beginning) and not message.startswith(NO_NAMESPACE_TO_FIT):
            return kind(message, status_code=error.status_code)
    return error


NAME_CHARS_MAX = 80
"""How much of a name is repeated in an error."""
EXPLAINED = (SessionNotFound, NamespaceNotFound, AuthenticationError)
"""What `explain` has something to say about."""
REMEDIES: dict[type[RedisError], str] = {
    SessionNotFound: "has expired or was never opened: amem_conv_create opens it",
    NamespaceNotFound: "has no semantic memory: amem_sem_create makes it",
}
"""What to do about the name that a call begins with."""
LOGIN_NEEDED = ("HELLO must be called", "Authentication required")
"""How a server that wants a password answers who came with none."""


def explain(error: RedisError, call: tuple[Any, ...]) -> None:
    """Add a note on what can be done about it, as far as the arguments of `call` tell; the text is the server's."""
    if isinstance(error, AuthenticationError):
        if str(error).startswith(LOGIN_NEEDED):
            error.add_note("the server asks for a password: pass password=, or put it into the URL")
    elif len(call) > 1 and " " not in str(call[0]):  # what is one string of words, redis-py takes apart itself
        name = call[1].decode("utf-8", "backslashreplace") if isinstance(call[1], bytes) else str(call[1])
        shown = name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}…"
        error.add_note(f"{shown!r} {REMEDIES[type(error)]}")


def _number_in(args: tuple[Any, ...]) -> int:
    found = re.search(r"(?:components|have) (\d+)|have (\d+) components", str(args[0]) if args else "")
    return int(found[1] or found[2]) if found else -1
