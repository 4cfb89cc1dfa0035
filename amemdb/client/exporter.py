"""Export: all memory of a server as lines of the import format, so that importing them gives equal objects.

What a line holds is what a client can ask for; nothing is read behind the server's back. Each object (a session with
its turns and notes, a fact, a page of events, a summary with its versions) is read at one instant, the whole is not:
others write meanwhile. What has expired is not given by the server and so not exported; what will expire carries the
absolute time, a note's also, which is made exact by asking for the time in the same transaction as for its TTL.

`begin` opens the file, `end` closes it with the number of lines, so that the importer notices a part that passes for
the whole. What does not survive is listed in `docs/command-line.md`.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import redis

from amemdb.client.import_format import FORMAT_VERSION
from amemdb.client.importer import LINE_BYTES_MAX
from amemdb.errors import printable
from amemdb.limits import EVENT_IDS_REMEMBERED, SUMMARY_HISTORY_MAX

NAMES_A_PAGE = 500
SESSION_BYTES_AT_ONCE = 256 * 1024
"""Sessions up to this much are read in one transaction: it is short for everybody else."""
FACTS_AT_ONCE = 200
FLOATS_AT_ONCE = 200_000
EVENTS_A_PAGE = 1000

Line = dict[str, Any]


class Client(Protocol):
    """What is used of a redis-py client."""

    def execute_command(self, *argv: Any) -> Any:
        """Send one command; its reply."""

    def pipeline(self, transaction: bool) -> Any:
        """A pipeline, with MULTI and EXEC around it or without."""


class Unexportable(Exception):
    """An object, or a part of one, that the format or a reply cannot hold; the text names it."""


@dataclass
class Exported:
    """What became of the objects: lines by kind, and how many could not be written."""

    counts: Counter[str] = field(default_factory=Counter)
    left_out: int = 0

    @property
    def lines(self) -> int:
        """Lines between `begin` and `end`."""
        return self.counts.total()


def export(
    client: Client,
    write: Callable[[bytes], Any],
    pattern: bytes | None,
    on_problem: Callable[[str], None],
    on_progress: Callable[[Exported], None] = lambda exported: None,
) -> Exported:
    """Write all memory whose session or agent fits `pattern`. `client` speaks RESP3 and decodes nothing.

    redis-py's errors are raised when the connection is lost; what cannot be exported is told, and the rest goes on.
    """
    exported = Exported()
    seconds, microseconds = client.execute_command("TIME")
    write(line_of({"kind": "begin", "version": FORMAT_VERSION, "at": _milliseconds(seconds, microseconds)}))
    for objects in (_sessions, _namespaces, _events, _summaries):
        for found in objects(client, pattern):
            try:
                if isinstance(found, Unexportable):
                    raise found
                write(line_of(found))
                exported.counts[found["kind"]] += 1
            except Unexportable as problem:
                exported.left_out += 1
                on_problem(str(problem))
            if exported.lines % 500 == 0:
                on_progress(exported)
    write(line_of({"kind": "end", "lines": exported.lines, "counts": dict(exported.counts)}))
    on_progress(exported)
    return exported


# -- values ------------------------------------------------------------------------------------------


def line_of(entry: Line) -> bytes:
    """One line with its line feed; what is None is left out."""
    given = {name: value for name, value in entry.items() if value is not None}
    data = json.dumps(given, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    if len(data) > LINE_BYTES_MAX:
        names = ", ".join(f"{name} {_shown(given[name])}" for name in ("session", "agent", "key") if name in given)
        raise Unexportable(
            f"a {given['kind']} of {names} makes a line of {len(data)} bytes; {LINE_BYTES_MAX} can be read"
        )
    return data


def text_of(data: bytes | None) -> Any:
    """Text as a JSON string, other bytes as `{"base64": …}`."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def meta_of(data: bytes | None) -> Any:
    """A JSON object as one where that gives the same bytes again, else its text."""
    if data is None:
        return None
    text = data.decode("utf-8")
    try:
        value = json.loads(text)
        same = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) == text
    except (ValueError, RecursionError):
        same = False
    return value if same else text


def _vector(components: list[Any]) -> Line:
    """The float32 that the decimals stand for, to the bit."""
    data = struct.pack(f"<{len(components)}f", *map(float, components))
    return {"base64": base64.b64encode(data).decode("ascii")}


def _word(value: bytes | None) -> str | None:
    return None if value is None else value.decode("ascii")


def _milliseconds(seconds: Any, microseconds: Any) -> int:
    return int(seconds) * 1000 + int(microseconds) // 1000


def _shown(name: Any) -> str:
    return f"'{printable(name.encode('utf-8', 'replace'))}'" if isinstance(name, str) else "(binary)"


def _refusal(what: str, name: bytes, error: Exception) -> Unexportable:
    return Unexportable(
        f"{what} '{printable(name)}' cannot be read: {printable(str(error).encode('utf-8', 'replace'))}"
    )


# -- asking ------------------------------------------------------------------------------------------


def _pages(client: Client, command: str, pattern: bytes | None) -> Iterator[list[bytes]]:
    """All names, each once, page by page."""
    seen: set[bytes] = set()
    cursor: Any = 0
    match = [] if pattern is None else ["MATCH", pattern]
    while True:
        cursor, names = client.execute_command(command, cursor, *match, "COUNT", NAMES_A_PAGE)
        fresh = [name for name in names if name not in seen]
        seen.update(fresh)
        if fresh:
            yield fresh
        if int(cursor) == 0:
            return


def _ask(client: Client, requests: list[tuple[Any, ...]], at_once: bool = False) -> list[Any]:
    """The replies, an exception where one was refused; in one transaction if `at_once`."""
    pipeline = client.pipeline(transaction=at_once)
    for request in requests:
        pipeline.execute_command(*request)
    replies: list[Any] = pipeline.execute(raise_on_error=False)
    return replies


# -- sessions ----------------------------------------------------------------------------------------


def _sessions(client: Client, pattern: bytes | None) -> Iterator[Line | Unexportable]:
    for names in _pages(client, "AMEM.CONV.SCAN", pattern):
        replies = _ask(client, [request for name in names for request in _sizes(name)])
        batch: list[tuple[bytes, list[bytes]]] = []
        size = 0
        for name, info, notes in zip(names, replies[::2], replies[1::2], strict=True):
            if isinstance(info, Exception) or isinstance(notes, Exception):
                continue  # it has ended since its name was given
            if batch and size + info[b"bytes"] > SESSION_BYTES_AT_ONCE:
                yield from _session_lines(client, batch)
                batch, size = [], 0
            batch.append((name, notes))
            size += info[b"bytes"]
        if batch:
            yield from _session_lines(client, batch)


def _sizes(name: bytes) -> list[tuple[Any, ...]]:
    return [("AMEM.CONV.INFO", name), ("AMEM.WORK.LIST", name)]


def _session_lines(client: Client, batch: list[tuple[bytes, list[bytes]]]) -> Iterator[Line | Unexportable]:
    """Sessions as they are at one instant; a note that is made after its name was asked for is not in."""
    requests: list[tuple[Any, ...]] = [("TIME",)]
    for name, keys in batch:
        requests += [("AMEM.CONV.INFO", name), ("AMEM.CONV.GET", name, "WITHMETA"), ("AMEM.WORK.GETALL", name)]
        requests += [("AMEM.WORK.TTL", name, key) for key in keys]
    replies = iter(_ask(client, requests, at_once=True))
    now_ms = _milliseconds(*next(replies))
    for name, keys in batch:
        info, turns, notes = next(replies), next(replies), next(replies)
        ttls = [next(replies) for _ in keys]
        refused = [reply for reply in (turns, notes, *ttls) if isinstance(reply, Exception)]
        if isinstance(info, Exception):
            continue
        if refused:
            yield _refusal("session", name, refused[0])
            continue
        yield from _session(name, info, turns)
        for key, ttl_ms in zip(keys, ttls, strict=True):
            if key in notes and ttl_ms != -2:
                expire_at_ms = None if ttl_ms == -1 else now_ms + ttl_ms
                yield {
                    "kind": "note",
                    "session": text_of(name),
                    "key": text_of(key),
                    "content": text_of(notes[key]),
                    "expire_at_ms": expire_at_ms,
                }


def _session(name: bytes, info: dict[bytes, int], turns: list[dict[bytes, Any]]) -> Iterator[Line]:
    session = text_of(name)
    yield {
        "kind": "session",
        "session": session,
        "window": info[b"window"],
        "expire_at_ms": None if info[b"expires_at"] < 0 else info[b"expires_at"],
    }
    for turn in turns:
        yield {
            "kind": "turn",
            "session": session,
            "role": _word(turn[b"role"]),
            "content": text_of(turn[b"content"]),
            "at": turn[b"at"],
            "id": text_of(turn[b"id"]),
            "meta": meta_of(turn[b"meta"]),
        }


# -- facts -------------------------------------------------------------------------------------------


def _namespaces(client: Client, pattern: bytes | None) -> Iterator[Line | Unexportable]:
    for names in _pages(client, "AMEM.SEM.SCAN", pattern):
        for name in names:
            try:
                info = client.execute_command("AMEM.SEM.INFO", name)
                keys = client.execute_command("AMEM.SEM.LIST", name)
            except redis.ResponseError as error:
                if "not found" not in str(error):
                    yield _refusal("the facts of", name, error)
                continue
            agent, dim = text_of(name), info[b"dim"]
            yield {
                "kind": "namespace",
                "agent": agent,
                "dim": dim,
                "metric": _word(info[b"metric"]),
                "m": info[b"m"] or None,
                "ef_construction": info[b"ef_construction"] or None,
                "ef_search": info[b"ef_search"] or None,
                "quant": "f16" if info[b"quant"] == b"f16" else None,
                "maxfacts": info[b"maxfacts"] or None,
                "model": text_of(info[b"model"]),
                "lang": _word(info[b"lang"]),
            }
            step = max(1, min(FACTS_AT_ONCE, FLOATS_AT_ONCE // dim))
            for start in range(0, len(keys), step):
                requests = [("AMEM.SEM.GET", name, key, "WITHVECTOR") for key in keys[start : start + step]]
                for fact in _ask(client, requests):
                    if isinstance(fact, Exception):
                        yield _refusal("a fact of", name, fact)
                    elif fact is not None and len(fact[b"vector"]) == dim:  # else it, or the namespace, has gone
                        yield _fact(agent, fact)


def _fact(agent: Any, fact: dict[bytes, Any]) -> Line:
    return {
        "kind": "fact",
        "agent": agent,
        "key": text_of(fact[b"key"]),
        "content": text_of(fact[b"content"]),
        "vector": _vector(fact[b"vector"]),
        "expire_at_ms": None if fact[b"expires_at"] < 0 else fact[b"expires_at"],
        "source": text_of(fact[b"source"]),
        "trust": _word(fact[b"trust"]),
        "meta": meta_of(fact[b"meta"]),
    }


# -- events and summaries ----------------------------------------------------------------------------


def _events(client: Client, pattern: bytes | None) -> Iterator[Line | Unexportable]:
    for names in _pages(client, "AMEM.EPIS.SCAN", pattern):
        for name in names:
            agent = text_of(name)
            stats = client.execute_command("AMEM.EPIS.STATS", name, "WITHMETA")
            maxlen, maxage = (stats[label] if stats[label] > 0 else None for label in (b"maxlen", b"maxage"))
            if maxlen or maxage:
                yield {"kind": "retention", "agent": agent, "maxlen": maxlen, "maxage": maxage}
            cursor: bytes = b"0"
            told = _ToldIds()
            while True:
                page = ("AMEM.EPIS.PAGE", name, cursor, "COUNT", EVENTS_A_PAGE, "WITHMETA")
                cursor, events = client.execute_command(*page)
                for event in events:
                    yield _event(agent, event, told)
                if cursor == b"0":
                    break


def _event(agent: Any, event: dict[bytes, Any], told: _ToldIds) -> Line:
    return {
        "kind": "event",
        "agent": agent,
        "type": text_of(event[b"type"]),
        "content": text_of(event[b"content"]),
        "metadata": text_of(event[b"metadata"]),
        "at": event[b"timestamp"],
        "id": text_of(told.once(event[b"id"])),
    }


class _ToldIds:
    """The ids of the newest events that were given.

    By the order of arrival an id can come again when it is long forgotten; by the order of time both may be close, and
    an import would take the second for a retry. It goes out without its id.
    """

    def __init__(self) -> None:
        self._order: deque[bytes | None] = deque()
        self._known: set[bytes | None] = set()

    def once(self, event_id: bytes | None) -> bytes | None:
        """`event_id`, or None if it was given lately."""
        found = None if event_id in self._known else event_id
        self._order.append(found)
        if found is not None:
            self._known.add(found)
        if len(self._order) > EVENT_IDS_REMEMBERED:
            self._known.discard(self._order.popleft())
        return found


def _summaries(client: Client, pattern: bytes | None) -> Iterator[Line | Unexportable]:
    """Each kept version is a line, the oldest first, so that importing them makes the history again."""
    for names in _pages(client, "AMEM.SUMMARY.SCAN", pattern):
        for name in names:
            versions = _versions(client, name)
            if isinstance(versions, Unexportable):
                yield versions
                continue
            for version in reversed(versions):
                yield {"kind": "summary", "agent": text_of(name), "content": text_of(version[b"text"])}


def _versions(client: Client, name: bytes) -> list[dict[bytes, Any]] | Unexportable:
    """The newest versions, as many as one reply can hold."""
    count = SUMMARY_HISTORY_MAX
    while True:
        try:
            found: list[dict[bytes, Any]] = client.execute_command("AMEM.SUMMARY.HISTORY", name, "COUNT", count)
            return found
        except redis.ResponseError as error:
            if count == 1:
                return _refusal("the summary of", name, error)
            count //= 2
