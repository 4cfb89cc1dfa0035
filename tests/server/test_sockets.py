"""A node on real sockets: what peers see, whatever they do."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from amemdb.commands.session import Session
from amemdb.commands.table import find
from amemdb.protocol.request import RequestParser
from amemdb.server.connection import UNSENT_HIGH, Connection
from amemdb.server.farewell import Farewell
from amemdb.server.node import resident_bytes
from tests.server.fakes import pending
from tests.server.live import Live, line, live, until

PING = line("PING")
MIB = 1 << 20


def test_a_command_pair_may_be_cut_anywhere():
    pair = line("SET", "k", "a\r\nb") + line("GET", "k")

    async def test(server: Live) -> None:
        for cut in range(1, len(pair)):
            client = await server.client()
            client.send(pair[:cut])
            await until(lambda: server.node.state.traffic.input_bytes % len(pair) == cut % len(pair))  # noqa: B023
            await client.ask(pair[cut:], b"+OK\r\n$4\r\na\r\nb\r\n")
            await client.close()
        client = await server.client()
        for byte in pair:
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        await client.expect(b"+OK\r\n$4\r\na\r\nb\r\n")

    live(test)


def test_a_long_pipeline_is_answered_completely_and_in_order():
    async def test(server: Live) -> None:
        client = await server.client()
        client.send(b"".join(line("ECHO", str(number)) for number in range(50_000)))
        await client.expect(b"".join(b"$%d\r\n%d\r\n" % (len(str(number)), number) for number in range(50_000)))

    live(test)


def test_work_off_the_loop_holds_up_its_own_connection_only():
    async def test(server: Live) -> None:
        may_end: Future[bytes] = Future()
        execute = server.node.engine.execute

        def with_work(session: Any, argv: list[bytes], now_ms: int) -> Any:
            if argv == [b"ECHO", b"work"]:
                return pending(session, argv, may_end.result, lambda reply: reply, find(argv))
            return execute(session, argv, now_ms)

        server.node.engine.execute = with_work  # type: ignore[method-assign]
        worker, other = await server.client(), await server.client()
        await worker.ask(line("ECHO", "a") + line("ECHO", "work") + PING, b"$1\r\na\r\n")
        for _ in range(20):
            await other.ask(PING, b"+PONG\r\n")
        may_end.set_result(b"worked")
        await worker.expect(b"$6\r\nworked\r\n+PONG\r\n")

    live(test)


# -- slow peers ----------------------------------------------------------------------------------


def test_a_peer_that_does_not_read_costs_little_memory_and_nobody_elses_time():
    async def test(server: Live) -> None:
        writer = await server.client()
        await writer.ask(line("SET", "big", b"." * MIB), b"+OK\r\n")
        lazy = await server.client()
        before = resident_bytes()
        lazy.writer.transport.pause_reading()
        lazy.send(line("GET", "big") * 2000)
        session = next(reversed(server.node.state.sessions.values()))
        await until(lambda: session.output_bytes > 0)
        other = await server.client()
        for _ in range(50):
            started = asyncio.get_running_loop().time()
            await other.ask(PING, b"+PONG\r\n")
            assert asyncio.get_running_loop().time() - started < 0.1
        server.node.listener.sweep(server.hand.ns)
        assert session.output_bytes < 4 * UNSENT_HIGH
        assert resident_bytes() - before < 24 * MIB
        server.sweep_after(31)
        assert server.node.state.stall_cuts == 1
        await until(lambda: session.id not in server.node.state.sessions)
        await other.ask(PING, b"+PONG\r\n")

    live(test)


def test_a_slow_reader_gets_everything_in_the_end():
    async def test(server: Live) -> None:
        client = await server.client()
        await client.ask(line("SET", "big", b"." * MIB), b"+OK\r\n")
        client.writer.transport.pause_reading()
        client.send((line("GET", "big") + line("ECHO", "x")) * 40)
        session = next(iter(server.node.state.sessions.values()))
        await until(lambda: session.output_bytes > 0)
        client.writer.transport.resume_reading()
        reply = b"$%d\r\n%b\r\n" % (MIB, b"." * MIB) + b"$1\r\nx\r\n"
        for _ in range(40):
            await client.expect(reply)

    live(test)


def test_many_half_sent_requests_take_no_effect_and_others_are_served():
    async def test(server: Live) -> None:
        half = line("SET", "k", "abcdefghi")[:-8]
        slow = [await server.client() for _ in range(300)]
        for client in slow:
            client.send(half)
        await until(lambda: server.node.state.traffic.input_bytes == 300 * len(half))
        other = await server.client()
        await other.ask(line("GET", "k"), b"$-1\r\n")
        for client in slow:
            await client.close()
        await until(lambda: len(server.node.state.sessions) == 1)
        await other.ask(line("GET", "k"), b"$-1\r\n")
        assert server.log.offset == 0

    live(test)


def test_a_connection_reset_in_the_middle_of_a_reply_harms_nobody():
    async def test(server: Live) -> None:
        other = await server.client()
        await other.ask(line("SET", "big", b"." * MIB), b"+OK\r\n")
        for _ in range(20):
            rude = socket.create_connection(("127.0.0.1", server.port))
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            rude.sendall(line("GET", "big") * 5)
            await other.ask(PING, b"+PONG\r\n")
            rude.close()
        await until(lambda: len(server.node.state.sessions) == 1)
        await other.ask(PING, b"+PONG\r\n")

    live(test)


# -- hostile bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"*1000000\r\n", b"unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$400000000\r\n", b"unauthenticated bulk length"),
        (b"*1\r\n$99999999999999999999\r\n", b"invalid bulk length"),
        (b"*1\r\n" * 60_000, b"expected '$', got '*'"),
        (b"A" * 70_000, b"too big inline request"),
    ],
)
def test_before_login_a_header_reserves_nothing_and_ends_the_connection(data, error):
    async def test(server: Live) -> None:
        other = await server.client()
        await other.ask(PING, b"-NOAUTH Authentication required.\r\n")
        before = resident_bytes()
        hostile = [await server.client() for _ in range(20)]
        for client in hostile:
            client.send(data)
        for client in hostile:
            assert await client.rest() == b"-ERR Protocol error: %b\r\n" % error
        assert resident_bytes() - before < 20 * MIB
        assert len(server.node.state.sessions) == 1
        assert server.node.state.protocol_errors == 20
        await other.ask(PING, b"-NOAUTH Authentication required.\r\n")

    live(test, requirepass="secret")


def test_the_error_and_earlier_replies_reach_a_peer_that_goes_on_sending():
    async def test(server: Live) -> None:
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        flood = PING + b"*1\r\n$bad\r\n" + b"." * (4 * MIB)
        await loop.sock_sendall(sock, flood)
        got = b""
        while data := await loop.sock_recv(sock, 65_536):
            got += data
        sock.close()
        assert got == b"+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"

    live(test)


def test_a_request_of_a_browser_has_no_effect():
    async def test(server: Live) -> None:
        client = await server.client()
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k v\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert await client.rest() == b""
        other = await server.client()
        await other.ask(line("GET", "k"), b"$-1\r\n")

    live(test)


# -- how many, how long --------------------------------------------------------------------------


def test_the_connection_too_many_reads_why_even_if_it_has_sent_something():
    async def test(server: Live) -> None:
        held = [await server.client() for _ in range(3)]
        for client in held:
            await client.ask(PING, b"+PONG\r\n")
        refused = [await server.client() for _ in range(10)]
        for client in refused:
            client.send(PING * 1000)
        for client in refused:
            assert await client.rest() == b"-ERR max number of clients reached\r\n"
        assert server.node.state.connections_rejected == 10
        await held.pop().close()
        await until(lambda: len(server.node.state.sessions) == 2)
        again = await server.client()
        await again.ask(PING, b"+PONG\r\n")

    live(test, maxclients=3)


def test_an_idle_connection_is_closed():
    async def test(server: Live) -> None:
        idle = await server.client()
        await idle.ask(PING, b"+PONG\r\n")
        server.sweep_after(60)
        server.sweep_after(1)
        assert await idle.rest() == b""
        assert server.node.state.idle_timeouts == 1

    live(test, timeout=60)


def test_quit_is_answered_and_then_the_server_closes():
    async def test(server: Live) -> None:
        client = await server.client()
        client.send(line("QUIT") + PING)
        assert await client.rest() == b"+OK\r\n"

    live(test)


def test_replies_reach_a_peer_that_closed_its_sending_side():
    async def test(server: Live) -> None:
        client = await server.client()
        client.send(PING * 1000)
        client.writer.write_eof()
        assert await client.rest() == b"+PONG\r\n" * 1000

    live(test)


def test_stop_sends_what_is_owed_and_closes_the_log():
    async def test(server: Live) -> None:
        client = await server.client()
        await client.ask(line("SET", "k", "v"), b"+OK\r\n")
        client.send(line("SET", "k", "w") + line("GET", "k"))
        await until(lambda: server.node.state.traffic.input_bytes > len(line("SET", "k", "v")))
        server.node.request_stop()
        assert await client.rest() == b"+OK\r\n$1\r\nw\r\n"
        with pytest.raises(OSError):
            await server.client()

    server = live(test)
    assert server.log.closed


def test_shutdown_is_not_answered_and_stops_the_node():
    async def test(server: Live) -> None:
        client, other = await server.client(), await server.client()
        await other.ask(PING, b"+PONG\r\n")
        client.send(line("SET", "k", "v") + line("SHUTDOWN") + line("SET", "k", "w"))
        assert await client.rest() == b"+OK\r\n"
        await asyncio.wait_for(server.node.stop_requested(), 1)
        assert await other.rest() == b""

    live(test)


def test_client_kill_closes_the_other_and_answers_the_caller():
    async def test(server: Live) -> None:
        victim, killer = await server.client(), await server.client()
        await victim.ask(PING, b"+PONG\r\n")
        ids = partial(list, server.node.state.sessions)
        await killer.ask(line("CLIENT", "KILL", "ID", str(ids()[0])), b":1\r\n")
        assert await victim.rest() == b""
        assert len(ids()) == 1

    live(test)


# -- memory --------------------------------------------------------------------------------------


def test_connections_that_ended_are_freed_without_the_collector():
    async def test(server: Live) -> None:
        gc.collect()
        gc.disable()
        try:
            for ending in (PING, b"*x\r\n", line("QUIT"), line("GET", "k")[:-3], b"POST /\r\n"):
                clients = [await server.client() for _ in range(5)]
                for client in clients:
                    client.send(PING + ending)
                await until(lambda: server.node.state.traffic.input_bytes > 0)
                for client in clients:
                    await client.close()
                await until(lambda: not server.node.listener.peers_remain)
            await asyncio.sleep(0.01)
            left = [item for item in gc.get_objects() if type(item) in (Connection, Farewell, RequestParser, Session)]
        finally:
            gc.enable()
        assert len(left) <= 1, "the engine keeps the session of the last command, and nothing else may remain"

    live(test)
