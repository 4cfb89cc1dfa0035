"""A real server process for tests: started on a free port, waited for, stopped or killed, its output kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

START_SECONDS_MAX = 60
LISTENING = re.compile(r"ready on 127\.0\.0\.1:(\d+)")


class ServerProcess:
    """`python -m amemdb serve` on a data folder, as a context manager; `environment` adds to that of the test."""

    def __init__(self, directory: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._options = options
        self._environment = {**os.environ, **(environment or {})}
        self._output = directory.parent / f"{directory.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """All that the server has printed so far."""
        return self._output.read_text(errors="replace")

    def start(self) -> None:
        """Start and wait until the server says that it is ready."""
        before = len(self.output) if self._output.exists() else 0
        command = [sys.executable, "-m", "amemdb", "serve", "--port", "0", "--dir", str(self.directory), *self._options]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=self._environment
            )
        self.wait_until(lambda: LISTENING.search(self.output, before) is not None, "the server to be ready")
        found = LISTENING.search(self.output, before)
        assert found is not None
        self.port = int(found[1])

    def stop(self) -> int:
        """SIGTERM, and the exit code; nothing if it is gone already."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the server did not stop on SIGTERM:\n{self.output[-4000:]}") from None

    def kill(self) -> None:
        """SIGKILL: no flush, no goodbye."""
        assert self._process is not None
        process, self._process = self._process, None
        process.kill()
        process.wait()

    def wait_until(self, condition: Callable[[], bool], what: str, poke: Callable[[], Any] | None = None) -> None:
        """Poll `condition`, calling `poke` in between, up to a generous deadline."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not condition():
            if self._process is not None and self._process.poll() is not None:
                raise AssertionError(f"the server ended with {self._process.returncode}:\n{self.output[-4000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}:\n{self.output[-4000:]}")
            if poke is not None:
                poke()
            time.sleep(0.005)
