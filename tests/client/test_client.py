"""The clients against a real server: every method, on both protocols, decoded or not, blocking or on a loop."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel

import amemdb
import amemdb.asyncio
from amemdb.client import results
from amemdb.client.errors import (
    AmemError,
    DimensionMismatch,
    MisconfError,
    NamespaceExists,
    NamespaceNotFound,
    SessionExists,
    SessionNotFound,
    UndecodableReply,
    VersionMismatch,
    WrongTypeError,
    specific,
)
from tests.process import ServerProcess

MODES = [(protocol, decode) for protocol in (2, 3) for decode in (False, True)]
LATER = datetime(2060, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER_MS = 2840238245000

Call = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> Iterator[amemdb.Client[str]]:
    with amemdb.Client(port=server.port, decode_responses=True) as connection:
        connection.flushall()
        yield connection


def methods() -> set[str]:
    return {name for name in dir(amemdb.Client) if name.startswith("amem_")}


async def script(call: Call, t: Callable[[str], Any]) -> None:
    """Every method once or more; `call` waits where it must, `t` is text as the client gives it."""
    assert await call("amem_conv_create", "s", window=3, ttl=timedelta(hours=1)) is True
    assert await call("amem_conv_create", "s", pxat=LATER) is True
    for index in range(4):
        assert await call("amem_conv_append", "s", "user", f"turn {index}", id=f"id-{index}", at=index) is True
    assert await call("amem_conv_append", "s", "user", "turn 3", id="id-3") is True
    assert await call("amem_conv_get", "s") == [{"role": t("user"), "content": t(f"turn {i}")} for i in (1, 2, 3)]
    (turn,) = await call("amem_conv_window", "s", 1, with_meta=True)
    newest = {"role": t("user"), "content": t("turn 3"), "seq": 4, "at": 3, "id": t("id-3"), "meta": None}
    assert turn == newest
    assert list(turn) == list(newest)
    info = await call("amem_conv_info", "s")
    assert (info["turns"], info["window"], info["seq"], info["expires_at"]) == (3, 3, 4, LATER_MS)
    assert await call("amem_conv_expire", "s", persist=True) is True
    assert await call("amem_conv_expire", "nobody", ttl=1) is False
    assert await call("amem_conv_scan") == (0, [t("s")])
    assert await call("amem_conv_scan_iter", match="s*", count=1) == [t("s")]

    assert await call("amem_work_set", "s", "k", "v", ttl=1000) is True
    assert 0 < await call("amem_work_ttl", "s", "k") <= 1_000_000
    assert await call("amem_work_get", "s", "k") == t("v")
    assert await call("amem_work_getall", "s") == {t("k"): t("v")}
    assert await call("amem_work_list", "s") == [t("k")]
    assert await call("amem_work_del", "s", "k") is True
    assert await call("amem_work_clear", "s") is False
    assert await call("amem_conv_clear", "s") is True
    assert await call("amem_conv_drop", "s") is True

    assert await call("amem_sem_create", "a", 2, metric="ip") is True
    meta = {"lang": "de"}
    stored = {"source": "mail", "trust": "untrusted", "meta": meta, "pxat": LATER_MS}
    assert await call("amem_sem_store", "a", "k", "content", np.array([1, 2], np.float32), **stored) is True
    (fact,) = await call("amem_sem_recall", "a", 3, [1.0, 2.0], threshold=1e-7, with_meta=True)
    assert isinstance(fact["similarity"], float)
    described = {"source": t("mail"), "trust": t("untrusted"), "meta": t('{"lang":"de"}'), "expires_at": LATER_MS}
    assert fact.items() >= {"key": t("k"), "content": t("content"), **described}.items()
    plain = await call("amem_sem_recall", "a", 3, (1, 2))
    assert plain == [{"key": t("k"), "content": t("content"), "similarity": fact["similarity"]}]
    found = await call("amem_sem_get", "a", "k", with_vector=True)
    assert found.items() >= described.items()
    assert found["vector"] == [1.0, 2.0]
    assert "vector" not in await call("amem_sem_get", "a", "k")
    assert await call("amem_sem_get", "a", "none") is None
    about = await call("amem_sem_info", "a")
    assert (about["dim"], about["metric"], about["facts"], about["index"]) == (2, "ip", 1, "exact")
    assert await call("amem_search", "a", 1, [1.0, 2.0]) == [{"source": t("semantic"), **plain[0]}]
    assert await call("amem_sem_list", "a") == [t("k")]
    assert await call("amem_sem_scan") == (0, [t("a")])
    assert await call("amem_sem_scan_iter") == [t("a")]
    assert await call("amem_sem_forget", "a", "k") is True
    assert await call("amem_sem_drop", "a") is True

    for index in range(5):
        assert await call("amem_epis_log", "a", "action", f"event {index}", at=1000 + index, id=str(index)) is True
    assert await call("amem_epis_log", "a", "note", "last", at=2000, metadata={"n": 1}) is True
    assert await call("amem_epis_query", "a", from_ts=1004, newest_first=True) == [
        {"timestamp": 2000, "type": t("note"), "content": t("last"), "metadata": t('{"n":1}')},
        {"timestamp": 1004, "type": t("action"), "content": t("event 4")},
    ]
    assert await call("amem_epis_stats", "a") == {"total_events": 6, "oldest_ts": 1000, "newest_ts": 2000}
    cursor, page = await call("amem_epis_page", "a", count=2)
    assert isinstance(cursor, str)
    assert [event["timestamp"] for event in page] == [1000, 1001]
    assert (await call("amem_epis_page", "a", cursor, count=2))[1][0]["timestamp"] == 1002
    assert [event["timestamp"] for event in await call("amem_epis_page_iter", "a", count=4)] == [
        *range(1000, 1005),
        2000,
    ]
    assert await call("amem_epis_retain", "a", maxlen=2) == 4
    assert await call("amem_epis_scan") == (0, [t("a")])
    assert await call("amem_epis_scan_iter") == [t("a")]
    assert await call("amem_epis_clear", "a") is True

    assert await call("amem_summary_set", "a", "one", if_version=0) == 1
    assert await call("amem_summary_append", "a", "two") == 2
    text, version, seconds = await call("amem_summary_get", "a")
    assert (text, version) == (t("one\ntwo"), 2)
    (latest,) = await call("amem_summary_history", "a", count=1)
    assert (latest["version"], latest["text"], latest["updated_at"] // 1000) == (2, t("one\ntwo"), seconds)
    assert await call("amem_summary_list") == [t("a")]
    assert await call("amem_summary_scan") == (0, [t("a")])
    assert await call("amem_summary_scan_iter") == [t("a")]
    assert await call("amem_summary_drop", "a") is True
    assert await call("amem_summary_get", "a") is None


@pytest.mark.parametrize(("protocol", "decode"), MODES)
async def test_every_method(server: ServerProcess, protocol: int, decode: bool) -> None:
    called = set()
    with amemdb.Client(port=server.port, protocol=protocol, decode_responses=decode) as client:
        client.flushall()

        async def call(name: str, *args: Any, **options: Any) -> Any:
            called.add(name)
            value = getattr(client, name)(*args, **options)
            return list(value) if name.endswith("_iter") else value

        await script(call, str if decode else str.encode)
    assert called == methods()


@pytest.mark.parametrize(("protocol", "decode"), MODES)
async def test_every_method_on_a_loop(server: ServerProcess, protocol: int, decode: bool) -> None:
    called = set()
    async with amemdb.asyncio.Client(port=server.port, protocol=protocol, decode_responses=decode) as client:
        await client.flushall()

        async def call(name: str, *args: Any, **options: Any) -> Any:
            called.add(name)
            value = getattr(client, name)(*args, **options)
            return [item async for item in value] if name.endswith("_iter") else await value

        await script(call, str if decode else str.encode)
    assert called == methods()


PIPES = [(transaction, *mode) for transaction in (False, True) for mode in MODES]


@pytest.mark.parametrize(("transaction", "protocol", "decode"), PIPES)
async def test_every_method_in_a_pipeline(
    server: ServerProcess, transaction: bool, protocol: int, decode: bool
) -> None:
    with amemdb.Client(port=server.port, protocol=protocol, decode_responses=decode) as client:
        client.flushall()

        async def call(name: str, *args: Any, **options: Any) -> Any:
            if name.endswith("_iter"):
                return list(getattr(client, name)(*args, **options))
            with client.pipeline(transaction=transaction) as pipe:
                assert getattr(pipe, name)(*args, **options) is pipe
                return pipe.execute()[0]

        await script(call, str if decode else str.encode)


@pytest.mark.parametrize("transaction", [False, True])
async def test_every_method_in_a_pipeline_on_a_loop(server: ServerProcess, transaction: bool) -> None:
    async with amemdb.asyncio.Client(port=server.port) as client:
        await client.flushall()

        async def call(name: str, *args: Any, **options: Any) -> Any:
            if name.endswith("_iter"):
                return [item async for item in getattr(client, name)(*args, **options)]
            async with client.pipeline(transaction=transaction) as pipe:
                assert getattr(pipe, name)(*args, **options) is pipe
                return (await pipe.execute())[0]

        await script(call, str.encode)


def test_a_command_in_words_is_shaped_like_its_method(client: amemdb.Client[str]) -> None:
    client.amem_conv_create("s")
    client.amem_conv_append("s", "user", "hello")
    assert client.execute_command("AMEM.CONV.GET", "s") == client.amem_conv_get("s")
    assert client.execute_command("amem.conv.drop", "s") is True
    assert client.amem_work_getall("s") == {}


def test_bytes_that_are_no_text_come_back_as_they_were(server: ServerProcess) -> None:
    everything = bytes(range(256))
    with amemdb.Client(port=server.port) as client:
        client.amem_conv_create(everything)
        client.amem_conv_append(everything, "user", everything, id=everything)
        assert (
            client.amem_conv_get(everything, with_meta=True)[0].items()
            >= {"content": everything, "id": everything}.items()
        )
        client.amem_work_set(everything, everything, everything)
        assert client.amem_work_getall(everything) == {everything: everything}
        assert everything in list(client.amem_conv_scan_iter())


def test_a_scan_gives_every_name_however_small_its_pages(client: amemdb.Client[str]) -> None:
    names = {f"session-{index}" for index in range(57)}
    for name in names:
        client.amem_conv_create(name)
    assert set(client.amem_conv_scan_iter(count=5)) == names
    assert set(client.amem_conv_scan_iter(match="*-1?")) == {f"session-1{digit}" for digit in range(10)}


# -- errors ------------------------------------------------------------------------------------------

MISTAKES: list[tuple[type[AmemError], str, tuple[Any, ...], dict[str, Any]]] = [
    (SessionNotFound, "amem_conv_append", ("nobody", "user", "c"), {}),
    (SessionNotFound, "amem_work_set", ("nobody", "k", "v"), {}),
    (SessionNotFound, "amem_conv_info", ("nobody",), {}),
    (SessionExists, "amem_conv_create", ("s",), {"nx": True}),
    (NamespaceNotFound, "amem_sem_store", ("nobody", "k", "c", [1.0]), {}),
    (NamespaceNotFound, "amem_sem_info", ("nobody",), {}),
    (NamespaceExists, "amem_sem_create", ("a", 4), {}),
    (DimensionMismatch, "amem_sem_store", ("a", "k", "c", [1.0, 2.0]), {}),
    (DimensionMismatch, "amem_sem_recall", ("a", 1, [1.0, 2.0]), {}),
    (VersionMismatch, "amem_summary_set", ("a", "text"), {"if_version": 7}),
]


def prepare(client: amemdb.Client[Any]) -> None:
    client.flushall()
    client.amem_conv_create("s")
    client.amem_sem_create("a", 3)
    for text in ("one", "two"):
        client.amem_summary_set("a", text)


@pytest.mark.parametrize(("kind", "name", "args", "options"), MISTAKES)
async def test_mistakes_have_their_class(
    server: ServerProcess, kind: type[AmemError], name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with amemdb.Client(port=server.port) as client:
        prepare(client)
        with pytest.raises(kind) as alone:
            getattr(client, name)(*args, **options)
        assert isinstance(alone.value, redis.ResponseError)
        for transaction in (False, True):
            with client.pipeline(transaction=transaction) as pipe:
                getattr(pipe.set("k", "v"), name)(*args, **options)
                with pytest.raises(kind, match="Command # 2"):
                    pipe.execute()
                getattr(pipe.set("k", "v"), name)(*args, **options)
                done, error = pipe.execute(raise_on_error=False)
                assert done is True
                assert type(error) is kind
                assert vars(error) == {name: value for name, value in vars(alone.value).items() if name != "__notes__"}
    async with amemdb.asyncio.Client(port=server.port) as client:
        with pytest.raises(kind):
            await getattr(client, name)(*args, **options)
        for transaction in (False, True):
            async with client.pipeline(transaction=transaction) as pipe:
                getattr(pipe.set("k", "v"), name)(*args, **options)
                with pytest.raises(kind, match="Command # 2"):
                    await pipe.execute()


def test_what_an_error_knows(client: amemdb.Client[str]) -> None:
    prepare(client)
    with pytest.raises(VersionMismatch) as stale:
        client.amem_summary_set("a", "three", if_version=1)
    assert stale.value.have == 2
    with pytest.raises(DimensionMismatch) as short:
        client.amem_sem_recall("a", 1, [1.0])
    assert short.value.expected == 3
    with pytest.raises(DimensionMismatch) as in_words:
        client.execute_command("AMEM.SEM.RECALL", "a", 1, "1.0")
    assert in_words.value.expected == 3
    for error in (stale.value, short.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), vars(again), str(again)) == (type(error), vars(error), str(error))


async def test_a_name_that_is_not_there_is_noted_with_the_remedy(server: ServerProcess) -> None:
    note = "'ann' has expired or was never opened: amem_conv_create opens it"
    with amemdb.Client(port=server.port) as client:
        client.flushall()
        with pytest.raises(SessionNotFound) as unknown:
            client.amem_conv_append("ann", "user", "hello")
        assert (str(unknown.value), unknown.value.__notes__) == ("session not found", [note])
        with pytest.raises(SessionNotFound) as long:
            client.amem_work_set(b"n" * 1000, "key", "value")
        assert len(long.value.__notes__[0]) < 200
        with pytest.raises(NamespaceNotFound) as none:
            client.amem_sem_store("kbé", "key", "content", [1.0])
        assert none.value.__notes__ == ["'kbé' has no semantic memory: amem_sem_create makes it"]
        with pytest.raises(SessionNotFound) as in_words:
            client.execute_command("AMEM.CONV.APPEND ann", "user", "hello")
        assert not hasattr(in_words.value, "__notes__")
    async with amemdb.asyncio.Client(port=server.port) as client:
        with pytest.raises(SessionNotFound) as unknown:
            await client.amem_conv_append("ann", "user", "hello")
        assert unknown.value.__notes__ == [note]


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_missing_password_is_noted_with_the_remedy(server: ServerProcess, protocol: int) -> None:
    note = ["the server asks for a password: pass password=, or put it into the URL"]
    with amemdb.Client(port=server.port) as open_before:
        open_before.config_set("requirepass", "correct")
        try:
            with amemdb.Client(port=server.port, protocol=protocol) as client:
                with pytest.raises(redis.AuthenticationError) as refused:
                    client.amem_conv_get("s")
                assert refused.value.__notes__ == note
            async with amemdb.asyncio.Client(port=server.port, protocol=protocol) as client:
                with pytest.raises(redis.AuthenticationError) as refused:
                    await client.amem_conv_get("s")
                assert refused.value.__notes__ == note
            with amemdb.Client(port=server.port, protocol=protocol, password="wrong") as client:
                with pytest.raises(redis.AuthenticationError) as refused:
                    client.amem_conv_get("s")
                assert not hasattr(refused.value, "__notes__")
        finally:
            with amemdb.Client(port=server.port, password="correct") as client:
                client.config_set("requirepass", "")


def test_an_error_that_cannot_be_queued_aborts_the_transaction(client: amemdb.Client[str]) -> None:
    with client.pipeline() as pipe:
        pipe.amem_conv_create("made").execute_command("AMEM.CONV.CREATE")
        with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
            pipe.execute()
    assert client.amem_conv_scan() == (0, [])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("MISCONF the log cannot be written", MisconfError),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", WrongTypeError),
        ("session already exists", SessionExists),
        ("something else: session not found", redis.ResponseError),
        ("vector must have 1 to 65536 components, got 0", redis.ResponseError),
        ("", redis.ResponseError),
    ],
)
def test_the_text_decides(text: str, kind: type[Exception]) -> None:
    assert type(specific(redis.ResponseError(text))) is kind


def test_classes_of_redis_py_stay_as_they_are() -> None:
    for error in (redis.ReadOnlyError("session not found"), redis.ResponseError()):
        assert specific(error) is error


# -- transactions, results, other ways to a client ---------------------------------------------------


def test_between_watch_and_multi_methods_answer_at_once(client: amemdb.Client[str]) -> None:
    client.amem_conv_create("s")

    def remember(pipe: Any) -> None:
        turns = pipe.amem_conv_get("s")
        assert turns == []
        pipe.multi()
        pipe.amem_conv_append("s", "user", f"{len(turns)} before").set("k", "v")

    assert client.transaction(remember, "k") == [True, True]
    assert client.amem_conv_get("s") == [{"role": "user", "content": "0 before"}]


@pytest.mark.parametrize(("protocol", "decode"), MODES)
def test_richer_results(server: ServerProcess, protocol: int, decode: bool) -> None:
    with amemdb.Client(port=server.port, protocol=protocol, decode_responses=decode) as client:
        client.flushall()
        typed = client.typed
        client.amem_conv_create("s")
        client.amem_conv_append("s", "user", "grüß", at=LATER, id="1", meta={"a": [1]})
        client.amem_conv_append("s", "tool", "done", at=1500)
        turns = [
            results.Turn("user", "grüß", 1, LATER, "1", {"a": [1]}),
            results.Turn("tool", "done", 2, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ]
        assert typed.amem_conv_get("s") == turns
        assert typed.amem_conv_window("s", 1) == turns[1:]

        client.amem_sem_create("a", 2)
        client.amem_sem_store("a", "k", "c", [0.25, 0.5], trust="trusted", pxat=LATER)
        (recalled,) = typed.amem_sem_recall("a", 1, [0.25, 0.5])
        fact = typed.amem_sem_get("a", "k", with_vector=True)
        assert fact is not None
        assert (fact.trust, fact.source, fact.expires_at, fact.vector) == ("trusted", None, LATER, (0.25, 0.5))
        assert recalled.similarity == pytest.approx(1)
        assert recalled.stored_at == fact.stored_at
        assert recalled.vector is None
        (joint,) = typed.amem_sem_recall("a", 1, [0.25, 0.5], hybrid="c")
        assert (recalled.lexical, recalled.score) == (None, None)
        assert joint.lexical is not None
        assert joint.lexical > 0.0
        assert joint.score == pytest.approx(1)
        assert typed.amem_sem_get("a", "none") is None
        assert typed.amem_search("a", 1, [0.25, 0.5]) == [results.Found("semantic", "k", "c", recalled.similarity)]

        client.amem_epis_log("a", "action", "e", at=LATER, metadata="m")
        client.amem_epis_log("a", "action", "f", at=LATER)
        events = [results.Event(LATER, "action", "e", "m"), results.Event(LATER, "action", "f")]
        assert typed.amem_epis_query("a") == events
        assert typed.amem_epis_page("a") == ("0", events)
        assert list(typed.amem_epis_page_iter("a", count=1)) == events

        assert typed.amem_summary_get("a") is None
        client.amem_summary_set("a", "text")
        summary = typed.amem_summary_get("a")
        (version,) = typed.amem_summary_history("a")
        assert summary is not None
        assert (summary.text, summary.version) == (version.text, version.version) == ("text", 1)
        assert timedelta() <= version.updated_at - summary.updated_at < timedelta(seconds=1)
        for transaction in (False, True):
            with client.pipeline(transaction=transaction) as pipe:
                pipe.typed.amem_conv_get("s").amem_conv_clear("s")
                pipe.typed.amem_epis_query("a")
                assert pipe.execute() == [turns, True, events]
            client.amem_conv_append("s", "user", "grüß", at=LATER, id="1", meta={"a": [1]})
            client.amem_conv_append("s", "tool", "done", at=1500)
            turns = typed.amem_conv_get("s")


@pytest.mark.parametrize("transaction", [False, True])
def test_bytes_that_are_no_text_leave_the_connection_in_order(server: ServerProcess, transaction: bool) -> None:
    with amemdb.Client(port=server.port, single_connection_client=True) as client:
        client.flushall()
        client.amem_conv_create("s")
        client.amem_conv_append("s", "user", b"\xff")
        with pytest.raises(UndecodableReply) as alone:
            client.typed.amem_conv_get("s")
        assert isinstance(alone.value.__cause__, UnicodeDecodeError)
        with client.pipeline(transaction=transaction) as pipe:
            pipe.typed.amem_conv_get("s")
            pipe.set("k", "behind").get("k")
            with pytest.raises(UndecodableReply):
                pipe.execute()
        assert client.get("k") == b"behind"
        assert client.amem_conv_get("s") == [{"role": b"user", "content": b"\xff"}]


async def test_bytes_that_are_no_text_leave_the_connection_in_order_on_a_loop(server: ServerProcess) -> None:
    async with amemdb.asyncio.Client(port=server.port, max_connections=1) as client:
        await client.flushall()
        await client.amem_summary_set("a", b"\xff")
        for transaction in (False, True):
            async with client.pipeline(transaction=transaction) as pipe:
                pipe.typed.amem_summary_get("a")
                pipe.set("k", "behind").get("k")
                with pytest.raises(UndecodableReply):
                    await pipe.execute()
            assert await client.get("k") == b"behind"


def test_pages_with_everything_that_was_given(client: amemdb.Client[str]) -> None:
    client.amem_epis_log("a", "action", "e", at=1000, id="one")
    client.amem_epis_log("a", "action", "f", at=1000)
    shown = [
        {"timestamp": 1000, "type": "action", "content": "e", "metadata": None, "id": "one"},
        {"timestamp": 1000, "type": "action", "content": "f", "metadata": None, "id": None},
    ]
    assert client.amem_epis_page("a", with_meta=True) == ("0", shown)
    assert list(client.amem_epis_page_iter("a", count=1, with_meta=True)) == shown
    assert [event.id for event in client.typed.amem_epis_page_iter("a")] == ["one", None]
    client.amem_epis_log("a", "action", "now")
    assert client.amem_epis_retain("a", maxlen=5, maxage=timedelta(days=400)) == 2
    stats = client.amem_epis_stats("a", with_meta=True)
    assert (stats["total_events"], stats["maxlen"], stats["maxage"]) == (1, 5, 400 * 86400)


async def test_richer_results_on_a_loop(server: ServerProcess) -> None:
    async with amemdb.asyncio.Client(port=server.port) as client:
        await client.flushall()
        await client.amem_epis_log("a", "action", "e", at=LATER)
        event = results.Event(LATER, "action", "e")
        assert await client.typed.amem_epis_query("a") == [event]
        assert [each async for each in client.typed.amem_epis_page_iter("a")] == [event]
        async with client.pipeline() as pipe:
            pipe.typed.amem_epis_page("a")
            assert await pipe.execute() == [("0", [event])]


def test_a_client_by_sentinel(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    sentinel = Sentinel([("127.0.0.1", 1)])
    monkeypatch.setattr(sentinel, "discover_master", lambda service: ("127.0.0.1", server.port))
    with sentinel.master_for("memory", redis_class=amemdb.Client) as client:
        assert type(client) is amemdb.Client
        client.flushall()
        assert client.amem_conv_create("s") is True
        assert client.amem_conv_get("s") == []
        with pytest.raises(SessionNotFound):
            client.pipeline().amem_conv_append("nobody", "user", "c").execute()


async def test_a_client_by_sentinel_on_a_loop(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    sentinel = redis.asyncio.Sentinel([("127.0.0.1", 1)])

    async def discover(service: str) -> tuple[str, int]:
        return "127.0.0.1", server.port

    monkeypatch.setattr(sentinel, "discover_master", discover)
    client = sentinel.master_for("memory", redis_class=amemdb.asyncio.Client)
    try:
        assert type(client) is amemdb.asyncio.Client
        assert await client.amem_conv_create("by-sentinel") is True
    finally:
        await client.aclose()


def test_other_ways_to_a_client(server: ServerProcess) -> None:
    pool = redis.ConnectionPool(port=server.port)
    for client in (
        amemdb.Client(connection_pool=pool),
        amemdb.Client.from_pool(pool),
        amemdb.Client("localhost", server.port),
    ):
        client.flushall()
        assert client.amem_conv_create("s") is True
        assert type(client.client()) is amemdb.Client
    pool.disconnect()


async def test_many_tasks_on_one_client(server: ServerProcess) -> None:
    async with amemdb.asyncio.Client(port=server.port) as client:
        await client.flushall()
        await asyncio.gather(*(client.amem_conv_create(f"s{index}") for index in range(50)))
        assert len([name async for name in client.amem_conv_scan_iter()]) == 50


def test_methods_are_coroutines_on_a_loop() -> None:
    for name in methods():
        method = getattr(amemdb.asyncio.Client, name)
        assert inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


ARTICLE = """
import {module}

r = {module}.from_url("{scheme}://localhost:{port}")
LEAST = 0.8

def open_session(session):
    r.amem_conv_create(session, window=50, ttl=86400)

def gather(session, question):
    r.amem_conv_append(session, "user", question)
    turns = r.amem_conv_window(session, 10)
    facts = r.amem_sem_recall("kb", 3, [0.1, 0.2, 0.3])
    facts = [fact for fact in facts if fact["similarity"] >= LEAST]
    return turns, facts, r.amem_work_get(session, "ticket")

def close_turn(session, agent, reply):
    r.amem_conv_append(session, "assistant", reply)
    r.amem_epis_log(agent, "action", "Answered")
    r.amem_work_set(session, "last_step", "answered")

r.flushall()
r.amem_sem_create("kb", 3)
r.amem_sem_store("kb", "near", "close by", [0.1, 0.2, 0.3])
r.amem_sem_store("kb", "far", "elsewhere", [-0.3, 0.2, -0.1])
open_session("one")
r.amem_work_set("one", "ticket", "T-1", ttl=3600)
answers = [gather("one", "Where?"), close_turn("one", "helper", "Here."), gather("one", "Sure?")]
"""


@pytest.mark.parametrize("scheme", ["hotkv", "redis"])
def test_a_program_for_hotkv_needs_another_import_and_no_more(server: ServerProcess, scheme: str) -> None:
    answers = []
    for module in ("hotkv", "amemdb"):
        names: dict[str, Any] = {}
        exec(ARTICLE.format(module=module, scheme=scheme, port=server.port), names)  # noqa: S102
        answers.append(names["answers"])
        names["r"].close()
    assert answers[0] == answers[1]
    turns, facts, ticket = answers[1][2]
    assert [turn["content"] for turn in turns] == [b"Where?", b"Here.", b"Sure?"]
    assert [fact["key"] for fact in facts] == [b"near"]
    assert ticket == b"T-1"
