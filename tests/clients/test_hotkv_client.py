"""The published HotKV client, unmodified, sync and asyncio, on both protocols and both ways of decoding.

Every `amem_*` method it has is called and must give the shape that its callbacks expect.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import hotkv
import hotkv.asyncio
import pytest
from process import ServerProcess

MODES = [(resp3, decode) for resp3 in (True, False) for decode in (True, False)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


class Told:
    """What a script of calls gave, and the names of the methods it called."""

    def __init__(self, decode: bool) -> None:
        self.decode = decode
        self.called: set[str] = set()

    def text(self, value: str) -> Any:
        return value if self.decode else value.encode()


def every_method() -> set[str]:
    return {name for name, _ in inspect.getmembers(hotkv.HotKV, inspect.isfunction) if name.startswith("amem_")}


async def script(call: Any, told: Told, suffix: str) -> None:
    """Call every method through `call(name, *args, **kw)`, which awaits where it must."""
    t = told.text
    s, a = f"session-{suffix}", f"agent-{suffix}"

    async def do(name: str, *args: Any, **kw: Any) -> Any:
        told.called.add(name)
        return await call(name, *args, **kw)

    assert await do("amem_conv_create", s, window=3, ttl=86400) is True
    for index in range(4):
        assert await do("amem_conv_append", s, "user", f"turn {index}") is True
    window = await do("amem_conv_window", s, 2)
    assert window == [{"role": t("user"), "content": t(f"turn {i}")} for i in (2, 3)]
    assert await do("amem_conv_get", s) == [{"role": t("user"), "content": t(f"turn {i}")} for i in (1, 2, 3)]
    assert await do("amem_work_set", s, "ticket", "INV-1932", ttl=3600) is True
    assert await do("amem_work_get", s, "ticket") == t("INV-1932")
    assert await do("amem_work_get", s, "missing") is None
    assert await do("amem_work_list", s) == [t("ticket")]
    assert await do("amem_work_del", s, "ticket") is True
    assert await do("amem_work_del", s, "ticket") is False
    assert await do("amem_work_set", s, "a", "1", pxat=1) is True
    assert await do("amem_work_get", s, "a") is None
    assert await do("amem_work_clear", s) is False
    assert await do("amem_conv_clear", s) is True
    assert await do("amem_conv_get", s) == []
    assert await do("amem_conv_drop", s) is True
    assert await do("amem_conv_drop", s) is False

    assert await do("amem_sem_create", a, 3) is True
    assert await do("amem_sem_store", a, "vat", "VAT details can be corrected.", [0.1, 0.2, 0.3]) is True
    assert await do("amem_sem_store", a, "tiny", "Small numbers.", [1e-8, 1.0, -1e-30], ttl=60) is True
    found = await do("amem_sem_recall", a, 3, [0.1, 0.2, 0.3])
    assert [item["key"] for item in found] == [t("vat"), t("tiny")]
    assert set(found[0]) == {"key", "content", "similarity"}
    assert isinstance(found[0]["similarity"], float)
    assert found[0]["similarity"] == pytest.approx(1.0, abs=1e-6)
    assert sorted(await do("amem_sem_list", a)) == [t("tiny"), t("vat")]
    combined = await do("amem_search", a, 1, [0.1, 0.2, 0.3])
    assert combined[0]["key"] == t("vat")
    assert isinstance(combined[0]["similarity"], float)
    assert combined[0]["source"] == t("semantic")
    assert await do("amem_sem_forget", a, "vat") is True
    assert await do("amem_sem_forget", a, "vat") is False
    assert await do("amem_sem_recall", "nobody-" + suffix, 3, [0.1, 0.2, 0.3]) == []

    assert await do("amem_epis_log", a, "action", "Looked up invoice", metadata='{"id": 1}') is True
    assert await do("amem_epis_log", a, "decision", "Refund") is True
    events = await do("amem_epis_query", a)
    assert [event["content"] for event in events] == [t("Looked up invoice"), t("Refund")]
    assert all(isinstance(event["timestamp"], int) for event in events)
    assert events[0]["metadata"] == t('{"id": 1}')
    assert "metadata" not in events[1]
    at = events[0]["timestamp"]
    assert len(await do("amem_epis_query", a, type="action", from_ts=at, to_ts=at + 1, limit=5)) == 1
    stats = await do("amem_epis_stats", a)
    assert stats == {"total_events": 2, "oldest_ts": at, "newest_ts": events[1]["timestamp"]}
    assert await do("amem_epis_clear", a) is True

    assert await do("amem_summary_set", a, "Prefers short answers.") == 1
    assert await do("amem_summary_append", a, "Works in finance.") == 2
    summary = await do("amem_summary_get", a)
    assert summary[:2] == (t("Prefers short answers.\nWorks in finance."), 2)
    assert isinstance(summary[2], int)
    assert summary[2] < 10**11, "seconds, not milliseconds"
    assert t(a) in await do("amem_summary_list")
    assert await do("amem_summary_drop", a) is True
    assert await do("amem_summary_get", a) is None


@pytest.mark.parametrize(("resp3", "decode"), MODES)
async def test_every_method_of_the_sync_client(server: ServerProcess, resp3: bool, decode: bool) -> None:
    told = Told(decode)
    with hotkv.HotKV(port=server.port, resp3=resp3, decode_responses=decode) as client:

        async def call(name: str, *args: Any, **kw: Any) -> Any:
            return getattr(client, name)(*args, **kw)

        await script(call, told, f"sync-{resp3}-{decode}")
        with pytest.raises(hotkv.ResponseError, match="session not found"):
            client.amem_conv_append("nobody", "user", "hello")
    assert told.called == every_method()


@pytest.mark.parametrize(("resp3", "decode"), MODES)
async def test_every_method_of_the_asyncio_client(server: ServerProcess, resp3: bool, decode: bool) -> None:
    told = Told(decode)
    async with hotkv.asyncio.HotKV(port=server.port, resp3=resp3, decode_responses=decode) as client:

        async def call(name: str, *args: Any, **kw: Any) -> Any:
            return await getattr(client, name)(*args, **kw)

        await script(call, told, f"async-{resp3}-{decode}")
    assert told.called == every_method()


@pytest.mark.parametrize(("resp3", "decode"), MODES)
def test_pipelines_and_transactions(server: ServerProcess, resp3: bool, decode: bool) -> None:
    told = Told(decode)
    s = f"piped-{resp3}-{decode}"
    with hotkv.HotKV(port=server.port, resp3=resp3, decode_responses=decode) as client:
        for transaction in (True, False):
            with client.pipeline(transaction=transaction) as pipe:
                pipe.amem_conv_create(s)
                pipe.amem_conv_append(s, "user", "hello")
                pipe.amem_conv_window(s, 1)
                pipe.amem_sem_create(s, 2)
                pipe.amem_sem_store(s, "k", "fact", [1, 0])
                pipe.amem_sem_recall(s, 1, [1, 0])
                replies = pipe.execute()
            assert replies[:2] == [True, True]
            assert replies[2] == [{"role": told.text("user"), "content": told.text("hello")}]
            assert replies[5][0]["similarity"] == pytest.approx(1.0)

        def raise_balance(pipe: Any) -> None:
            have = int(pipe.get(f"balance-{s}") or 0)
            pipe.multi()
            pipe.set(f"balance-{s}", have + 10)

        client.transaction(raise_balance, f"balance-{s}")
        client.transaction(raise_balance, f"balance-{s}")
        assert int(client.get(f"balance-{s}")) == 20
        with client.pipeline() as pipe:
            pipe.watch(f"balance-{s}")
            client.set(f"balance-{s}", 1)
            pipe.multi()
            pipe.set(f"balance-{s}", 2)
            with pytest.raises(hotkv.WatchError):
                pipe.execute()


def test_urls_and_login(tmp_path: Any) -> None:
    with ServerProcess(tmp_path, "--requirepass", "s3cret") as server:
        with hotkv.from_url(f"hotkv://:s3cret@127.0.0.1:{server.port}/0") as client:
            assert client.amem_conv_create("s") is True
        for resp3 in (True, False):
            with (
                pytest.raises(hotkv.HotKVError),
                hotkv.HotKV(port=server.port, password="wrong", resp3=resp3) as client,
            ):
                client.amem_conv_create("s")
