"""One serving node: an engine, its log and its connections bound together on an event loop.

Everything that a test may want to replace comes in as an argument: stores, log, clock, loop, and what happens on a
bug. What makes a process of it (settings to files, signals, exit codes) is `amemdb.server.run`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from amemdb import native
from amemdb.clock import Clock
from amemdb.config import Config
from amemdb.embed.service import Service
from amemdb.engine.engine import CommitLog, Engine
from amemdb.engine.state import ServerState
from amemdb.server import turn as turns
from amemdb.server.connection import Host
from amemdb.server.embedding import ServerEmbedder
from amemdb.server.indexing import Indexing
from amemdb.server.listener import FAREWELLS_MIN, Listener
from amemdb.server.ticks import Ticks
from amemdb.stores.stores import Stores

if TYPE_CHECKING or not native.ENABLED:
    from amemdb.server.turn import Turn
else:
    from amemdb.server._turn import Turn

REPLIES_S_MAX = 5.0
"""How long a stop waits for replies that are still owed."""
PEERS_S_MAX = 0.1
"""How long it then waits for peers to close, so that they read their last replies."""
POLL_S = 0.005

_NS_PER_S = 1_000_000_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_log = logging.getLogger("amemdb")


class Log(CommitLog, turns.Log, Protocol):
    """What a node asks of its log: what the engine and the turn do, and its life."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve from now on; releases are reported on `loop`."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of frames in memory because they are not safe yet."""

    def status(self) -> Any:
        """What INFO tells."""

    async def close(self) -> None:
        """Make everything durable and close the files."""


class Node:
    """A server, from `start` to `stop`. The log calls `released` when it has released more."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        log: Log,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        bug: Callable[[BaseException, list[bytes] | None], NoReturn],
        sockets_max: int | None = None,
        service: Service | None = None,
    ) -> None:
        """`sockets_max` is how many sockets the system allows, where those are fewer than `maxclients` may need.

        `service` makes vectors of texts, if anything does; it is closed with the node.
        """
        self._loop = loop
        self._log = log
        self._stopping = asyncio.Event()
        self._threads = ThreadPoolExecutor(config.get("search-threads"), thread_name_prefix="search")
        chance = random.SystemRandom()
        run_id = f"{chance.getrandbits(160):040x}"
        self.state = ServerState(config, clock.monotonic_ns, random.Random(chance.getrandbits(64)), run_id)
        self.engine = Engine(stores, log, self.state, time.perf_counter_ns)
        self.turn = Turn(loop, log)
        self.host = Host(
            loop=loop,
            engine=self.engine,
            state=self.state,
            clock=clock,
            turn=self.turn,
            threads=self._threads,
            query_bytes_max=config.get("query-buffer-limit"),
            output_bytes_max=config.get("output-buffer-limit"),
            stall_ns=config.get("output-stall-timeout") * _NS_PER_S,
            idle_ns=config.get("timeout") * _NS_PER_S,
            bug=bug,
            hot=self.engine.hot,
        )
        clients_max = config.get("maxclients")
        if sockets_max is not None:
            clients_max = min(clients_max, sockets_max - FAREWELLS_MIN)
        self.listener = Listener(self.host, clients_max, config.get("tcp-keepalive"), sockets_max)
        self.ticks = Ticks(loop, self.engine, self.state, clock, self.turn, self.listener, stores.graveyard)
        self.indexing = Indexing(loop, stores.sem, bug)
        self._backlog: int = config.get("tcp-backlog")
        self._embedder: ServerEmbedder | None = None
        if service is not None:
            self._embedder = ServerEmbedder(service, loop, config.get("embedder-timeout"), bug)
        self._hook()

    def _hook(self) -> None:
        self.state.on_kill = self.listener.kill
        self.state.on_shutdown = self.request_stop
        self.state.sleep = time.sleep
        memory = self.state.memory
        memory.resident_bytes = resident_bytes
        memory.log_bytes = lambda: self._log.kept_bytes
        memory.on_refusing = self._tell_refusing
        self.state.log_status = self._log.status
        self.state.embedder = self._embedder

    def _tell_refusing(self, refusing: bool) -> None:
        if refusing:
            limit = self.state.memory.limit_bytes
            _log.warning("more than maxmemory (%d bytes) is used: writes that add data are refused", limit)
        else:
            _log.info("less than maxmemory is used again: all writes are taken")

    def released(self) -> None:
        """The log released more: replies that waited for it leave."""
        self.turn.released()

    async def start(self, sockets: list[socket.socket]) -> None:
        """Serve on `sockets`. Raises `ListenError`."""
        self._log.start(self._loop)
        await self.listener.listen(sockets, self._backlog)
        self.ticks.start()
        self.indexing.start()

    def request_stop(self) -> None:
        """Execute nothing more from now on; `stop` has to follow."""
        self._stopping.set()
        self.listener.close()
        self.listener.stop()

    async def stop_requested(self) -> None:
        """Wait for `request_stop`."""
        await self._stopping.wait()

    async def stop(self) -> None:
        """Let the replies that are owed go out, make the log durable, close everything."""
        self.request_stop()
        self.turn.touch()
        await self._while(lambda: self.listener.owes_replies, REPLIES_S_MAX)
        await self._while(lambda: self.listener.peers_remain, PEERS_S_MAX)
        self.ticks.stop()
        self.indexing.stop()
        self.listener.abort()
        for future in list(self.host.work):
            future.cancel()  # a result that came after the loop is closed would have nowhere to go
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._embedder is not None:
            self._embedder.close()
        if self.engine.hot is not None:
            self.engine.hot.hand_over()
        await self._log.close()

    async def _while(self, condition: Callable[[], bool], seconds_max: float) -> None:
        for _ in range(int(seconds_max / POLL_S)):
            if not condition():
                return
            await asyncio.sleep(POLL_S)


def resident_bytes() -> int:
    """Memory that the process has in use, or 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
