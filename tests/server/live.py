"""A node on real sockets and uvloop, in the process of the test, with a log in memory and a clock in the hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import uvloop

from amemdb.config import Config
from amemdb.embed.service import Service
from amemdb.server.listener import bind
from amemdb.server.node import Node
from amemdb.stores.stores import Stores
from tests.server.fakes import FakeLog, Hand

SECONDS_MAX = 30


class Live:
    """A running node, and clients to it."""

    def __init__(self, config: Config, log: FakeLog, service: Service | None = None) -> None:
        self.hand = Hand()
        self.log = log
        self.bugs: list[BaseException] = []
        loop = asyncio.get_running_loop()
        self.node = Node(config, Stores(), log, self.hand.clock, loop, self._bug, service=service)
        self.port = 0
        self.test: asyncio.Task[Any] | None = None
        self._clients: list[Client] = []

    async def start(self) -> None:
        sockets = bind("127.0.0.1", 0)
        self.port = sockets[0].getsockname()[1]
        await self.node.start(sockets)

    async def client(self) -> Client:
        self._clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)))
        return self._clients[-1]

    async def stop(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()
        await self.node.stop()

    def sweep_after(self, seconds: float) -> None:
        """Let time pass, and have connections look at their limits."""
        self.hand.pass_s(seconds)
        self.node.listener.sweep(self.hand.ns)

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Anything that a callback raised."""
        self.bugs.append(context.get("exception") or AssertionError(context["message"]))
        if self.test is not None:
            self.test.cancel()

    def _bug(self, error: BaseException, argv: list[bytes] | None) -> NoReturn:
        raise error  # and the loop tells `on_loop_error`


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def expect(self, reply: bytes) -> None:
        """Read exactly `reply`."""
        got = await self.reader.readexactly(len(reply))
        assert got == reply, got[:200]

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        return await self.reader.read()

    async def ask(self, request: bytes, reply: bytes) -> None:
        self.send(request)
        await self.expect(reply)

    async def close(self) -> None:
        self.writer.close()


def line(*words: bytes | str) -> bytes:
    """A request."""
    tokens = [word.encode() if isinstance(word, str) else word for word in words]
    return b"".join([b"*%d\r\n" % len(tokens), *(b"$%d\r\n%b\r\n" % (len(token), token) for token in tokens)])


def live(
    test: Callable[[Live], Coroutine[Any, Any, Any]],
    log: FakeLog | None = None,
    service: Service | None = None,
    **settings: Any,
) -> Live:
    """Run `test` with a node of its own; nothing in it may have been a bug."""
    config = Config({name.replace("_", "-"): value for name, value in settings.items()})

    async def main() -> Live:
        server = Live(config, log or FakeLog(), service)
        asyncio.get_running_loop().set_exception_handler(server.on_loop_error)
        await server.start()
        server.test = asyncio.ensure_future(test(server))
        try:
            await asyncio.wait_for(server.test, SECONDS_MAX)
        except asyncio.CancelledError:
            assert server.bugs, "cancelled for no reason"
        finally:
            await server.stop()
        for error in server.bugs:
            raise AssertionError("a bug of the server's") from error
        return server

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until `condition` holds; the test's time limit is the deadline."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)
