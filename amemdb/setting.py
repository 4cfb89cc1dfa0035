"""What a setting is: a name, a kind of value with its bounds, a default and what it means.

A kind reads a value from text (flag, environment, CONFIG SET) or from a TOML value, and writes it as the text that
CONFIG GET gives. The settings themselves, and where their values come from, are in `amemdb.config`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from amemdb.errors import printable
from amemdb.limits import INT64_MAX

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,19})(b|k|kb|m|mb|g|gb)?", re.ASCII)
_SIZE_UNITS = {None: 1, "b": 1, "k": 10**3, "kb": 1 << 10, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}
_YES = {"yes": True, "no": False}


class Unfit(Exception):
    """A value is not of its setting's kind, or out of its bounds. Whoever asked knows how to say where."""


@dataclass(frozen=True)
class Kind:
    """How a value is written. This one is text of any sort; the others inherit from it."""

    @property
    def expected(self) -> str:
        """What is accepted, in words that follow "expected"."""
        return "text"

    @property
    def metavar(self) -> str:
        """What stands for the value in the help of the command line."""
        return "TEXT"

    def parse(self, text: str) -> Any:
        """The value that `text` spells, or `Unfit`."""
        if "\0" in text:
            raise Unfit
        return text

    def accept(self, value: Any) -> Any:
        """A value of TOML or Python as the value of the setting, or `Unfit`."""
        if not isinstance(value, str):
            raise Unfit
        return self.parse(value)

    def text(self, value: Any) -> str:
        """The value as CONFIG GET tells it; `parse` reads it back."""
        return str(value)

    def label(self, value: Any) -> str:
        """The value as help and documentation show it; `parse` reads this as well."""
        return self.text(value)


@dataclass(frozen=True)
class Word(Kind):
    """Text that is not empty and has no blanks or control characters, as an address."""

    @property
    def expected(self) -> str:
        return "text without blanks, not empty"

    def parse(self, text: str) -> str:
        if not text or not text.isprintable() or " " in text:
            raise Unfit
        return text


@dataclass(frozen=True)
class Folder(Kind):
    """The path of a folder."""

    @property
    def expected(self) -> str:
        return "the path of a folder"

    @property
    def metavar(self) -> str:
        return "PATH"

    def parse(self, text: str) -> str:
        if not text or "\0" in text:
            raise Unfit
        return text


@dataclass(frozen=True)
class Integer(Kind):
    """An integer from `minimum` to `maximum`, both included."""

    minimum: int = 0
    maximum: int = INT64_MAX

    @property
    def expected(self) -> str:
        if self.maximum == INT64_MAX:
            return f"an integer of at least {self.minimum}"
        return f"an integer from {self.minimum} to {self.maximum}"

    @property
    def metavar(self) -> str:
        return "N"

    def parse(self, text: str) -> int:
        if _INTEGER.fullmatch(text) is None:
            raise Unfit
        return self._within(int(text))

    def accept(self, value: Any) -> int:
        if type(value) is not int:
            raise Unfit
        return self._within(value)

    def _within(self, value: int) -> int:
        if not self.minimum <= value <= self.maximum:
            raise Unfit
        return value


@dataclass(frozen=True)
class Size(Integer):
    """A number of bytes, which may be written with a unit: `64mb` is 64 MiB, `64m` is 64 million, as in Redis."""

    @property
    def expected(self) -> str:
        bounds = f"of at least {self.label(self.minimum)}"
        if self.maximum != INT64_MAX:
            bounds = f"from {self.label(self.minimum)} to {self.label(self.maximum)}"
        return f"a size {bounds}, in bytes or with a unit like 64mb"

    @property
    def metavar(self) -> str:
        return "BYTES"

    def parse(self, text: str) -> int:
        match = _SIZE.fullmatch(text.lower())
        if match is None:
            raise Unfit
        return self._within(int(match[1]) * _SIZE_UNITS[match[2]])

    def accept(self, value: Any) -> int:
        return self.parse(value) if isinstance(value, str) else super().accept(value)

    def label(self, value: Any) -> str:
        for unit in ("gb", "mb", "kb"):
            if value and value % _SIZE_UNITS[unit] == 0:
                return f"{value // _SIZE_UNITS[unit]}{unit}"
        return str(value)


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words, in any case; the value is in lower case."""

    words: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        *others, last = self.words
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def metavar(self) -> str:
        return "|".join(self.words)

    def parse(self, text: str) -> str:
        word = text.lower()
        if word not in self.words:
            raise Unfit
        return word


@dataclass(frozen=True)
class Switch(Kind):
    """`yes` or `no`, in TOML also `true` or `false`; the value is a bool."""

    @property
    def expected(self) -> str:
        return "yes or no"

    @property
    def metavar(self) -> str:
        return "yes|no"

    def parse(self, text: str) -> bool:
        value = _YES.get(text.lower())
        if value is None:
            raise Unfit
        return value

    def accept(self, value: Any) -> bool:
        return value if isinstance(value, bool) else bool(super().accept(value))

    def text(self, value: Any) -> str:
        return "yes" if value else "no"


@dataclass(frozen=True)
class Setting:
    """One setting. `doc` is a line of help; `unit` is what a plain number counts.

    `changeable`: CONFIG SET may change it while the server runs. `secret`: its value is shown to nobody but the
    administrator who asks for it by CONFIG GET. `fact`: tools ask for it, nobody can set it.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    unit: str = ""
    changeable: bool = False
    secret: bool = False
    fact: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "AMEMDB_" + self.name.upper().replace("-", "_")

    def refusal(self, value: Any) -> str:
        """One line on why `value` is not taken; the value of a secret does not show."""
        if self.secret:
            return f"expected {self.kind.expected}"
        shown = value if isinstance(value, str) else repr(value)
        if isinstance(value, bool):
            shown = shown.lower()  # as TOML writes it
        return f"expected {self.kind.expected}, got '{printable(shown.encode('utf-8', 'replace'))}'"
