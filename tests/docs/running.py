"""How the blocks of one page are run: one server, one Python namespace and one folder a page.

Ports in the text are those a reader has, 6379 for amemdb. On pages of `COMING_FROM` amemdb is at 6380, and at 6379 what
the reader comes from: a real Redis, or for HotKV another amemdb. Lines of `sh` are run as far as that makes sense: see
`Reader._typed`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hotkv
import pytest
import redis

from amemdb.config import Config
from tests.docs.blocks import Block
from tests.process import ServerProcess
from tests.tidy.source import ROOT

COMING_FROM = {"docs/from-redis.md": "redis", "docs/from-hotkv.md": "amemdb"}
SERVED_WITH = {"docs/embedders.md": ("--embedder", "callable:amemdb.embed.trial:words")}
"""Options of the server that a page asks, where its text has it started with some."""
TYPED = {"amemdb", "redis-cli", "cp", "echo", "ls", "mkdir", "tar"}
"""What may stand first in a line for the shell: nothing that reaches out of the folder."""
SECONDS_MAX = 60
DATA = "amemdb-data"


class Reader:
    """Somebody who types what the page says."""

    def __init__(self, page: str, folder: Path) -> None:
        self._folder = folder
        self._page = page
        self._namespace: dict[str, Any] = {"__name__": "__main__"}
        self._server: ServerProcess | None = None
        self._other: ServerProcess | None = None
        self._redis: subprocess.Popen[bytes] | None = None
        self._redis_port = 0
        self._runners: dict[str, Callable[[Block], str]] = {
            "python": self._python,
            "redis": self._redis_cli,
            "sh": self._shell,
            "json": self._import,
            "toml": self._settings,
        }

    @property
    def languages(self) -> set[str]:
        return set(self._runners)

    def run(self, block: Block) -> str:
        """What the block prints. Fails where it fails."""
        return self._runners[block.language](block)

    def close(self) -> None:
        for value in self._namespace.values():
            if isinstance(value, (redis.Redis, hotkv.HotKV)):
                value.close()
        for server in (self._server, self._other):
            if server is not None:
                server.stop()
        if self._redis is not None:
            self._redis.kill()
            self._redis.wait()

    # -- servers -------------------------------------------------------------------------------------

    @property
    def server(self) -> ServerProcess:
        """The page's server, started when it is first needed."""
        if self._server is None:
            server = ServerProcess(self._folder / DATA, *SERVED_WITH.get(self._page, ()))
            server.start()
            self._server = server
        return self._server

    def _here(self, text: str) -> str:
        """`text` with the ports that things really are at."""
        if "6379" not in text and "6380" not in text:
            return text
        coming_from = COMING_FROM.get(self._page)
        if coming_from is None:
            return text.replace("6379", str(self.server.port))
        before = self._real_redis() if coming_from == "redis" else self._another()
        ports = {"6379": str(before), "6380": str(self.server.port)}
        return re.sub("6379|6380", lambda port: ports[port[0]], text)

    def _another(self) -> int:
        if self._other is None:
            other = ServerProcess(self._folder / "other")
            other.start()
            self._other = other
        return self._other.port

    def _real_redis(self) -> int:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("needs redis-server, as the page compares with it")
        if self._redis is None:
            self._redis_port = _free_port()
            self._redis = subprocess.Popen(
                [program, "--port", str(self._redis_port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"],
                cwd=self._folder,
                stdout=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + SECONDS_MAX
            while time.monotonic() < deadline:
                with contextlib.suppress(redis.ConnectionError), redis.Redis(port=self._redis_port) as client:
                    client.ping()
                    break
                time.sleep(0.01)
        return self._redis_port

    # -- languages -----------------------------------------------------------------------------------

    def _python(self, block: Block) -> str:
        code = compile("\n" * block.line + self._here(block.text), str(block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self._namespace)  # noqa: S102  (the page's code is ours)
        return printed.getvalue()

    def _redis_cli(self, block: Block) -> str:
        """Typed into redis-cli. Without one it is sent all the same, and what would be printed is not compared."""
        if shutil.which("redis-cli") is None:
            with redis.Redis(port=self.server.port) as client:
                for line in block.text.splitlines():
                    with contextlib.suppress(redis.ResponseError):
                        client.execute_command(*shlex.split(line))
            return block.output or ""
        printed = self._call(["redis-cli", "--no-raw", "-p", str(self.server.port)], block.text)
        assert "(error)" not in printed or "(error)" in (block.output or ""), f"{block.place}: {printed}"
        return printed

    def _import(self, block: Block) -> str:
        file = self._folder / "memory.jsonl"
        file.write_text(block.text, encoding="utf-8")
        url = f"redis://127.0.0.1:{self.server.port}"
        return self._call([sys.executable, "-m", "amemdb", "import", str(file), "--strict", "--url", url])

    def _settings(self, block: Block) -> str:
        file = self._folder / "amemdb.toml"
        file.write_text(block.text, encoding="utf-8")
        Config.load({}, {}, file)
        return ""

    def _shell(self, block: Block) -> str:
        printed = ""
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                printed += self._typed(line, words, block)
        return printed

    def _typed(self, line: str, words: list[str], block: Block) -> str:
        """One line. `make` only says what it would do, and a server is started and stopped. The rest is for bash."""
        program, *rest = words
        name = program.rpartition("/")[2]
        if name == "make":
            self._call(["make", "--dry-run", *rest], cwd=ROOT)
            if rest[0] == "serve":
                self._serve(shlex.split("".join(rest[1:]).removeprefix("ARGS=")))
            return ""
        if name == "amemdb" and rest[0] == "serve":
            self._serve(rest[1:])
            return ""
        assert name in TYPED, f"{block.place}: it is not known how to run {name}"
        if "redis-cli" in line and shutil.which("redis-cli") is None:
            return block.output or ""
        self._put_programs()
        line = re.sub(r"--url \S+", f"--url redis://127.0.0.1:{self.server.port}", line).replace(".venv/bin/", "")
        return self._call(["bash", "-euo", "pipefail", "-c", line])

    def _put_programs(self) -> None:
        """What a reader calls by name, as small scripts that go to the page's server."""
        programs = self._folder / "bin"
        programs.mkdir(exist_ok=True)
        redis_cli = f"{shutil.which('redis-cli')} -p {self.server.port}"
        for name, command in (("amemdb", f"{sys.executable} -m amemdb"), ("redis-cli", redis_cli)):
            (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            (programs / name).chmod(0o755)

    def _serve(self, options: list[str]) -> None:
        """Start a server as asked and stop it, but on a free port, and in a folder inside the page's."""
        given = dict(zip(options[::2], options[1::2], strict=True))
        folder = self._folder / given.pop("--dir", "served").strip("/").replace("/", "-")
        for name in ("--port", "--host"):
            given.pop(name, None)
        with ServerProcess(folder, *(word for pair in given.items() for word in pair)):
            pass

    # -- processes -----------------------------------------------------------------------------------

    def _call(self, words: list[str], typed: str = "", cwd: Path | None = None) -> str:
        done = subprocess.run(
            words,
            input=typed,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            cwd=cwd or self._folder,
            env={
                **os.environ,
                "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self._folder),
                "AMEMDB_URL": f"redis://127.0.0.1:{self._server.port if self._server else 0}",
                "PYTHONPATH": str(ROOT),
                "NO_COLOR": "1",
            },
        )
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
