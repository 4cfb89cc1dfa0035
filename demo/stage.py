"""What the audience sees: a line for what is asked of the client, and lines for what comes back."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np
import redis

BOLD, DIM, CYAN, GREEN, RED = "1", "2", "36", "32", "31"
WIDTH_MAX = 110


class Stage:
    """Writes to `out`, in colour if that is a terminal that wants it (NO_COLOR says that none does)."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._colour = out.isatty() and not os.environ.get("NO_COLOR")
        self._width = min(WIDTH_MAX, shutil.get_terminal_size((WIDTH_MAX, 24)).columns)

    def act(self, title: str) -> None:
        """A heading."""
        self._line(f"\n{self._in(BOLD, title)}\n{self._in(BOLD, '─' * len(title))}")

    def tell(self, text: str) -> None:
        """A word to the audience."""
        self._line(textwrap.fill(" ".join(text.split()), self._width))

    def ask(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of the client, and show the call and its result. A refusal is shown, and is the result."""
        shown = [_shown(arg) for arg in args] + [f"{name}={_shown(value)}" for name, value in options.items()]
        self._wrapped(f"{method.__name__}({', '.join(shown)})", "  → ", CYAN)
        try:
            result = method(*args, **options)
        except redis.ResponseError as error:
            self._wrapped(f"{type(error).__name__}: {error}", "  ✗ ", RED)
            return error
        lines = result if isinstance(result, list) and result else [result]
        for line in lines:
            self._wrapped(_shown(line), "  ← ", GREEN)
        return result

    def _wrapped(self, text: str, mark: str, colour: str) -> None:
        lines = textwrap.wrap(text, self._width - len(mark), break_on_hyphens=False)
        for index, line in enumerate(lines):
            self._line(self._in(colour, mark if index == 0 else " " * len(mark)) + line)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<vector of {value.size} numbers>"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in value.items()) + "}"
    return repr(value)
