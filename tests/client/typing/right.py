"""Right uses of the typed client: a type checker must accept every line. Read by `test_types`, never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import numpy as np
import redis
from redis.connection import ConnectionPool

import amemdb
import amemdb.asyncio
from amemdb.client.errors import SessionNotFound, VersionMismatch
from amemdb.client.results import Event, Fact, Found, Summary, Turn
from amemdb.client.shapes import EventDict, FactDict, FactWithVectorDict, RecalledDict, TurnDict, TurnWithMetaDict

raw = amemdb.from_url("amemdb://localhost")
assert_type(raw, amemdb.Client[bytes])
text = amemdb.from_url("amemdb://localhost", decode_responses=True, socket_timeout=2.0)
assert_type(text, amemdb.Client[str])
assert_type(amemdb.Client(), amemdb.Client[bytes])
assert_type(amemdb.Client("localhost", 6379, decode_responses=True, password="p"), amemdb.Client[str])
assert_type(amemdb.Client(connection_pool=ConnectionPool()), amemdb.Client[Any])
assert_type(amemdb.Client.from_url("redis://localhost", decode_responses=True), amemdb.Client[str])
plain: redis.Redis = text


def either(decode: bool) -> None:
    assert_type(amemdb.from_url("redis://localhost", decode_responses=decode), amemdb.Client[Any])


def conversation(with_meta: bool) -> str:
    assert_type(text.amem_conv_create("s", window=50, ttl=86400), bool)
    text.amem_conv_create(b"s", pxat=datetime.now(UTC), nx=True)
    text.amem_conv_append("s", "user", "hello", id="1", at=1, meta={"channel": "mail", "tags": [1, None]})
    text.amem_conv_append("s", "user", "hello", meta='{"channel":"mail"}')
    text.amem_conv_expire("s", ttl=timedelta(hours=1))
    assert_type(text.amem_conv_get("s"), list[TurnDict[str]])
    assert_type(raw.amem_conv_window("s", 10), list[TurnDict[bytes]])
    turns = text.amem_conv_window("s", 10, with_meta=True)
    assert_type(turns, list[TurnWithMetaDict[str]])
    assert_type(turns[0]["at"], int)
    text.amem_conv_get("s", with_meta=with_meta)
    assert_type(text.amem_conv_info("s")["expires_at"], int)
    assert_type(text.amem_conv_scan(0, match="a*"), tuple[int, list[str]])
    for name in raw.amem_conv_scan_iter(count=100):
        assert_type(name, bytes)
    return turns[0]["content"]


def semantic() -> None:
    for vector in ([0.1, 0.2], (1, 2), np.zeros(3, np.float32), np.zeros(3), b"\0\0\x80?", memoryview(b"\0\0\x80?")):
        text.amem_sem_store("a", "k", "content", vector, source="mail", trust="untrusted")
    text.amem_sem_create("a", 3, metric="ip")
    found = text.amem_sem_recall("a", 3, [0.1, 0.2, 0.3], threshold=0.8)
    assert_type(found, list[RecalledDict[str]])
    assert_type([fact for fact in found if fact["similarity"] >= 0.8], list[RecalledDict[str]])
    assert_type(text.amem_sem_get("a", "k"), FactDict[str] | None)
    assert_type(text.amem_sem_get("a", "k", with_vector=True), FactWithVectorDict[str] | None)
    assert_type(raw.amem_sem_list("a"), list[bytes])


def the_rest() -> None:
    assert_type(text.amem_work_get("s", "ticket"), str | None)
    assert_type(raw.amem_work_getall("s"), dict[bytes, bytes])
    assert_type(text.amem_epis_query("a", type="action", from_ts=0, to_ts=datetime.now(UTC)), list[EventDict[str]])
    assert_type(text.amem_epis_page("a"), tuple[str, list[EventDict[str]]])
    text.amem_epis_retain("a", maxlen=100, maxage=timedelta(days=30))
    assert_type(text.amem_summary_get("a"), tuple[str, int, int] | None)
    try:
        assert_type(text.amem_summary_set("a", "text", if_version=2), int)
    except VersionMismatch as error:
        assert_type(error.have, int)
    except (SessionNotFound, redis.ResponseError):
        pass


def richer() -> None:
    assert_type(text.typed.amem_conv_get("s"), list[Turn])
    assert_type(text.typed.amem_sem_recall("a", 3, [1.0])[0].expires_at, datetime | None)
    assert_type(text.typed.amem_sem_get("a", "k"), Fact | None)
    assert_type(raw.typed.amem_epis_query("a"), list[Event])
    assert_type(text.typed.amem_summary_get("a"), Summary | None)
    assert_type(text.typed.amem_search("a", 3, [1.0]), list[Found])


def pipelined() -> None:
    with text.pipeline() as pipe:
        pipe.amem_conv_append("s", "user", "hello").amem_conv_get("s")
        pipe.set("k", "v")
        pipe.typed.amem_conv_get("s")
        pipe.execute()
    with raw as client:
        assert_type(client, amemdb.Client[bytes])


async def on_a_loop() -> None:
    client = amemdb.asyncio.from_url("amemdb://localhost", decode_responses=True)
    assert_type(client, amemdb.asyncio.Client[str])
    async with client:
        assert_type(await client.amem_conv_get("s", with_meta=True), list[TurnWithMetaDict[str]])
        assert_type(await client.typed.amem_conv_get("s"), list[Turn])
        assert_type([name async for name in client.amem_conv_scan_iter()], list[str])
        assert_type([event.at async for event in client.typed.amem_epis_page_iter("a")], list[datetime])
        async with client.pipeline(transaction=False) as pipe:
            pipe.amem_conv_get("s")
            await pipe.execute()
    amemdb.asyncio.Client(host="localhost", decode_responses=False)
