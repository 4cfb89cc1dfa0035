"""Richer results: what `client.typed` returns. Frozen, text as `str`, moments as aware datetimes in UTC, JSON parsed.

Text is decoded with the client's encoding; bytes that are no text in it are for the plain methods, and an
`UndecodableReply` here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from amemdb.client.replies import THEN

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Decode = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a conversation; `seq` counts the session's turns from 1."""

    role: str
    content: str
    seq: int
    at: datetime
    id: str | None = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of an agent. `similarity` is there where it was recalled, `vector` where it was asked for.

    `lexical` and `score` are by words alone and by both, where `hybrid` gave words beside the vector.
    `left_out` is the reason why a fact was not found, where it was asked for by `explain`; None for those found.
    """

    key: str
    content: str
    stored_at: datetime
    expires_at: datetime | None = None
    source: str | None = None
    trust: str | None = None
    meta: dict[str, Any] | None = None
    similarity: float | None = None
    vector: tuple[float, ...] | None = None
    left_out: str | None = None
    lexical: float | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an agent; its `id` comes with the pages of an export."""

    at: datetime
    type: str
    content: str
    metadata: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A version of an agent's summary. Its time is to the second, from `amem_summary_history` to the millisecond."""

    text: str
    version: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """What `amem_search` found; `source` says in which memory."""

    source: str
    key: str
    content: str
    similarity: float


class View:
    """Calls the commands of a client, or queues them in a pipeline, and has their replies made into results."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._decode: Decode = partial(client.get_encoder().decode, force=True)

    def _call(self, request: list[Any], build: Callable[[Decode, Any], Any]) -> Any:
        return self._client.execute_command(*request, **{THEN: partial(build, self._decode)})


def turns(decode: Decode, reply: list[dict[str, Any]]) -> list[Turn]:
    """Of `AMEM.CONV.GET` and `AMEM.CONV.WINDOW` with `WITHMETA`."""
    return [
        Turn(
            role=decode(turn["role"]),
            content=decode(turn["content"]),
            seq=turn["seq"],
            at=_moment(turn["at"]),
            id=decode(turn["id"]),
            meta=_json(turn["meta"]),
        )
        for turn in reply
    ]


def facts(decode: Decode, reply: list[dict[str, Any]]) -> list[Fact]:
    """Of `AMEM.SEM.RECALL` with `WITHMETA`."""
    return [_fact(decode, fact) for fact in reply]


def fact(decode: Decode, reply: dict[str, Any] | None) -> Fact | None:
    """Of `AMEM.SEM.GET`."""
    return None if reply is None else _fact(decode, reply)


def events(decode: Decode, reply: list[dict[str, Any]]) -> list[Event]:
    """Of `AMEM.EPIS.QUERY`."""
    return [
        Event(
            at=_moment(event["timestamp"]),
            type=decode(event["type"]),
            content=decode(event["content"]),
            metadata=decode(event.get("metadata")),
            id=decode(event.get("id")),
        )
        for event in reply
    ]


def event_page(decode: Decode, reply: tuple[str, list[dict[str, Any]]]) -> tuple[str, list[Event]]:
    """Of `AMEM.EPIS.PAGE` with `WITHMETA`."""
    return reply[0], events(decode, reply[1])


def summary(decode: Decode, reply: tuple[Any, int, int] | None) -> Summary | None:
    """Of `AMEM.SUMMARY.GET`, whose time is in seconds."""
    return None if reply is None else Summary(decode(reply[0]), reply[1], _moment(reply[2] * 1000))


def summaries(decode: Decode, reply: list[dict[str, Any]]) -> list[Summary]:
    """Of `AMEM.SUMMARY.HISTORY`."""
    return [Summary(decode(each["text"]), each["version"], _moment(each["updated_at"])) for each in reply]


def found(decode: Decode, reply: list[dict[str, Any]]) -> list[Found]:
    """Of `AMEM.SEARCH`."""
    return [
        Found(decode(item["source"]), decode(item["key"]), decode(item["content"]), item["similarity"])
        for item in reply
    ]


def _fact(decode: Decode, reply: dict[str, Any]) -> Fact:
    vector = reply.get("vector")
    return Fact(
        key=decode(reply["key"]),
        content=decode(reply["content"]),
        stored_at=_moment(reply["stored_at"]),
        expires_at=None if reply["expires_at"] < 0 else _moment(reply["expires_at"]),
        source=decode(reply["source"]),
        trust=decode(reply["trust"]),
        meta=_json(reply["meta"]),
        similarity=reply.get("similarity"),
        vector=None if vector is None else tuple(vector),
        left_out=reply.get("left_out"),
        lexical=reply.get("lexical"),
        score=reply.get("score"),
    )


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _json(document: Any) -> dict[str, Any] | None:
    parsed: dict[str, Any] | None = None if document is None else json.loads(document)
    return parsed
