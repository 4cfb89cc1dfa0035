"""The dicts that methods return, for type checkers. `Text` is `bytes`, or `str` with `decode_responses=True`."""

from __future__ import annotations

from typing import Generic, NotRequired, TypedDict, TypeVar

Text = TypeVar("Text", bytes, str)


class TurnDict(TypedDict, Generic[Text]):
    """A turn of a conversation."""

    role: Text
    content: Text


class TurnWithMetaDict(TurnDict[Text], Generic[Text]):
    """`seq` counts the session's turns from 1; `at` is Unix milliseconds."""

    seq: int
    at: int
    id: Text | None
    meta: Text | None


class SessionInfoDict(TypedDict):
    """Times are Unix milliseconds; `expires_at` is -1 for none."""

    turns: int
    window: int
    seq: int
    created: int
    expires_at: int
    bytes: int


class RecalledDict(TypedDict, Generic[Text]):
    """A fact that was found. With `explain`, also one that was not, and why: `left_out` is None for those found."""

    key: Text
    content: Text
    similarity: float
    lexical: NotRequired[float | None]
    score: NotRequired[float | None]
    left_out: NotRequired[str | None]


class RecalledWithMetaDict(RecalledDict[Text], Generic[Text]):
    """`stored_at` and `expires_at` are Unix milliseconds, -1 for no expiry."""

    source: Text | None
    trust: Text | None
    meta: Text | None
    stored_at: int
    expires_at: int


class FactDict(TypedDict, Generic[Text]):
    """A fact by its key. `stored_at` and `expires_at` are Unix milliseconds, -1 for no expiry."""

    key: Text
    content: Text
    source: Text | None
    trust: Text | None
    meta: Text | None
    stored_at: int
    expires_at: int


class FactWithVectorDict(FactDict[Text], Generic[Text]):
    """The components are the shortest decimals that read back as the same float32."""

    vector: list[float]


class NamespaceInfoDict(TypedDict):
    """`index` is the kind of index: `exact` or `hnsw`. Settings that were not given are 0 or None."""

    dim: int
    metric: str
    facts: int
    index: str
    tombstones: int
    bytes: int
    m: int
    ef_construction: int
    ef_search: int
    quant: str
    maxfacts: int
    model: str | None
    lang: str | None
    tail: int
    graphs: int
    merged: int
    merging: int


class EventDict(TypedDict, Generic[Text]):
    """An event; `timestamp` is Unix milliseconds. `metadata` is there when the event has any."""

    timestamp: int
    type: Text
    content: Text
    metadata: NotRequired[Text]


class EventWithMetaDict(TypedDict, Generic[Text]):
    """An event with all that was given of it."""

    timestamp: int
    type: Text
    content: Text
    metadata: Text | None
    id: Text | None


class LogStatsDict(TypedDict):
    """Times are Unix milliseconds, 0 for an agent without events."""

    total_events: int
    oldest_ts: int
    newest_ts: int


class LogStatsWithMetaDict(LogStatsDict):
    """The retention as well: events and seconds, -1 where there is none."""

    maxlen: int
    maxage: int


class SummaryVersionDict(TypedDict, Generic[Text]):
    """`updated_at` is Unix milliseconds."""

    version: int
    updated_at: int
    text: Text


class FoundDict(TypedDict, Generic[Text]):
    """`source` says which of an agent's memories the item is from."""

    source: Text
    key: Text
    content: Text
    similarity: float
