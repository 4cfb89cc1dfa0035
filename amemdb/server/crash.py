"""The end of the process when a bug of ours shows: write down what is known, and stop.

A handler that raised anything but a refusal may have changed half of what it meant to. Serving on would spread that
state to clients and into the log; what was acknowledged before is in the log and comes back with the next start. So
the process ends at once, with exit code 70, and frames not yet handed to the log are left behind on purpose.

The dump goes to stderr and to a file in the data folder. It holds no data: the name of the command but not its
arguments, and no bytes or text that an exception quotes.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import platform
import re
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from amemdb import __version__
from amemdb.commands.table import find
from amemdb.errors import CommandError

EXIT_CODE = 70
"""`EX_SOFTWARE` of sysexits.h."""
_MESSAGE_CHARS_MAX = 300
_QUOTED = re.compile(r"""b?(?:'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)""", re.DOTALL)

_log = logging.getLogger("amemdb")


class Crash:
    """Ends the process on a bug. `exit_process` is replaceable in tests."""

    def __init__(self, directory: Path | None, exit_process: Callable[[int], Any] = os._exit) -> None:
        self._directory = directory
        self._exit_process = exit_process
        self._lock = threading.Lock()

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Catch what is raised in callbacks of `loop` and in threads, too."""
        loop.set_exception_handler(self._on_loop_error)
        threading.excepthook = self._on_thread_error

    def stop(self, error: BaseException, command: str = "") -> NoReturn:
        """Write the dump and end the process."""
        with self._lock:  # two threads may fail at once; the process ends with the first
            try:
                self._tell(dump_text(error, command))
            finally:  # even if there is nowhere left to tell it
                self._exit_process(EXIT_CODE)
        raise AssertionError("the process goes on after a bug")

    def _tell(self, text: str) -> None:
        path = self._write(text)
        copy = f" A copy is in {path}." if path else ""
        sys.stderr.write(
            f"{text}\namemdb stops because of a bug of its own, shown above.{copy}\n"
            "What was acknowledged is in the log: start it again, and please report this.\n"
        )
        sys.stderr.flush()

    def _write(self, text: str) -> Path | None:
        if self._directory is None:
            return None
        path = self._directory / f"crash-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.txt"
        try:
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError:
            return None
        return path

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or (isinstance(error, OSError) and ("transport" in context or "socket" in context)):
            # The network's failure, told by the loop: the connection it happened to is closed already.
            reason = f": {error.strerror or type(error).__name__}" if isinstance(error, OSError) else ""
            _log.warning("%s%s", context.get("message", "the event loop reported an error"), reason)
            return
        self.stop(error)

    def _on_thread_error(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            self.stop(args.exc_value)


def command_name(argv: list[bytes] | None) -> str:
    """The name of the command that `argv` calls, and nothing of what else it holds."""
    if not argv:
        return ""
    try:
        return find(argv).name
    except CommandError:
        return "unknown"


def dump_text(error: BaseException, command: str) -> str:
    """What is known about `error`, without any of the data."""
    from importlib.metadata import version  # a tenth of what a start takes to import, and only wanted here

    lines = [
        f"amemdb {__version__} crashed on {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC",
        f"python {platform.python_version()}, {platform.platform()}",
        ", ".join(f"{name} {version(name)}" for name in ("uvloop", "numpy", "msgpack")),
        f"command: {command or 'none'}",
        "",
        *_described(error),
        "",
        "All threads:",
        _all_threads(),
    ]
    return "\n".join(lines)


def _described(error: BaseException) -> list[str]:
    """The traceback of `error` and of what led to it: places and types, with messages stripped of quoted data."""
    lines: list[str] = []
    seen: set[int] = set()
    chain: BaseException | None = error
    while chain is not None and id(chain) not in seen:
        seen.add(id(chain))
        lines.append(f"{type(chain).__name__}: {stripped(str(chain))}")
        lines += [stripped(note) for note in getattr(chain, "__notes__", ())]
        lines += [line.rstrip("\n") for line in traceback.format_tb(chain.__traceback__)]
        chain = chain.__cause__ or chain.__context__
    return lines


def stripped(message: str) -> str:
    """`message` without what it quotes, as that may be what a client stored."""
    return _QUOTED.sub("'…'", message)[:_MESSAGE_CHARS_MAX]


def _all_threads() -> str:
    try:
        with tempfile.TemporaryFile() as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            return file.read().decode("utf-8", "replace")
    except OSError:
        return "(no room to write them)"
