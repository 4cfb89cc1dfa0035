"""The history of the prompt: a file that only its owner can read, and that never holds a secret.

A line that logs in, or sets a password, is not kept at all, neither in the file nor for the arrow key; nor is one that
begins with a blank, as in a shell. The file is under the state folder of the XDG rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from prompt_toolkit.history import FileHistory

from amemdb.protocol.inline import split_inline

BYTES_MAX = 1 << 20
"""Past this the older half is dropped at the next start."""
_SUSPICIOUS = re.compile(r"(?i)\b(auth|hello|requirepass|masterauth|setuser|migrate)\b")


def path_of(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/amemdb/history`, or `~/.local/state/amemdb/history`; a relative path does not count."""
    state = environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "amemdb" / "history"


def is_secret(line: str) -> bool:
    """Whether a line may hold a password."""
    tokens = split_inline(line.encode("utf-8", "surrogateescape"))
    if tokens is None:  # a quote is missing: nobody knows what was meant
        return _SUSPICIOUS.search(line) is not None
    words = [token.decode("utf-8", "replace").upper() for token in tokens]
    if not words:
        return False
    first, second = words[0], "".join(words[1:2])
    if first == "AUTH" or (first, second) == ("ACL", "SETUSER"):
        return True
    if first in ("HELLO", "MIGRATE"):
        return any(word in ("AUTH", "AUTH2") for word in words)
    if (first, second) == ("CONFIG", "SET"):
        return any("PASS" in word or "AUTH" in word or "SECRET" in word for word in words[2:])
    return False


class SafeHistory(FileHistory):
    """History in a file. What cannot be written is kept for this run only."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.chmod(path, 0o600)
            _shorten(path)
        except OSError:
            pass

    def append_string(self, string: str) -> None:
        if not string.startswith(" ") and not is_secret(string):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            return


def _shorten(path: Path) -> None:
    if path.stat().st_size <= BYTES_MAX:
        return
    kept = path.read_bytes()[-BYTES_MAX // 2 :]
    _, _, whole = kept.partition(b"\n\n")
    beside = path.with_suffix(".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(b"\n" + whole)
    beside.replace(path)
