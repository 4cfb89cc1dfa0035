"""The embedder on real sockets: who waits, who does not, and what happens when it fails, hangs or the server stops."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from typing import Any

import hiredis
import pytest
import redis

from amemdb.config import Config
from amemdb.embed.embedder import Embedder
from amemdb.embed.service import Service
from amemdb.server import run
from amemdb.server.embedding import service_of
from tests.embed import endpoints
from tests.process import ServerProcess
from tests.server.live import Client, Live, line, live, until

OK = b"+OK\r\n"
CREATE = line("AMEM.SEM.CREATE", "a", "2")
PING_SECONDS = 0.5


def store(key: str, text: str) -> bytes:
    return line("AMEM.SEM.STORE", "a", key, text, "EMBED")


class Gated(Embedder):
    """Answers when the test opens the gate."""

    def __init__(self) -> None:
        super().__init__("gated")
        self.gate = threading.Event()
        self.entered = 0
        self.failing = False
        self.calls: list[list[str]] = []

    def _answer(self, texts: list[str]) -> Any:
        self.calls.append(texts)
        self.entered += 1
        assert self.gate.wait(30)
        if self.failing:
            raise self._failed("down")
        if "bug" in texts:
            raise ZeroDivisionError
        return [[float(len(text)), 1.0] for text in texts]


async def answer(client: Client) -> Any:
    """The next reply."""
    reader = hiredis.Reader()
    while (value := reader.gets()) is False:
        reader.feed(await client.reader.read(65536))
    return value


def test_who_asks_waits_and_nobody_else():
    model = Gated()

    async def test(server: Live) -> None:
        one, other = await server.client(), await server.client()
        await one.ask(CREATE, OK)
        one.send(store("k", "text") + line("PING") + line("AMEM.SEM.LIST", "a"))
        await until(lambda: model.entered == 1)
        await other.ask(line("AMEM.SEM.LIST", "a"), b"*0\r\n")
        await other.ask(line("AMEM.SEM.STORE", "a", "mine", "text", "1", "2"), OK)
        model.gate.set()
        await one.expect(OK + b"+PONG\r\n*2\r\n$4\r\nmine\r\n$1\r\nk\r\n")

    live(test, service=Service(model))


def test_what_many_clients_ask_goes_together():
    model = Gated()
    service = Service(model)

    async def test(server: Live) -> None:
        clients = [await server.client() for _ in range(20)]
        await clients[0].ask(CREATE, OK)
        clients[0].send(store("k", "first"))
        await until(lambda: model.entered == 1)
        for number, client in enumerate(clients[1:]):
            client.send(store(f"k{number}", f"text {number}"))
        await until(lambda: service.waiting == 19)
        model.gate.set()
        for client in clients:
            await client.expect(OK)
        assert [len(texts) for texts in model.calls] == [1, 19]

    live(test, service=service)


def test_what_is_in_the_cache_is_answered_without_the_model():
    model = Gated()
    model.gate.set()

    async def test(server: Live) -> None:
        client = await server.client()
        await client.ask(CREATE, OK)
        await client.ask(store("k", "text"), OK)
        model.gate.clear()
        client.send(line("AMEM.SEM.RECALL", "a", "1", "TEXT", "text") + store("again", "text"))
        found = await answer(client)
        assert found[0][1] == b"k"
        model.gate.set()

    live(test, service=Service(model, cache_bytes=1 << 20))
    assert model.calls == [["text"]]


def test_waiting_ends_in_time_and_the_answer_that_comes_later_is_dropped(caplog):
    model = Gated()

    async def test(server: Live) -> None:
        client, other = await server.client(), await server.client()
        await client.ask(CREATE, OK)
        client.send(store("k", "text"))
        told = await answer(client)
        assert str(told) == "ERR embedder 'gated': no answer within 1 s, see embedder-timeout"
        assert (await info(other))["embedder_timeouts"] == "1"
        model.gate.set()
        await client.ask(line("AMEM.SEM.LIST", "a"), b"*0\r\n")
        await client.ask(store("k", "text"), OK)

    with caplog.at_level(logging.INFO, "amemdb"):
        live(test, service=Service(model), embedder_timeout=1)
    assert [record.getMessage() for record in caplog.records if "embedder" in record.getMessage()] == [
        "embedder 'gated': no answer within 1 s, see embedder-timeout",
        "the embedder answers again",
    ]


def test_a_failure_is_told_to_who_asked_and_in_info_and_once_in_the_log(caplog):
    model = Gated()
    model.gate.set()
    model.failing = True

    async def test(server: Live) -> None:
        client = await server.client()
        await client.ask(CREATE, OK)
        for _ in range(3):
            await client.ask(store("k", "text"), b"-ERR embedder 'gated': down\r\n")
        told = await info(client)
        assert (told["embedder_failures"], told["embedder_last_error"]) == ("3", "embedder 'gated': down")
        assert told["embedder_model"] == "gated"
        await client.ask(line("CONFIG", "RESETSTAT"), OK)
        assert (await info(client))["embedder_failures"] == "0"

    with caplog.at_level(logging.INFO, "amemdb"):
        live(test, service=Service(model))
    assert [record.getMessage() for record in caplog.records].count("embedder 'gated': down") == 1


async def info(client: Client) -> dict[str, str]:
    client.send(line("INFO", "embedder"))
    lines = (await answer(client)).decode().splitlines()[1:]
    return dict(text.split(":", 1) for text in lines)


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind():
    model = Gated()

    async def test(server: Live) -> None:
        client, other = await server.client(), await server.client()
        await other.ask(CREATE, OK)
        client.send(store("k", "text"))
        await until(lambda: model.entered == 1)
        client.writer.transport.abort()
        model.gate.set()
        await until(lambda: len(server.node.state.sessions) == 1)
        await other.ask(store("k2", "other"), OK)
        assert not server.node.host.work

    live(test, service=Service(model))


def test_a_server_that_stops_does_not_wait_for_a_model_that_hangs(monkeypatch):
    monkeypatch.setattr("amemdb.server.node.REPLIES_S_MAX", 0.05)
    monkeypatch.setattr("amemdb.embed.service.CLOSE_S_MAX", 0.05)
    model = Gated()

    async def test(server: Live) -> None:
        client = await server.client()
        await client.ask(CREATE, OK)
        client.send(store("k", "text"))
        await until(lambda: model.entered == 1)

    started_s = time.monotonic()
    live(test, service=Service(model))
    assert time.monotonic() - started_s < 10
    model.gate.set()


def test_a_bug_of_ours_stops_the_server(monkeypatch):
    monkeypatch.setattr("amemdb.server.node.REPLIES_S_MAX", 0.05)
    model = Gated()
    model.gate.set()

    async def test(server: Live) -> None:
        client = await server.client()
        await client.ask(CREATE, OK)
        client.send(store("k", "bug"))
        await client.rest()

    with pytest.raises(AssertionError, match="a bug of the server's") as caught:
        live(test, service=Service(model))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_pings_do_not_wait_for_a_slow_endpoint():
    """Answers with much to read come in all the time, as numbers and in base64, while another connection pings."""
    with endpoints.Server() as server_of_vectors:
        rows = [[float(place % 7) for place in range(2000)] for _ in range(32)]
        numbers = endpoints.entries(rows)
        server_of_vectors.answers += [lambda handler, texts: handler.reply(200, numbers)] * 10_000

        model = endpoints.embedder(server_of_vectors)
        service = Service(model, batch_max=32)
        stop = threading.Event()

        def load() -> None:
            count = 0
            while not stop.is_set():
                service.embed([f"{count} {place}" for place in range(32)], 20)
                count += 1

        async def test(server: Live) -> None:
            client = await server.client()
            loader = threading.Thread(target=load)
            loader.start()
            try:
                took_s: list[float] = []
                end_s = time.perf_counter() + PING_SECONDS
                while time.perf_counter() < end_s:
                    started_s = time.perf_counter()
                    await client.ask(line("PING"), b"+PONG\r\n")
                    took_s.append(time.perf_counter() - started_s)
            finally:
                stop.set()
                await asyncio.to_thread(loader.join)
            took_s.sort()
            assert service.counts.requests > 2
            assert took_s[len(took_s) // 2] < 0.02, "half of the pings waited for the embedder"

        live(test, service=service)


# -- the start ---------------------------------------------------------------------------------------


class Loading(Gated):
    """A model that is loaded when the gate opens, or fails to."""

    def prepare(self) -> None:
        assert self.gate.wait(30)
        if self.failing:
            raise self._failed("no such file")


@pytest.mark.parametrize(
    ("failing", "told"), [(False, []), (True, ["embedder 'gated': no such file; it is tried again when it is needed"])]
)
def test_a_model_is_loaded_before_anything_is_served_and_its_failure_is_a_warning(caplog, failing, told):
    model = Loading()
    model.failing = failing
    service = Service(model)
    service.start()
    model.gate.set()
    with caplog.at_level(logging.INFO, "amemdb"):
        run._await_model(service)
    assert [record.getMessage() for record in caplog.records] == told
    service.close()


def test_a_model_that_takes_long_to_load_does_not_keep_the_server_from_starting(caplog, monkeypatch):
    monkeypatch.setattr(run, "MODEL_S_MAX", 0.01)
    model = Loading()
    service = Service(model)
    with caplog.at_level(logging.INFO, "amemdb"):
        run._await_model(service)
    assert "still being loaded" in caplog.text
    model.gate.set()
    service.close()


# -- a process ---------------------------------------------------------------------------------------


def test_settings_choose_the_embedder():
    assert service_of(Config()) is None
    service = service_of(Config({"embedder": "callable:amemdb.embed.trial:words#trial", "embedder-batch": 5}))
    assert service is not None
    assert service.embedder.name == "trial"
    service.close()


def test_a_process_with_an_endpoint_never_tells_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("AMEMDB_EMBEDDER_KEY", "sk-very-secret")
    with endpoints.Server() as endpoint:
        endpoint.answers += [endpoints.well, endpoints.status(401, "wrong key sk-very-secret")]
        spec = f"openai:m@{endpoint.base}"
        with ServerProcess(tmp_path / "data", "--embedder", spec, "--loglevel", "debug") as server:
            with redis.Redis(port=server.port) as client:
                client.execute_command("AMEM.SEM.CREATE", "a", 4)
                assert client.execute_command("AMEM.SEM.STORE", "a", "k", "north", "EMBED") == b"OK"
                with pytest.raises(redis.ResponseError, match="the endpoint refused the key"):
                    client.execute_command("AMEM.SEM.STORE", "a", "k2", "south", "EMBED")
                told = [client.info("everything"), client.config_get("*"), client.slowlog_get(128)]
                assert endpoint.seen[0]["key"] == "Bearer sk-very-secret"
                assert "sk-very-secret" not in str(told)
            assert server.stop() == 0
            assert "texts are embedded by 'm'" in server.output
            assert "sk-very-secret" not in server.output
    for file in (tmp_path / "data").iterdir():
        assert b"sk-very-secret" not in file.read_bytes()


def test_an_embedder_that_is_not_there_is_one_line_and_the_server_does_not_start(tmp_path):
    command = [sys.executable, "-m", "amemdb", "serve", "--port", "0", "--dir", str(tmp_path / "d")]
    done = subprocess.run(
        [*command, "--embedder", "callable:nowhere_at_all:f"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (told,) = [text for text in done.stderr.splitlines() if text.startswith("amemdb: ")]
    assert told.startswith("amemdb: embedder 'nowhere_at_all:f': cannot be imported: ModuleNotFoundError")
