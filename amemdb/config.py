"""Settings: each declared once in `SETTINGS`, everything else derived from that table.

From it come the options of `amemdb serve`, the environment variables, the keys of the TOML file, CONFIG GET and
CONFIG SET, and the page `docs/configuration.md` (written by `amemdb.config_page`). A value comes from the first
of these that gives one:

1. a flag, `--conv-window 500`;
2. the environment, `AMEMDB_CONV_WINDOW=500` (an empty variable counts as not set);
3. the file named by `--config`, TOML with the names as flat keys, `conv-window = 500`;
4. the default.

What is wrong in any of them is a `ConfigError` that says where it stands, and the server does not start. A bound that
is part of the contract or of the file format is no setting: those are in `amemdb.limits`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amemdb.errors import CommandError, printable
from amemdb.limits import DATABASES, WINDOW_MAX
from amemdb.setting import Choice, Folder, Integer, Kind, Setting, Size, Switch, Unfit, Word

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ENVIRONMENT_PREFIX = "AMEMDB_"
NOT_SETTINGS = frozenset({"AMEMDB_CONFIG", "AMEMDB_EMBEDDER_KEY", "AMEMDB_NATIVE", "AMEMDB_URL"})
"""Variables that are read elsewhere: the file of settings, the key of an embedder's endpoint, whether native code is
used, the server that tools ask."""

SETTINGS: tuple[Setting, ...] = (
    Setting("host", Word(), "127.0.0.1", "Address to listen on; 0.0.0.0 for every interface."),
    Setting("port", Integer(0, 65_535), 6379, "TCP port to listen on; 0 picks a free one."),
    Setting("dir", Folder(), "./amemdb-data", "Folder of the data, made when it is missing."),
    Setting(
        "appendfsync",
        Choice(("always", "everysec", "no")),
        "everysec",
        "When the log is forced to disk: before a reply leaves, once a second, or when the system likes.",
        changeable=True,
    ),
    Setting("requirepass", Kind(), "", "Password of the default user; empty for none.", changeable=True, secret=True),
    Setting("maxclients", Integer(1, 1_000_000), 10_000, "Connections at the same time; one more is refused."),
    Setting("timeout", Integer(0, 2**31), 0, "Idle time after which a connection is closed; 0 for never.", "seconds"),
    Setting("tcp-keepalive", Integer(0, 32_767), 300, "Interval of TCP keep-alive probes; 0 for none.", "seconds"),
    Setting("tcp-backlog", Integer(1, 65_535), 511, "Connections that may wait to be accepted."),
    Setting(
        "conv-window",
        Integer(1, WINDOW_MAX),
        1000,
        "Window of a session created without WINDOW.",
        "turns",
        changeable=True,
    ),
    Setting(
        "output-buffer-limit",
        Size(KIB),
        GIB,
        "Replies that may wait for one connection to read them; past that it is closed. More than one reply can hold.",
        "bytes",
    ),
    Setting(
        "output-stall-timeout",
        Integer(1, 86_400),
        30,
        "How long a connection with replies waiting may read nothing before it is closed.",
        "seconds",
    ),
    Setting(
        "query-buffer-limit",
        Size(64 * KIB),
        GIB,
        "Bytes of one connection's requests not yet run; past that it is closed.",
        "bytes",
    ),
    Setting(
        "log-segment-bytes", Size(4 * KIB, 64 * GIB), 64 * MIB, "Size at which the log starts a new file.", "bytes"
    ),
    Setting(
        "log-reserve-bytes",
        Size(4 * KIB, 64 * GIB),
        8 * MIB,
        "Disk space kept allocated ahead of the log; without it writes are refused.",
        "bytes",
    ),
    Setting(
        "maxmemory",
        Size(),
        0,
        "Memory in use beyond which writes that add data are refused; 0 for no limit. "
        "The server itself, empty, counts for about 48 MiB of it.",
        "bytes",
        changeable=True,
    ),
    Setting(
        "maxmemory-policy",
        Choice(("noeviction",)),
        "noeviction",
        "What happens at maxmemory: nothing is evicted, writes that add data are refused.",
        changeable=True,
    ),
    Setting(
        "auto-aof-rewrite-percentage",
        Integer(0, 1_000_000),
        100,
        "Growth of the log since the last compaction at which the next one begins by itself, of the base; 0 for never.",
        "percent",
        changeable=True,
    ),
    Setting(
        "auto-aof-rewrite-min-size",
        Size(),
        64 * MIB,
        "Growth below which no compaction begins by itself.",
        "bytes",
        changeable=True,
    ),
    Setting(
        "compaction-memory",
        Size(MIB),
        256 * MIB,
        "Memory that compaction takes for objects at a time; the process adds about 60 MiB, and the largest object "
        "where that is larger.",
        "bytes",
        changeable=True,
    ),
    Setting(
        "save-graphs",
        Switch(),
        True,
        "Whether a stop keeps the graphs of large semantic memories in files: the next start reads them, else it makes "
        "them anew, which takes a minute to four for 100,000 vectors.",
        changeable=True,
    ),
    Setting(
        "text-language",
        Word(),
        "en",
        "Language of the texts that are searched by words, a code such as de, or none: of events, notes and turns, and "
        "of facts whose memory has no LANG.",
    ),
    Setting("search-threads", Integer(1, 256), 2, "Threads for vector searches that would hold others up."),
    Setting(
        "embedder",
        Kind(),
        "",
        "What makes vectors of texts, for EMBED and TEXT, such as openai:MODEL@URL; empty for nothing.",
    ),
    Setting("embedder-key-file", Kind(), "", "File with the key of an endpoint; empty for the one in the environment."),
    Setting("embedder-timeout", Integer(1, 600), 10, "How long a command waits for the embedder.", "seconds"),
    Setting("embedder-batch", Integer(1, 2048), 64, "Most texts in one call of the embedder."),
    Setting(
        "embedder-cache", Size(), 32 * MIB, "Vectors kept of texts that were embedded before; 0 for none.", "bytes"
    ),
    Setting(
        "slowlog-log-slower-than",
        Integer(-1),
        10_000,
        "Time from which a command enters SLOWLOG; -1 for none.",
        "microseconds",
        changeable=True,
    ),
    Setting("slowlog-max-len", Integer(0, 1_000_000), 128, "Entries that SLOWLOG keeps.", changeable=True),
    Setting("enable-debug-command", Switch(), False, "Whether DEBUG may be used."),
    Setting(
        "loglevel", Choice(("debug", "verbose", "notice", "warning")), "notice", "Least grave line that is logged."
    ),
    Setting("appendonly", Switch(), True, "There is always a log.", fact=True),
    Setting("save", Kind(), "", "There are no snapshots by time.", fact=True),
    Setting("databases", Integer(), DATABASES, "Databases of plain keys, for SELECT.", fact=True),
)

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}


class ConfigError(Exception):
    """A flag, variable or file that cannot be used: one line that says where, what, and what was expected."""


class Config:
    """The settings of one server. Values are typed: str, int or bool."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        """The defaults, but for `values`, which are checked; `ConfigError` for one that does not fit."""
        self.file: Path | None = None
        """What `load` read, if it was given a file."""
        self._values: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self._listeners: dict[str, list[Callable[[Any], None]]] = {}
        self._put({setting.name: setting.default for setting in SETTINGS})
        self._put({name: _accepted(name, name, value) for name, value in (values or {}).items()})

    @classmethod
    def load(cls, flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None) -> Config:
        """Settings from the three sources, the earlier before the later. `flags` is text by setting."""
        values = _read_file(file) if file is not None else {}
        for setting in SETTINGS:
            text = environ.get(setting.variable, "")
            if text and not setting.fact:
                values[setting.name] = _parsed(setting, setting.variable, text)
        for name, text in flags.items():
            values[name] = _parsed(_settable(name, f"--{name}"), f"--{name}", text)
        config = cls()
        config.file = file
        config._put(values)
        return config

    def get(self, name: str) -> Any:
        """The typed value of the setting `name`."""
        return self._values[name]

    def text(self, name: str) -> str:
        """The value as CONFIG GET tells it. Handlers ask often, so it is kept ready."""
        return self._texts[name]

    def values(self) -> dict[str, Any]:
        """All settings as they are at one moment, on whatever thread this is asked."""
        return dict(self._values)

    def names(self) -> list[str]:
        """Every setting, in the order of the table."""
        return list(self._values)

    def on_change(self, name: str, callback: Callable[[Any], None]) -> None:
        """Have `callback` called with the new value after `set_many` changed the setting `name`."""
        assert BY_NAME[name].changeable, f"{name} never changes"
        self._listeners.setdefault(name, []).append(callback)

    def set_many(self, changes: Sequence[tuple[str, str]]) -> None:
        """CONFIG SET: check all `changes` (name in any case, and text), then make them all.

        `CommandError` names the one that cannot be made; nothing has changed then.
        """
        values: dict[str, Any] = {}
        for given, text in changes:
            setting = BY_NAME.get(given.lower())
            shown = printable(given.encode("utf-8", "replace"))
            if setting is None:
                raise CommandError(f"Unknown option or number of arguments for CONFIG SET - '{shown}'")
            if setting.name in values:
                raise _set_failed(shown, "duplicate parameter")
            try:
                value = setting.kind.parse(text)
            except Unfit:
                raise _set_failed(shown, setting.refusal(text)) from None
            if not setting.changeable and not (setting.fact and value == setting.default):
                raise _set_failed(shown, "can't set immutable config")
            values[setting.name] = value
        changed = {name: value for name, value in values.items() if self._values[name] != value}
        self._put(changed)
        for name, value in changed.items():
            for callback in self._listeners.get(name, ()):
                callback(value)

    def _put(self, values: Mapping[str, Any]) -> None:
        self._values.update(values)
        self._texts.update((name, BY_NAME[name].kind.text(value)) for name, value in values.items())


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none: worth a warning, as a typing mistake has no other trace."""
    known = {setting.variable for setting in SETTINGS if not setting.fact} | NOT_SETTINGS
    return sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and name not in known)


def variable_warnings(environ: Mapping[str, str]) -> list[str]:
    """A line for each variable that has not the effect that it seems to have."""
    lines = [f"{name} is set, but there is no such setting" for name in unknown_variables(environ)]
    chosen = environ.get("AMEMDB_NATIVE", "")
    if chosen not in ("", "0", "1"):
        shown = printable(chosen.encode("utf-8", "surrogateescape"))
        lines.append(f"AMEMDB_NATIVE is '{shown}', which changes nothing: expected 0 for plain Python, or 1")
    return lines


def _read_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            entries = tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: expected TOML in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: expected TOML: {error}") from None
    return {name: _entry(name, f"{file}: {printable(name.encode())}", value) for name, value in entries.items()}


def _entry(name: str, where: str, value: Any) -> Any:
    if isinstance(value, dict) and name not in BY_NAME:
        raise ConfigError(f"{where}: expected settings as flat keys, like port = 6379, and got a table of them")
    return _accepted(name, where, value)


def _settable(name: str, where: str) -> Setting:
    setting = BY_NAME.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, BY_NAME, 1)
        raise ConfigError(f"{where}: there is no such setting{f', did you mean {near[0]}?' if near else ''}")
    if setting.fact:
        raise ConfigError(f"{where}: cannot be set, it is always '{setting.kind.text(setting.default)}'")
    return setting


def _accepted(name: str, where: str, value: Any) -> Any:
    setting = _settable(name, where)
    try:
        return setting.kind.accept(value)
    except Unfit:
        raise ConfigError(f"{where}: {setting.refusal(value)}{_quotes(setting, value)}") from None


def _quotes(setting: Setting, value: Any) -> str:
    """What to do about a value that would fit without its quotes, or with quotes around it; else nothing."""
    quoted = isinstance(value, str)
    try:
        if quoted:
            setting.kind.parse(value)
        elif type(value) in (int, float):
            setting.kind.accept(str(value))
        else:
            return ""
    except Unfit:
        return ""
    return "; leave out the quotes" if quoted else "; put it in quotes"


def _parsed(setting: Setting, where: str, text: str) -> Any:
    try:
        return setting.kind.parse(text)
    except Unfit:
        raise ConfigError(f"{where}: {setting.refusal(text)}") from None


def _set_failed(name: str, reason: str) -> CommandError:
    return CommandError(f"CONFIG SET failed (possibly related to argument '{name}') - {reason}")
