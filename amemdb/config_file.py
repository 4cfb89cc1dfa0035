"""CONFIG REWRITE: the settings in force, written back into the TOML file that the server was started with.

As little is changed as can be. A line whose setting has the value in force stays as it was written, comments and blank
lines stay, and a line that has to change keeps its place and its comment. Settings that are not in the file and do not
have their default are put at its end, wherever they came from: a server that is started with nothing but the file is
then the same server.

The new file is complete or it is not there: it is written beside the old one, forced to disk, read back and
compared, and takes the old one's place and permissions in one step. Where the path is a symbolic link, what it leads
to is replaced.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from amemdb.config import BY_NAME, SETTINGS, Config
from amemdb.errors import printable
from amemdb.setting import Size, Unfit

HEADING = "# Written by CONFIG REWRITE:"
FILE_BYTES_MAX = 1 << 20
"""A larger file is none of settings."""
STATEMENT_LINES_MAX = 32
"""No setting needs more. With every further line all of them are read again, which is hours for a file of lines that
an open string takes in."""

_BEFORE_COMMENT = re.compile(
    r"""(?: "{3} (?: [^\\] | \\. )*? "{3,5} | '{3} .*? '{3,5} | " (?: [^"\\] | \\. )* " | '[^']*' | [^"'#]+ )*""",
    re.DOTALL | re.VERBOSE,
)
"""A statement of TOML up to its comment: strings, where a `#` begins none, and what is outside of them."""


class Unwritable(Exception):
    """The file cannot be written anew; the text says why in one line. It is as it was."""


class ConfigFile:
    """The file of a running server's settings. `rewrite` may be called on any thread."""

    def __init__(self, path: Path, config: Config, on_exposed: Callable[[str], None] = lambda line: None) -> None:
        """`on_exposed` is told when a password has been written to a file that others can read."""
        self._path = Path(os.path.abspath(path))
        self._config = config
        self._on_exposed = on_exposed
        self._one_at_a_time = threading.Lock()

    def rewrite(self) -> str | None:
        """Write the settings in force; None, or why that failed."""
        with self._one_at_a_time:
            try:
                self._rewrite()
            except OSError as error:
                return printable((error.strerror or str(error)).encode("utf-8", "replace"))
            except Unwritable as error:
                return str(error)
        return None

    def _rewrite(self) -> None:
        path = Path(os.path.realpath(self._path))
        values = self._config.values()
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise Unwritable("it is no file that can be replaced")  # a pipe would be waited for without an end
            before = _read(path)
            mode, owner = stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)
        except FileNotFoundError:
            before, mode, owner = "", 0o600, None
        after = rewritten(before, values)
        if after == before:
            return
        _replace(path, after.encode("utf-8"), mode, owner)
        if mode & 0o044 and any(values[setting.name] for setting in SETTINGS if setting.secret):
            self._on_exposed(f"{path} holds a password and others can read it: chmod 600")


def rewritten(text: str, values: Mapping[str, Any]) -> str:
    """The TOML `text` changed so that it says `values`. Raises `Unwritable`."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    parts: list[str] = []
    told: set[str] = set()
    for statement, entry in _statements(text):
        name, before = next(iter(entry.items()), ("", None))
        told.add(name)
        parts.append(statement if not entry or _says(name, before, values) else _changed(statement, name, values))
    missing = [s for s in SETTINGS if not s.fact and s.name not in told and values[s.name] != s.default]
    if missing:
        if parts and not parts[-1].endswith("\n"):
            parts.append("\n")
        if HEADING not in text:
            parts.append(f"\n{HEADING}\n" if parts else f"{HEADING}\n")
        parts += [f"{setting.name} = {_literal(setting.name, values)}\n" for setting in missing]
    result = "".join(parts)
    _check(result, values)
    return result.replace("\n", line_end)


# -- the text ----------------------------------------------------------------------------------------


def _statements(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The text in pieces, line ends included: one setting each with its name and value, or what is none."""
    found: list[tuple[str, dict[str, Any]]] = []
    pending, lines = "", 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        pending += line
        lines += 1
        try:
            entry = tomllib.loads(pending)
        except (ValueError, RecursionError):  # not all that tomllib cannot read is a TOMLDecodeError
            if lines == STATEMENT_LINES_MAX:
                break
            continue  # a string of several lines is not whole yet
        found.append((pending, entry))
        pending, lines = "", 0
    if pending:
        raise Unwritable(
            "the file is not TOML any more"
            if lines < STATEMENT_LINES_MAX
            else f"the file is not TOML any more, or a value in it takes more than {STATEMENT_LINES_MAX} lines"
        )
    return found


def _says(name: str, value: Any, values: Mapping[str, Any]) -> bool:
    setting = BY_NAME.get(name)
    if setting is None or setting.fact:
        raise Unwritable(f"the file names a setting that there is not: {printable(name.encode())}")
    try:
        return bool(setting.kind.accept(value) == values[name])
    except Unfit:
        return False


def _changed(statement: str, name: str, values: Mapping[str, Any]) -> str:
    comment = _comment(statement)
    return f"{name} = {_literal(name, values)}{'  ' if comment else ''}{comment}\n"


def _comment(statement: str) -> str:
    """The comment behind the value."""
    before = _BEFORE_COMMENT.match(statement)
    return statement[before.end() :].rstrip() if before else ""


def _literal(name: str, values: Mapping[str, Any]) -> str:
    setting, value = BY_NAME[name], values[name]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and (not isinstance(setting.kind, Size) or setting.kind.label(value).isdigit()):
        return str(value)
    text = setting.kind.label(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unwritable(f"the value of {name} is not text, which is all that a TOML file can hold") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check(text: str, values: Mapping[str, Any]) -> None:
    """What was made says what it should, whatever was in the file: better no new file than a wrong one."""
    try:
        told = tomllib.loads(text)
    except (ValueError, RecursionError):
        raise Unwritable("the file names a setting twice") from None
    for setting in SETTINGS:
        if setting.fact:
            continue
        value = setting.kind.accept(told[setting.name]) if setting.name in told else setting.default
        assert value == values[setting.name], f"the new file says something else of {setting.name}"


# -- the disk ----------------------------------------------------------------------------------------


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        data = stream.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise Unwritable(f"the file is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Unwritable("the file is not UTF-8 any more") from None


def _replace(path: Path, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(
        beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if owner is not None and owner != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):
                    os.fchown(stream.fileno(), *owner)
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
