"""The index thread: makes the graphs of large semantic memories, a little at a time, while searches and stores go on.

One thread does the long work, and touches nothing but the graph that it makes, which nobody searches yet. What it adds
is copied for it on the loop, some rows at a time, and the finished graph is put in place on the loop. So searches never
wait for it, and where there is a processor for all, they have it first (`NICE`). See `amemdb.index.tiered`.

Every `TICK_S` it looks which memories have something to be made. Those that did not change for `QUIET_S` get what only
makes later searches faster. Of several merges the one that has the least left to do goes on first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

from amemdb.index import graph
from amemdb.index.merge import Merge
from amemdb.server import huge_pages
from amemdb.stores.semantic import Namespace, SemanticStore

TICK_S = 0.1
QUIET_S = 3.0
NICE = 10
"""On a processor that it shares with the event loop it has a tenth. Not less: now and then it holds Python's lock, and
then the loop waits for it, and for other processes at its side. Services that the system keeps apart, as containers or
units of systemd, are not at its side."""
TOLD_ROWS_MIN = 50_000
"""A graph of that many vectors is worth a line in the log: it takes a minute or so."""

_log = logging.getLogger("amemdb")


class Indexing:
    """The index thread of one server, from `start` to `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: SemanticStore,
        bug: Callable[[BaseException, list[bytes] | None], NoReturn],
    ) -> None:
        self._loop = loop
        self._store = store
        self._bug = bug
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="index", initializer=_stand_back)
        self._handle: asyncio.TimerHandle | None = None
        self._merging: dict[Merge, tuple[Namespace, float]] = {}
        """Merges under way, of what, and since when."""
        self._work: asyncio.Future[None] | None = None
        self._changed: dict[bytes, tuple[Namespace, int, float]] = {}
        """By agent the generation of its index when it was last seen to change, and when that was."""
        self._stopped = False

    def start(self) -> None:
        """Look for something to do from now on."""
        if not graph.IS_AVAILABLE:
            _log.warning("hnswlib is not installed: large semantic memories are searched exactly, which takes longer")
            return
        self._tick()

    def stop(self) -> None:
        """Begin nothing more. What the thread is at takes some tens of milliseconds, and is thrown away."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
        if self._work is not None:
            self._work.cancel()  # a result that came after the loop is closed would have nowhere to go
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _tick(self) -> None:
        if self._stopped:
            return
        self._handle = self._loop.call_later(TICK_S, self._tick)
        self.look(self._loop.time())
        self._go_on()

    # -- what is to be done --------------------------------------------------------------------------

    def look(self, now_s: float) -> None:
        """Begin the merges that are due."""
        for agent in list(self._store.unsettled):
            namespace = self._store.namespaces.get(agent)
            if namespace is None or not namespace.index.is_large:
                self._settled(agent)
            elif namespace.index.is_due():
                self._begin(namespace, now_s, False)
            elif self._is_quiet(namespace, now_s):
                if namespace.index.is_due(True):
                    self._begin(namespace, now_s, True)
                elif not namespace.index.merges:
                    self._settled(agent)

    def _settled(self, agent: bytes) -> None:
        self._store.unsettled.discard(agent)
        self._changed.pop(agent, None)

    def _is_quiet(self, namespace: Namespace, now_s: float) -> bool:
        generation = namespace.index.generation
        known, known_generation, since_s = self._changed.get(namespace.agent, (None, 0, 0.0))
        if known is not namespace or known_generation != generation:
            self._changed[namespace.agent] = namespace, generation, now_s
            return False
        return now_s - since_s >= QUIET_S

    def _begin(self, namespace: Namespace, now_s: float, quiet: bool) -> None:
        with huge_pages.for_what_comes(namespace.graph_bytes_max()):
            merge = self._store.tend(namespace, lambda index: index.begin(quiet))
        self._merging[merge] = namespace, now_s
        if merge.total >= TOLD_ROWS_MIN:
            _log.info("making a graph of %d vectors, searches are exact or use those there are", merge.total)

    # -- doing it ------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Have the thread do the next piece of work, if it has none and there is any."""
        if self._work is not None or self._stopped:
            return
        for merge, (namespace, _) in list(self._merging.items()):
            if self._store.namespaces.get(namespace.agent) is not namespace or merge not in namespace.index.merges:
                del self._merging[merge]  # dropped, or become too small
        while self._merging and self._work is None:
            merge = min(self._merging, key=_left)
            namespace, since_s = self._merging[merge]
            work = self._next(merge, namespace)
            if work is None:
                self._publish(merge, namespace, since_s)
                continue
            self._work = self._loop.run_in_executor(self._thread, work)
            self._work.add_done_callback(self._worked)

    def _next(self, merge: Merge, namespace: Namespace) -> Callable[[], None] | None:
        return self._store.tend(namespace, lambda index: merge.next())

    def _publish(self, merge: Merge, namespace: Namespace, since_s: float) -> None:
        del self._merging[merge]
        self._store.tend(namespace, lambda index: index.publish(merge))
        if merge.total >= TOLD_ROWS_MIN:
            _log.info("made a graph of %d vectors in %.0f s", merge.total, self._loop.time() - since_s)

    def _worked(self, future: asyncio.Future[None]) -> None:
        self._work = None
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._bug(error, None)
        self._go_on()


def _stand_back() -> None:
    if sys.platform == "linux":  # elsewhere it would be the whole process
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


def _left(merge: Merge) -> int:
    return merge.total - merge.done
