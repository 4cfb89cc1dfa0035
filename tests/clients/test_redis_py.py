"""redis-py 8 as it is: plain commands, pipelines, transactions, RESP2 and RESP3, and AMEM through `execute_command`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture(params=[2, 3])
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Any]:
    with redis.Redis(port=server.port, protocol=request.param) as connection:
        connection.flushall()
        yield connection


def test_strings_and_keys(client: Any) -> None:
    assert client.set("k", "v", ex=100) is True
    assert client.get("k") == b"v"
    assert 0 < client.ttl("k") <= 100
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", get=True) == b"v"
    assert client.mget(["k", "none"]) == [b"w", None]
    assert client.incrby("n", 5) == 5
    assert client.incrbyfloat("f", 0.1) == pytest.approx(0.1)
    assert sorted(client.scan_iter(match="*", count=1)) == [b"f", b"k", b"n"]
    assert client.type("k") in (b"string", "string")
    assert client.rename("k", "k2") is True
    assert client.delete("k2", "n", "f") == 3
    assert client.dbsize() == 0


def test_the_default_pipeline_is_a_transaction(client: Any) -> None:
    with client.pipeline() as pipe:
        pipe.set("a", 1).incr("a").get("a").execute_command("AMEM.CONV.CREATE", "s")
        assert pipe.execute() == [True, 2, b"2", b"OK"]

    def double(pipe: Any) -> None:
        value = int(pipe.get("a"))
        pipe.multi()
        pipe.set("a", value * 2)

    client.transaction(double, "a")
    assert client.get("a") == b"4"


def test_a_touched_watch_raises(client: Any) -> None:
    client.set("w", 1)
    with client.pipeline() as pipe:
        pipe.watch("w")
        client.set("w", 2)
        pipe.multi()
        pipe.set("w", 3)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("w") == b"2"


def test_server_commands_parse(client: Any) -> None:
    assert client.ping() is True
    assert client.info()["redis_version"]
    assert client.info("persistence")
    assert client.config_get("appendonly") == {"appendonly": "yes"}
    assert client.config_set("conv-window", 1000) is True
    assert client.client_setname("me") is True
    assert client.client_getname() in (b"me", "me")
    assert any(entry["name"] == "me" for entry in client.client_list())
    assert client.command_count() > 50
    assert client.command()["get"]["arity"] == 2
    assert isinstance(client.time(), tuple)
    assert client.slowlog_len() >= 0


def test_errors_are_the_usual_classes(client: Any) -> None:
    with pytest.raises(redis.ResponseError, match="session not found"):
        client.execute_command("AMEM.CONV.APPEND", "none", "user", "x")
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        client.execute_command("AMEM.CONV.APPEND", "none")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("AMEM.NOTHING")


async def test_asyncio(server: ServerProcess) -> None:
    client = redis.asyncio.Redis(port=server.port, protocol=3)
    try:
        await client.execute_command("AMEM.CONV.CREATE", "async")
        await client.execute_command("AMEM.CONV.APPEND", "async", "user", "hello")
        turns = await client.execute_command("AMEM.CONV.GET", "async")
        assert turns == [{b"role": b"user", b"content": b"hello"}]
        async with client.pipeline() as pipe:
            await pipe.set("x", 1).get("x").execute()
    finally:
        await client.aclose()


def test_login(tmp_path: Any) -> None:
    with ServerProcess(tmp_path, "--requirepass", "s3cret") as server:
        for protocol in (2, 3):
            with redis.Redis(port=server.port, password="s3cret", protocol=protocol) as client:
                assert client.set("k", "v")
            with (
                redis.Redis(port=server.port, password="wrong", protocol=protocol) as client,
                pytest.raises(redis.AuthenticationError),
            ):
                client.get("k")
            with (
                redis.Redis(port=server.port, protocol=protocol) as client,
                pytest.raises(redis.AuthenticationError),
            ):
                client.get("k")
