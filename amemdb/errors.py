"""The three kinds of failure, never mixed.

* `CommandError`: the caller's mistake. Raised before the first record is emitted; nothing changed,
  nothing is logged. It is the only exception that becomes an error reply.
* `ProtocolError`: bytes that are no request. The connection is told why and closed.
* `StorageError` and its kin: the world's failure, handled where the policy lives.

A bug of ours is an `AssertionError`, or whatever Python raises by itself: it stops the process.
"""

from __future__ import annotations

from amemdb.limits import ERROR_ARG_BYTES_MAX

_PRINTABLE = bytes(b if 32 <= b < 127 else ord("?") for b in range(256))


def printable(data: bytes, bytes_max: int = ERROR_ARG_BYTES_MAX) -> str:
    """`data` as text that is safe inside one line: cut at `bytes_max`, non-printables as `?`."""
    return bytes(data[:bytes_max]).translate(_PRINTABLE).decode("ascii")


class CommandError(Exception):
    """A refusal of one command: `code` is the first word of the error line, `message` the rest.

    `message` must be one line of printable text: pass what a caller sent through `printable`.
    """

    def __init__(self, message: str, code: str = "ERR") -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def line(self) -> bytes:
        """The error as it goes over the wire."""
        return f"-{self.code} {self.message}\r\n".encode("ascii", "replace")


class ProtocolError(Exception):
    """The bytes received are not a request of the protocol; the text says what was wrong."""


class StorageError(Exception):
    """The data folder cannot be used; the text names the file and what to do."""


class CorruptLogError(StorageError):
    """Damage below what was known durable. `file` and `position` (bytes) say where."""

    def __init__(self, file: str, position: int, reason: str) -> None:
        super().__init__(
            f"{file} is damaged at byte {position}: {reason}. Data that was known to be on disk is affected, "
            f"so nothing was changed and the server does not start. 'amemdb check' tells what is left."
        )
        self.file = file
        self.position = position
        self.reason = reason


def wrong_arity(command: str) -> CommandError:
    """The error of a command that was sent too few or too many arguments."""
    return CommandError(f"wrong number of arguments for '{command.lower()}' command")


def wrong_type() -> CommandError:
    """The error of a command on a key of another type."""
    return CommandError("Operation against a key holding the wrong kind of value", "WRONGTYPE")
