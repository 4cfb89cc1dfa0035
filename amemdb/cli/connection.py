"""How the commands of the command line reach a server: one option, one connection, and refusals in words.

A connection is never made a second time behind the user's back, as nobody knows then what became of a command that was
on its way. Passwords come in the URL, best by `AMEMDB_URL`, and are in no message.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import click
import redis
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from amemdb.client.urls import redis_url
from amemdb.errors import printable

DEFAULT_URL = "redis://localhost:6379/0"
CONNECT_TIMEOUT_S = 10
_HOST_PORT = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}(/[0-9]*)?", re.ASCII)
F = TypeVar("F", bound=Callable[..., Any])


class Unreachable(Exception):
    """No server, or none that lets us in: one line that says what to do."""


def url_option(command: F) -> F:
    """The option `--url`. What redis-cli has in its place is refused with the words that say so."""
    url = click.option(
        "--url",
        default=DEFAULT_URL,
        show_default=True,
        envvar="AMEMDB_URL",
        callback=lambda ctx, parameter, value: whole_url(value),
        help="Server: host:port, redis://[[user]:password@]host:port/db, or unix:///path. Also AMEMDB_URL.",
    )
    others = click.option("--host", "--port", "-p", "elsewhere", hidden=True, expose_value=False, callback=_elsewhere)
    return url(others(command))


def whole_url(text: str) -> str:
    """The URL that is meant: `host:port` is enough where there is no login."""
    return f"redis://{text}" if _HOST_PORT.fullmatch(text) else text


def _elsewhere(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        place = f"localhost:{value}" if value.isdigit() else "HOST:PORT"
        raise click.UsageError(
            f"there is no --host and no --port: the server is named by --url {printable(place.encode())}"
        )


def client_of(url: str, timeout_s: float | None = None) -> redis.Redis:
    """A client of RESP3 that has not yet connected; `click.UsageError` for what is no URL of a server."""
    try:
        return redis.Redis.from_url(
            redis_url(url),
            protocol=3,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=timeout_s,
            client_name="amemdb-cli",
            maint_notifications_config=MaintNotificationsConfig(enabled=False),  # a request that we would refuse
        )
    except ValueError as error:
        raise click.UsageError(f"--url: {error}") from None


def connected(url: str, timeout_s: float | None = 120) -> redis.Redis:
    """A client of a server that answers and has let us in, else `click.UsageError`."""
    client = client_of(url, timeout_s)
    try:
        client.ping()
    except redis.RedisError as error:
        client.close()
        raise click.UsageError(reason_of(error, url)) from None
    return client


def reason_of(error: Exception, url: str) -> str:
    """What went wrong with the server at `url`, and what to do."""
    said = _text(error)
    if isinstance(error, redis.AuthenticationError) or said.startswith(("NOAUTH", "WRONGPASS", "invalid username")):
        return (
            f"{address_of(url)} asks for a password, or another one: --url redis://:PASSWORD@HOST:PORT, or AMEMDB_URL"
        )
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ConnectionRefusedError) or "Connection refused" in said:
        return f"nothing answers at {address_of(url)}: 'amemdb serve' starts a server, --url names another"
    if isinstance(cause, socket.gaierror):
        return f"there is no host of that name: {address_of(url)}"
    return f"{address_of(url)}: {said}"


def address_of(url: str) -> str:
    """The server as it can be shown: host and port without the login."""
    options = client_of(url).connection_pool.connection_kwargs
    path = options.get("path")
    if path:
        return str(path)
    host = str(options.get("host", "localhost"))
    return f"{f'[{host}]' if ':' in host else host}:{options.get('port', 6379)}"


def is_loopback(url: str) -> bool:
    """Whether the server is reached on this machine."""
    options = client_of(url).connection_pool.connection_kwargs
    return "path" in options or options.get("host", "localhost") in ("localhost", "127.0.0.1", "::1")


def _text(error: Exception) -> str:
    return printable((str(error) or type(error).__name__).encode("utf-8", "replace"), 400).rstrip(".")
