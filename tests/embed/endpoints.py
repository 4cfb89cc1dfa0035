"""A small HTTP server that answers as an embeddings endpoint does, well or badly, as a test has laid out for it."""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from amemdb.embed.endpoint import EndpointEmbedder, Means

Answer = Callable[["Handler", list[str]], None]


def vector(text: str, dim: int = 4) -> list[float]:
    """What the endpoint makes of a text: exact as float32, and different for different texts."""
    return [float(sum(text.encode("utf-8", "surrogatepass")) + place) for place in range(dim)]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen = {"path": self.path, "key": self.headers.get("Authorization"), "peer": self.client_address[1], **body}
        self.server.seen.append(seen)
        answer = self.server.answers.popleft() if self.server.answers else well
        answer(self, body["input"])

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


class Server(ThreadingHTTPServer):
    """Answers `well` unless something else is next in `answers`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: deque[Answer] = deque()
        self.seen: list[dict[str, Any]] = []
        self.clients: list[EndpointEmbedder] = []
        self.released = threading.Event()
        """What `slow` waits for."""
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *of_error: object) -> None:
        self.released.set()
        for client in self.clients:
            client.close()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # clients that leave in the middle are part of the tests


def entries(vectors: list[Any]) -> bytes:
    """A body with these vectors."""
    data = [{"object": "embedding", "index": place, "embedding": value} for place, value in enumerate(vectors)]
    return json.dumps({"object": "list", "data": data, "model": "m", "usage": {"total_tokens": 3}}).encode()


def well(handler: Handler, texts: list[str]) -> None:
    """As numbers."""
    handler.reply(200, entries([vector(text) for text in texts]))


def well_in_base64(handler: Handler, texts: list[str]) -> None:
    packed = [base64.b64encode(struct.pack("<4f", *vector(text))).decode() for text in texts]
    handler.reply(200, entries(packed))


def slow(handler: Handler, texts: list[str]) -> None:
    """Once the test lets it."""
    handler.server.released.wait(60)
    well(handler, texts)


def status(code: int, said: str = "no", **headers: str) -> Answer:
    return lambda handler, texts: handler.reply(code, json.dumps({"error": {"message": said}}).encode(), **headers)


def body(data: bytes) -> Answer:
    return lambda handler, texts: handler.reply(200, data)


def raw(data: bytes) -> Answer:
    """What is no answer at all, then the end of the connection."""

    def answer(handler: Handler, texts: list[str]) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def cut(handler: Handler, texts: list[str]) -> None:
    """Half an answer, then the end of the connection."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


def hang_up(handler: Handler, texts: list[str]) -> None:
    """The end of the connection, without an answer."""
    handler.close_connection = True


def embedder(server: Server, key: str = "", timeout_s: float = 20.0, means: Means | None = None) -> EndpointEmbedder:
    """One that is closed with the server."""
    server.clients.append(EndpointEmbedder("m", "m", urlsplit(server.base), lambda: key, timeout_s, means))
    return server.clients[-1]
