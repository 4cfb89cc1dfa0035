"""A server of the demo's own: on a free port, in a folder that goes with it, killed and started again at will."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

START_SECONDS_MAX = 30
_READY = re.compile(r"ready on 127\.0\.0\.1:(\d+)")
_LOADED = re.compile(r"loaded (.*? records) .*? in (.*)")


class ServerFailed(Exception):
    """The server did not start; the message says what it printed."""


class Server:
    """`amemdb serve` as a context manager. The port stays the same when it is started again."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="amemdb-demo-")
        self._output = Path(self._folder.name) / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self.data = Path(self._folder.name) / "data"
        self.port = 0
        self.loaded = ""
        """What the server said that it found in its folder when it was last started."""

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        """Start it and wait until it is ready."""
        command = [sys.executable, "-m", "amemdb", "serve", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--dir", str(self.data)]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS_MAX
        while (ready := _READY.search(self._said())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"the server did not start:\n{self._said()}")
            time.sleep(0.01)
        self.port = int(ready[1])
        loaded = _LOADED.search(self._said())
        self.loaded = f"{loaded[1]} in {loaded[2]}" if loaded else ""

    def kill(self) -> None:
        """`kill -9`: no goodbye, nothing flushed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _said(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")
