"""Threads that do the log's steps, one step at a time each: how a step gets there, and how its result comes back.

`PlainHand` takes steps from a queue and tells the loop with `call_soon_threadsafe`, all in Python. `NativeHand` does
the same around the twin `amemdb.persistence._writing`: its thread waits, writes and syncs without the GIL, so neither
the step nor the news of it waits for whoever holds that, and tells the loop through an eventfd. Only steps that are
rare (room, new segments, the end) run in Python there.

Which step is next is not decided here; see `amemdb.server.log_service`.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from amemdb import native
from amemdb.persistence.steps import Append, Done, Step, Sync
from amemdb.persistence.writer import LogWriter, failure

if TYPE_CHECKING or native.ENABLED:
    from amemdb.persistence._writing import Jobs

Result = Done | BaseException
"""A step that went, well or not, or the bug that ended it."""


class Hand(Protocol):
    """A thread for steps. Everything is the loop's to call."""

    def start(self, loop: asyncio.AbstractEventLoop, on_result: Callable[[], None]) -> None:
        """Begin; `on_result` is called on `loop` when there may be something to take."""

    def give(self, step: Step) -> None:
        """Have `step` done. Not before the result of the last one was taken."""

    def take(self) -> Result | None:
        """The result, if it is there and was not taken yet."""

    def wait(self) -> Result:
        """Wait for the result of the step under way, and take it."""

    def stop(self) -> None:
        """End the thread, after the step under way."""


class PlainHand:
    """The reference."""

    def __init__(self, writer: LogWriter, name: str) -> None:
        self._writer = writer
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self._results: SimpleQueue[Result] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._on_result: Callable[[], None]

    def start(self, loop: asyncio.AbstractEventLoop, on_result: Callable[[], None]) -> None:
        self._loop = loop
        self._on_result = on_result
        self._thread.start()

    def give(self, step: Step) -> None:
        self._steps.put(step)

    def take(self) -> Result | None:
        try:
            return self._results.get_nowait()
        except Empty:  # `wait` was faster
            return None

    def wait(self) -> Result:
        return self._results.get()

    def stop(self) -> None:
        self._steps.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (step := self._steps.get()) is not None:
            self._results.put(run(self._writer, step))
            try:
                self._loop.call_soon_threadsafe(self._on_result)
            except RuntimeError:  # the loop was closed without closing the log
                return


class NativeHand:
    """The twin, for a writer whose file has a `tail`; without one, and for other steps, the thread runs Python."""

    def __init__(self, writer: LogWriter, name: str) -> None:
        self._writer = writer
        self._notice = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._jobs = Jobs(self._notice)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._step: Step | None = None
        self._result: Result | None = None
        self._loop: asyncio.AbstractEventLoop

    def start(self, loop: asyncio.AbstractEventLoop, on_result: Callable[[], None]) -> None:
        self._loop = loop
        loop.add_reader(self._notice, on_result)
        self._thread.start()

    def give(self, step: Step) -> None:
        self._step = step
        if isinstance(step, Append) and (tail := self._writer.tail(step.at.number)) is not None:
            copy_tail, copy_position = None, 0
            if step.copy is not None:
                copy_tail, copy_position = self._writer.tail(step.copy.number), step.copy.position
            self._jobs.append(tail, step.at.position, step.blocks, step.durable, step.sync, copy_tail, copy_position)
        elif isinstance(step, Sync) and (tail := self._writer.tail(step.number)) is not None:
            self._jobs.sync(tail)
        else:
            self._jobs.ask()

    def take(self) -> Result | None:
        if not self._jobs.finished():  # `wait` was faster
            return None
        step, result = self._step, self._result
        self._step = self._result = None
        assert step is not None
        return self._done(step) if result is None else result

    def wait(self) -> Result:
        poll = select.poll()
        poll.register(self._notice, select.POLLIN)
        while (result := self.take()) is None:
            poll.poll()
        return result

    def stop(self) -> None:
        if self._step is not None:
            self.wait()
        self._jobs.stop()
        self._thread.join()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._notice)
        os.close(self._notice)

    def _done(self, step: Step) -> Done:
        """What the twin did."""
        jobs, times = self._jobs, self._writer.sync_times
        if not jobs.error:
            if jobs.synced:
                times.took(jobs.sync_ns)
            return Done(step)
        times.failures += jobs.synced
        return Done(step, failure(jobs.error), "sync" if jobs.synced else "write")

    def _work(self) -> None:
        while self._jobs.serve():
            assert self._step is not None
            self._result = run(self._writer, self._step)
            self._jobs.tell()


def run(writer: LogWriter, step: Step) -> Result:
    """Do `step`; a bug is the loop's to be told of, as a thread has nobody to raise it to."""
    try:
        return writer.run(step)
    except BaseException as bug:
        return bug
